"""The demo's site: the standard library's documentation as `pydoc` writes it, on twelve hosts."""

import contextlib
import html
import importlib
import io
import pkgutil
import pydoc
import re
import shutil
import subprocess
import sys
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from throttle.errors import LocalServerError
from throttle.local.directory import LOOPBACK

HOSTS = tuple(f"{letter}.pydoc.example" for letter in "abcdefghijkl")
PRIVATE = "/private/notes.html"
_ROOT = Path(__file__).parents[2]
_MADE_BY = "made-by"
_TIMEOUT_S = 120.0
# Importing these opens windows or browsers, prints, or takes long; tests are no documentation.
_SKIPPED = frozenset(
    [
        *("this", "antigravity", "idlelib", "turtle", "turtledemo", "tkinter", "lib2to3", "test"),
        *("ensurepip", "distutils", "pydoc_data", "encodings", "__main__", "curses"),
    ]
)
_LINK = re.compile(r'<a\s+href="([^"]*)"([^>]*)>(.*?)</a>', re.DOTALL | re.IGNORECASE)
_RULES = "User-agent: *\nDisallow: /private/\n"


@dataclass(frozen=True, slots=True)
class SampleSite:
    """A folder for `Origin(pages=...)`: its hosts and how many pages may be crawled."""

    folder: Path
    hosts: tuple[str, ...]
    pages: int

    def seeds(self, port: int) -> list[str]:
        """The first page of each host."""
        return [f"http://{host}:{port}/" for host in self.hosts]

    def hosts_file(self) -> str:
        """The lines of a hosts file that lead to the site on this machine."""
        return "".join(f"{LOOPBACK} {host}\n" for host in self.hosts)


def sample_site(folder: Path) -> SampleSite:
    """The site in `folder`, made there (some seconds) unless it is there for this Python.

    Raises `LocalServerError` when it cannot be made.
    """
    folder = Path(folder).absolute()
    made = folder / _MADE_BY
    if not made.exists() or made.read_text(encoding="utf-8") != sys.version:
        _make_apart(folder)
    pages = sum(1 for host in HOSTS for _ in (folder / host).glob("*.html"))
    return SampleSite(folder, HOSTS, pages)


def _make_apart(folder: Path) -> None:
    # In a process of its own: importing the whole standard library would stay with us.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "throttle.local.sample", str(folder)],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        raise LocalServerError(
            f"cannot make the sample site: {error}\n{said.decode('utf-8', 'replace')[-2000:]}"
        ) from error


def make(folder: Path) -> None:
    """Write all pages into `folder`. Imports the standard library: call it in a fresh process."""
    documents = dict(_documents())
    known = frozenset(documents)
    for name, document in documents.items():
        _write(folder, host_of(name), f"{name}.html", rewrite_links(document, known))
    for number, host in enumerate(HOSTS):
        names = sorted(name for name in known if host_of(name) == host)
        _write(folder, host, "index.html", _index(host, names, HOSTS[(number + 1) % len(HOSTS)]))
        _write(folder, host, "robots.txt", _RULES)
        _write(folder, host, PRIVATE.lstrip("/"), "<title>Private</title>Not for crawlers.\n")
    (folder / _MADE_BY).write_text(sys.version, encoding="utf-8")


def host_of(module: str) -> str:
    """The host that has the page of `module`."""
    return HOSTS[zlib.crc32(module.encode()) % len(HOSTS)]


def rewrite_links(document: str, known: frozenset[str]) -> str:
    """`document` with links to the `known` modules made absolute and all others taken off.

    Links within the page stay.
    """

    def rewritten(link: re.Match[str]) -> str:
        href, rest, text = link.groups()
        page, hash_sign, fragment = href.partition("#")
        if not page and hash_sign:
            return link[0]
        name = page.removesuffix(".html")
        if name == page or name not in known:
            return text
        return f'<a href="{_url(host_of(name), page)}{hash_sign}{fragment}"{rest}>{text}</a>'

    return _LINK.sub(rewritten, document)


def _url(host: str, page: str) -> str:
    # The site puts its port here when it loads the page.
    return f"http://{host}:__PORT__/{page}"


def _index(host: str, names: list[str], next_host: str) -> str:
    lines = [f'<li><a href="{_url(host, name)}.html">{html.escape(name)}</a>' for name in names]
    return (
        f"<!doctype html><title>Modules at {host}</title>\n<ul>\n" + "\n".join(lines) + "\n</ul>\n"
        f'<a href="{_url(next_host, "")}">more modules</a>\n<a href="{PRIVATE}">private</a>\n'
    )


def _write(folder: Path, host: str, name: str, text: str) -> None:
    file = folder / host / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", errors="replace")


def _documents() -> Iterator[tuple[str, str]]:
    writer = pydoc.HTMLDoc()
    for name in sorted(sys.stdlib_module_names):
        if name.startswith("_") or name in _SKIPPED:
            continue
        module = _imported(name)
        if module is None:
            continue
        for each in (module, *_submodules(module)):
            document = _document(writer, each)
            if document is not None:
                yield each.__name__, document


def _submodules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(getattr(package, "__path__", []), package.__name__ + "."):
        last = found.name.rpartition(".")[2]
        if not last.startswith("_") and last not in _SKIPPED:
            module = _imported(found.name)
            if module is not None:
                yield module


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def _imported(name: str) -> ModuleType | None:
    # Whatever a module does when it is imported on a system it is not made for.
    try:
        with _silence():
            return importlib.import_module(name)
    except (Exception, SystemExit):  # noqa: BLE001  (such a module has no page)
        return None


def _document(writer: pydoc.HTMLDoc, module: ModuleType) -> str | None:
    try:
        with _silence():
            text = writer.document(module, module.__name__)
            return str(writer.page(f"Python: module {module.__name__}", text))
    except Exception:  # noqa: BLE001  (a module pydoc cannot show has no page)
        return None


if __name__ == "__main__":
    make(Path(sys.argv[1]))
