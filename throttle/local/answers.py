"""What the site answers: the behaviour it was told, a page of a folder, or a default page."""

import html
from dataclasses import replace
from pathlib import Path

from throttle.local.origin import Behaviour

HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_TYPES = {".html": HTML, ".txt": _TEXT}
_PORT_MARK = b":__PORT__/"
_ROBOTS = "/robots.txt"
_NOT_THERE = Behaviour(404, body=b"not here\n", headers=(("Content-Type", _TEXT),))


class Answers:
    """Which behaviour is next for a host and path."""

    def __init__(self, pages: Path | None, port: int) -> None:
        self._told: dict[tuple[str, str], list[Behaviour]] = {}
        self._pages = _load(pages, port) if pages else None

    def set(self, host: str, path: str, behaviours: list[Behaviour]) -> None:
        """Use these from now on: each once, the last for good."""
        self._told[host, path] = behaviours

    def clear(self) -> None:
        """Back to the pages alone."""
        self._told.clear()

    def next_for(self, host: str, target: str) -> Behaviour:
        """The behaviour for one request, with its body filled in."""
        path = target.partition("?")[0]
        behaviour = self._told_for(host, target, path)
        if behaviour is None:
            return self._page(host, target, path)
        if behaviour.body is None and not behaviour.raw:
            page = self._page(host, target, path)
            given = {name.lower() for name, _ in behaviour.headers}
            kept = tuple(pair for pair in page.headers if pair[0].lower() not in given)
            return replace(behaviour, body=page.body, headers=behaviour.headers + kept)
        return behaviour

    def _told_for(self, host: str, target: str, path: str) -> Behaviour | None:
        if not self._told:
            return None
        rest = () if path == _ROBOTS else ("*",)
        for named in (host, "*"):
            for place in (target, path, *rest):
                behaviours = self._told.get((named, place))
                if behaviours:
                    return behaviours.pop(0) if len(behaviours) > 1 else behaviours[0]
        return None

    def _page(self, host: str, target: str, path: str) -> Behaviour:
        if self._pages is not None:
            return self._pages.get((host, path), _NOT_THERE)
        if path == _ROBOTS:
            return _NOT_THERE
        title = html.escape(f"{target} at {host}")
        page = f"<!doctype html><title>{title}</title><h1>{title}</h1>\n"
        return Behaviour(body=page.encode(), headers=(("Content-Type", HTML),))


def _load(folder: Path, port: int) -> dict[tuple[str, str], Behaviour]:
    pages: dict[tuple[str, str], Behaviour] = {}
    for file in folder.glob("*/**/*"):
        if not file.is_file():
            continue
        host, *parts = file.relative_to(folder).parts
        path = "/" + "/".join(parts)
        if parts[-1] == "index.html":
            path = path.removesuffix("index.html")
        body = file.read_bytes().replace(_PORT_MARK, f":{port}/".encode())
        kind = _TYPES.get(file.suffix, "application/octet-stream")
        pages[host, path] = Behaviour(body=body, headers=(("Content-Type", kind),))
    return pages
