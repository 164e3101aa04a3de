"""The links, the title and the robots wishes of an HTML page.

lxml reads the tags and tells them as they come; no tree is built, since what a tree costs is for
the page to choose: measured with another parser, a megabyte of nested tags took two minutes, and
35 kB of unclosed ones over a gigabyte.
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass

from lxml.etree import HTMLParser, LxmlError

from throttle.errors import InvalidURL
from throttle.urls import canonical

MAX_LINKS = 5000
"""Links taken from one page; the rest is counted as dropped."""

_MAX_CONSIDERED = 4 * MAX_LINKS
_MAX_INVALID = 20
_MAX_SHOWN = 200
_SNIFFED = 1024

_HTML_TYPES = {"text/html", "application/xhtml+xml"}
_MARKS = {
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([a-z0-9_:.-]+)", re.ASCII | re.IGNORECASE)
_TEXT_ENCODING = re.compile(
    r"utf-?8|utf-16(?:le|be)?|us-ascii|(?:iso-?8859|windows|cp|koi8|gb|big5|euc|shift|iso-2022|tis)"
    r"[a-z0-9_-]*",
    re.ASCII,
)
# What these names declare is read as windows-1252, as the Encoding Standard has it.
_WINDOWS_1252 = {"iso8859-1", "ascii"}

_REFRESH = re.compile(r"[\s0-9.]*[;,]?\s*(?:url\s*=\s*)?(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.ASCII | re.IGNORECASE)
_NOT_PAGES = {"javascript", "mailto", "tel", "sms", "data", "blob", "about"}
_VALUED = {"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}


@dataclass(frozen=True, slots=True)
class PageLinks:
    """What a page says: `links` are canonical and each stands once, in the order of the page.

    `invalid` holds the first few links that cannot be crawled, each as (printable text, reason);
    `dropped` counts those over the limit. `nofollow` and `noindex` are the page's own wishes;
    with `nofollow` there are no links. `note` says why nothing was read.
    """

    links: tuple[str, ...] = ()
    invalid: tuple[tuple[str, str], ...] = ()
    dropped: int = 0
    nofollow: bool = False
    noindex: bool = False
    title: str = ""
    note: str = ""


class _Found:
    """What the parser saw: it calls `start`, `data`, `end` and `close` as it reads."""

    def __init__(self, wishes: set[str], wished_of: set[str]) -> None:
        self.hrefs: dict[str, None] = {}
        self.wishes = wishes
        self.base: str | None = None
        self.title: list[str] = []
        self._wished_of = wished_of
        self._in_title = False
        self._has_title = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in {"a", "area"}:
            if "nofollow" not in attributes.get("rel", "").lower().split():
                self._add(attributes.get("href", ""))
        elif tag == "base" and self.base is None:
            self.base = attributes.get("href")
        elif tag == "title":
            self._in_title = not self._has_title
        elif tag == "meta":
            content = attributes.get("content", "")
            if attributes.get("name", "").strip().lower() in self._wished_of:
                self.wishes.update(word.strip() for word in content.lower().split(","))
            if attributes.get("http-equiv", "").strip().lower() == "refresh":
                self._add(_refresh_target(content))

    def data(self, text: str) -> None:
        if self._in_title:
            self.title.append(text)

    def end(self, tag: str) -> None:
        if tag == "title" and self._in_title:
            self._in_title, self._has_title = False, True

    def close(self) -> None:
        """The end of the page."""

    def _add(self, href: str) -> None:
        href = href.strip()
        scheme = _SCHEME.match(href)
        if href and href[0] != "#" and not (scheme and scheme[1].lower() in _NOT_PAGES):
            self.hrefs[href] = None


def extract(
    body: bytes,
    url: str,
    content_type: str | None,
    *,
    x_robots_tag: str | None = None,
    product: str = "",
) -> PageLinks:
    """The links of the page `body` that was fetched from the canonical `url`. Never raises.

    Taken are `a` and `area`, except with `rel=nofollow` (`ugc` and `sponsored` are followed), and
    the target of a meta refresh; frames and `link` are not. `content_type` is the header, or None;
    anything but HTML has no links. `x_robots_tag` is the header, one line for each time it was
    sent; its wishes and those of `<meta name=robots>` count when they name nobody or `product`.
    """
    essence = (content_type or "").partition(";")[0].strip().lower()
    if not (essence in _HTML_TYPES or (not essence and _looks_like_html(body))):
        return PageLinks(note=f"not HTML: {essence[:_MAX_SHOWN]!a}")
    found = _Found(
        _header_wishes(x_robots_tag or "", product.lower()), {"robots", product.lower()} - {""}
    )
    note = _read(_decode(body, content_type or ""), found)
    nofollow = not found.wishes.isdisjoint({"nofollow", "none"})
    noindex = not found.wishes.isdisjoint({"noindex", "none"})
    title = _shown(" ".join("".join(found.title).split()))
    if nofollow:
        return PageLinks(nofollow=True, noindex=noindex, title=title, note=note)
    links, invalid, dropped = _resolve(list(found.hrefs), _base(found.base, url))
    return PageLinks(links, invalid, dropped, noindex=noindex, title=title, note=note)


def _read(text: str, found: _Found) -> str:
    """Lets the parser tell `found` about `text`; why it could not, or nothing."""
    parser = HTMLParser(target=found, recover=True, encoding="utf-8")
    try:
        parser.feed(text.encode("utf-8", "replace"))
        parser.close()
    except LxmlError as error:
        return f"not readable: {_shown(str(error))}"
    return ""


def _refresh_target(content: str) -> str:
    found = _REFRESH.fullmatch(content)
    target = found[1].strip() if found else ""
    if target[:1] in {'"', "'"}:
        return target[1:].partition(target[0])[0]
    return target


def _base(href: str | None, url: str) -> str:
    if href is None:
        return url
    try:
        return canonical(href, url)
    except InvalidURL:
        return url


def _resolve(
    hrefs: list[str], base: str
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...], int]:
    links: dict[str, None] = {}
    invalid: list[tuple[str, str]] = []
    considered = 0
    for href in hrefs[:_MAX_CONSIDERED]:
        if len(links) == MAX_LINKS:
            break
        considered += 1
        try:
            links[canonical(href, base)] = None
        except InvalidURL as error:
            if len(invalid) < _MAX_INVALID:
                invalid.append((_shown(error.url), error.reason))
    return tuple(links), tuple(invalid), len(hrefs) - considered


def _header_wishes(header: str, product: str) -> set[str]:
    wishes: set[str] = set()
    for line in header.lower().splitlines():
        agent = ""
        for part in line.split(","):
            name, colon, wish = part.partition(":")
            if not colon or name.strip() in _VALUED:
                wish = part
            else:
                agent = name.strip()
            if agent in {"", product}:
                wishes.add(wish.strip())
    return wishes


def _looks_like_html(body: bytes) -> bool:
    start = body[:_SNIFFED].lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")
    return start.startswith(b"<") and not start.startswith(b"<?")


def _decode(body: bytes, content_type: str) -> str:
    """Text by the byte-order mark, else the header, else the page's meta, else UTF-8."""
    for mark, encoding in _MARKS.items():
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    declared = _encoding(content_type)
    if declared is None:
        declared = _encoding(body[:_SNIFFED].decode("latin-1"))
        # A meta that can be read as ASCII cannot be in UTF-16.
        if declared is None or declared.startswith("utf-16"):
            declared = "utf-8"
    return body.decode(declared, "replace")


def _encoding(declaration: str) -> str | None:
    found = _CHARSET.search(declaration)
    label = found[1].lower() if found else ""
    if not _TEXT_ENCODING.fullmatch(label):
        return None
    try:
        name = codecs.lookup(label).name
    except LookupError:
        return None
    return "cp1252" if name in _WINDOWS_1252 else name


def _shown(text: str) -> str:
    """The start of `text` with everything that could steer a terminal or a log replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:_MAX_SHOWN])
