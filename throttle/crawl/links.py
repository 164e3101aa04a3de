"""The links, the title and the robots wishes of an HTML page.

Tags are read as the HTML Standard's tokenizer reads them, but no tree is built: what a tree costs
is for the page to choose. A few kilobytes of unclosed tags can ask for gigabytes, a megabyte of
nested ones for minutes. This takes time and room in proportion to the page.
"""

import codecs
import re
from dataclasses import dataclass
from html import unescape
from html.entities import html5

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

_INSIDE = r"""(?:[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)*+"""
_TOKEN = re.compile(
    rf"""
    <(?:
        !--(?:-?>|.*?(?:--!?>|\Z))
      | (?P<raw>script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>])
        {_INSIDE}(?:>|\Z)(?P<text>.*?)(?:</(?P=raw)(?=[\s/>])|\Z)
      | (?P<name>/?[a-z][^\s/>]*+)(?P<attributes>{_INSIDE})(?:>|\Z)
      | [!?/][^>]*+
    )""",
    re.ASCII | re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(
    r"""([^\s/>=]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"'][^\s>]*+)))?+""", re.ASCII
)
_REFERENCE = re.compile(
    r"&(?:#(?:[0-9]+|x[0-9a-f]+);?|([a-z][a-z0-9]*+(?:;|(?![=a-z0-9]))))", re.ASCII | re.IGNORECASE
)
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


@dataclass(slots=True)
class _Found:
    hrefs: dict[str, None]
    wishes: set[str]
    base: str | None = None
    title: str | None = None


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
    found = _Found(hrefs={}, wishes=_header_wishes(x_robots_tag or "", product.lower()))
    _read(_decode(body, content_type or ""), found, {"robots", product.lower()} - {""})
    nofollow = not found.wishes.isdisjoint({"nofollow", "none"})
    noindex = not found.wishes.isdisjoint({"noindex", "none"})
    title = _shown(" ".join(unescape(found.title or "").split()))
    if nofollow:
        return PageLinks(nofollow=True, noindex=noindex, title=title)
    links, invalid, dropped = _resolve(list(found.hrefs), _base(found.base, url))
    return PageLinks(links, invalid, dropped, noindex=noindex, title=title)


def _read(text: str, found: _Found, wished_of: set[str]) -> None:
    for token in _TOKEN.finditer(text):
        name = (token["name"] or token["raw"] or "").lower()
        if name == "title" and found.title is None:
            found.title = token["text"]
        elif name in {"a", "area"}:
            attributes = _attributes(token["attributes"])
            if "nofollow" not in attributes.get("rel", "").lower().split():
                _add(found, attributes.get("href", ""))
        elif name == "base" and found.base is None:
            found.base = _attributes(token["attributes"]).get("href")
        elif name == "meta":
            attributes = _attributes(token["attributes"])
            content = attributes.get("content", "")
            if attributes.get("name", "").strip().lower() in wished_of:
                found.wishes.update(word.strip() for word in content.lower().split(","))
            if attributes.get("http-equiv", "").strip().lower() == "refresh":
                _add(found, _refresh_target(content))


def _add(found: _Found, href: str) -> None:
    href = href.strip()
    scheme = _SCHEME.match(href)
    if href and href[0] != "#" and not (scheme and scheme[1].lower() in _NOT_PAGES):
        found.hrefs[href] = None


def _attributes(text: str) -> dict[str, str]:
    """Attributes by name in lower case; the first of a name counts, as in the HTML Standard."""
    values: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(text):
        values.setdefault(name.lower(), double or single or bare)
    return {name: _REFERENCE.sub(_character, value) for name, value in values.items()}


def _character(reference: re.Match[str]) -> str:
    # "?a=1&copy=2" must stay as it is: in an attribute a name needs its end to be a reference.
    return html5.get(reference[1], reference[0]) if reference[1] else unescape(reference[0])


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
