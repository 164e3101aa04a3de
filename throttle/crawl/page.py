"""What user code gets and gives back: one function from a page to links and records."""

import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from throttle.crawl.links import extract
from throttle.errors import InvalidURL, SettingsError, UsageError
from throttle.model import Response
from throttle.urls import canonical


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was fetched: status 2xx, body decoded from its content coding (bytes)."""

    url: str
    depth: int
    response: Response


@dataclass(frozen=True, slots=True)
class Found:
    """What a page gave: links to follow, and records (JSON-able) to store beside it."""

    links: Sequence[str] = ()
    records: Sequence[Mapping[str, Any]] = ()


OnPage = Callable[[Page], Found]


def follow_links(page: Page, product: str) -> Found:
    """The default: the page's own links, as its author allows them to be followed."""
    response = page.response
    found = extract(
        response.body,
        page.url,
        response.header("content-type"),
        x_robots_tag="\n".join(response.all_headers("x-robots-tag")),
        product=product,
    )
    return Found(links=found.links)


def checked(found: object, url: str) -> Found:
    """What user code gave back for the page at `url`, its links joined to that URL.

    Raises `UsageError` naming what is wrong: not a `Found`, a link that is no text, a record that
    is not JSON. Links that cannot be crawled are refused one by one, later.
    """
    if not isinstance(found, Found):
        raise UsageError(f"on_page must give back a Found, got {type(found).__name__}")
    links = []
    for link in found.links:
        if not isinstance(link, str):
            raise UsageError(f"on_page gave a link that is no text: {link!r:.80}")
        try:
            links.append(canonical(link, url))
        except InvalidURL:
            links.append(link)
    try:
        json.dumps(list(found.records))
    except (TypeError, ValueError) as error:
        raise UsageError(f"on_page gave a record that is not JSON: {error}") from error
    return Found(links, found.records)


def load_on_page(name: str, product: str) -> OnPage:
    """The function that the setting `on_page` names as `module:function`; the default for ''.

    Raises `SettingsError` naming what was not found.
    """
    if not name:
        return lambda page: follow_links(page, product)
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        raise SettingsError(
            f"THROTTLE_ON_PAGE: cannot load {name!r} ({error}); write module:function, with the"
            " module on the Python path of the worker"
        ) from error
    if not callable(function):
        raise SettingsError(f"THROTTLE_ON_PAGE: {name!r} is not a function")
    return function  # type: ignore[no-any-return]  # user code: its types are its own
