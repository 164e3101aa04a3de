"""What a site's robots.txt allows us (RFC 9309), and what to do when it cannot be had.

Groups, product tokens and Crawl-delay are read here; `protego` then matches paths, given only the
rules that apply to us. It would close a group at a Crawl-delay, match the start of a product name,
take `1e300` for a delay and trip over a byte-order mark.
"""

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote, unquote

from protego import Protego

LIMIT = 500 * 1024
"""Bytes of a robots.txt that are read (RFC 9309 section 2.5)."""

LONGEST_DELAY_S = 10 * 365 * 86400.0
"""The largest Crawl-delay reported, in seconds; the cap that is applied is much lower."""

_MAX_WILDCARDS = 2000
_MAX_WARNINGS = 20
_MAX_SHOWN = 60
_FIRST_RETRY_S = 30.0
_LONGEST_RETRY_S = 3600.0
_TOO_MANY_REQUESTS = 429
_REDIRECTS = {301, 302, 303, 307, 308}

_UTF8_MARKS = (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef")
_UTF16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
_LINE_END = re.compile(r"\r\n?|\n")
_AGENT = re.compile(r"(\*|[a-z0-9_-]+)(?:[\s/].*)?", re.ASCII | re.IGNORECASE | re.DOTALL)
_DELAY = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+", re.ASCII)
_KEPT_IN_PATTERNS = "".join(map(chr, range(0x21, 0x7F)))

# Misspelt bans are honoured as other crawlers do: what was meant is plain, and it is the safe side.
_FIELDS = {
    **dict.fromkeys(("user-agent", "useragent", "user agent"), "agent"),
    **dict.fromkeys(
        ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"), "Disallow"
    ),
    "allow": "Allow",
    **dict.fromkeys(("crawl-delay", "crawldelay", "crawl delay", "craw-delay"), "delay"),
}


class RobotsRules:
    """The rules of one robots.txt for one product; safe to keep and to share between threads.

    `crawl_delay_s` is the Crawl-delay asked for, in seconds, or None; `warnings` says in printable
    text what could not be understood.
    """

    __slots__ = ("_rules", "crawl_delay_s", "warnings")

    def __init__(
        self, rules: list[str], crawl_delay_s: float | None, warnings: tuple[str, ...]
    ) -> None:
        self._rules = Protego.parse("\n".join(("User-agent: *", *rules)))
        self.crawl_delay_s = crawl_delay_s
        self.warnings = warnings

    def allows(self, url: str) -> bool:
        """Whether the canonical `url` may be fetched; /robots.txt itself always may."""
        return self._rules.can_fetch(url, "*")


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """What a fetch of robots.txt came to, in force for `until_s` seconds from now.

    `ok`: `body` is the file to store and to `parse`; empty allows everything. `unreachable`:
    nothing of the origin may be fetched, and robots.txt is to be tried again after `until_s`.
    """

    state: Literal["ok", "unreachable"]
    body: bytes
    until_s: float
    crawl_delay_s: float | None = None


@dataclass(slots=True)
class _Reading:
    """What has been read of a file so far for the agents that may be ours: the product and `*`."""

    rules: dict[str, list[str]] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(text)


def parse(body: bytes, product: str) -> RobotsRules:
    """The rules that the robots.txt `body` sets for our `product` token. Never raises.

    Groups that name the product (whole token, any case) are joined; where none does, those of `*`
    apply, and without those everything is allowed (RFC 9309 section 2.2.1). The first 500 KiB are
    read; a file with over 2,000 wildcard rules forbids everything. A Crawl-delay belongs to the
    agents named just before it, not to the whole group; of several the longest counts, and 0 is no
    wish.
    """
    ours = product.lower()
    reading = _read(_text(body), {ours, "*"})
    if len(body) > LIMIT:
        reading.warn(f"only the first {LIMIT:,} bytes were read")
    agent = ours if ours in reading.rules else "*"
    rules = list(dict.fromkeys(reading.rules.get(agent, ())))
    if sum("*" in rule for rule in rules) > _MAX_WILDCARDS:
        # Each is tried on each URL, which the site chooses as well: its rules could cost minutes.
        reading.warn(f"more than {_MAX_WILDCARDS:,} rules with a wildcard; nothing is fetched")
        rules = ["Disallow: /"]
    return RobotsRules(rules, reading.delays.get(agent), tuple(reading.warnings))


def judge(
    status: int | None, body: bytes, product: str, failures: int, *, ttl_s: float
) -> RobotsVerdict:
    """What the answer to a robots.txt request means (RFC 9309 section 2.3.1).

    `status` is that of the last hop; None stands for every answer that could not be read: no
    connection, a time-out, a body too large or broken. 2xx gives the file. 4xx means there is
    none and allows everything, 401 and 403 included, as the RFC says; so does a redirect, which
    arrives here only after five hops. 429, 5xx and the rest mean unreachable: tried again after
    30 s, doubled for each of the `failures` before this one, up to an hour.
    """
    if status is not None and 200 <= status < 300:
        # One byte over the limit is kept, so that a later parse knows the file was cut.
        kept = body[: LIMIT + 1]
        return RobotsVerdict("ok", kept, ttl_s, parse(kept, product).crawl_delay_s)
    unavailable = status is not None and (400 <= status < 500 or status in _REDIRECTS)
    if unavailable and status != _TOO_MANY_REQUESTS:
        return RobotsVerdict("ok", b"", ttl_s)
    retry_s = min(_FIRST_RETRY_S * 2.0 ** min(failures, 30), _LONGEST_RETRY_S)
    return RobotsVerdict("unreachable", b"", retry_s)


def _text(body: bytes) -> str:
    head = body[:LIMIT]
    if encoding := _UTF16_MARKS.get(head[:2]):
        text = head[2:].decode(encoding, "replace")
    else:
        mark = next((mark for mark in _UTF8_MARKS if head.startswith(mark)), b"")
        text = head[len(mark) :].decode("utf-8", "surrogateescape")
        # Bytes that are not UTF-8 still name a path: the one they are percent-encoded in.
        text = _NOT_UTF8.sub(lambda found: f"%{ord(found[0]) - 0xDC00:02X}", text)
    if len(body) > LIMIT:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return text


def _read(text: str, wanted: set[str]) -> _Reading:
    reading = _Reading()
    group: set[str] = set()
    paced: set[str] = set()
    last = ""
    for number, line in enumerate(_LINE_END.split(text), start=1):
        kind, value = _directive(line)
        if not kind:
            continue
        if kind == "agent":
            if last not in {"agent", "delay"}:
                group = set()
            if last != "agent":
                paced = set()
            found = _AGENT.fullmatch(value)
            if found and (name := found[1].lower()) in wanted:
                group.add(name)
                paced.add(name)
                reading.rules.setdefault(name, [])
        elif kind == "delay":
            _read_delay(reading, number, value, paced)
        elif value:
            rule = f"{kind}: {_pattern(kind, value)}"
            for name in group:
                reading.rules[name].append(rule)
        last = kind
    return reading


def _directive(line: str) -> tuple[str, str]:
    line = line.partition("#")[0].strip()
    name, colon, value = line.partition(":")
    if not colon:
        name, _, value = line.partition(" ")
    return _FIELDS.get(name.strip().lower(), ""), value.strip()


def _read_delay(reading: _Reading, number: int, value: str, agents: set[str]) -> None:
    if not agents:
        return
    if not _DELAY.fullmatch(value):
        shown = ascii(value[:_MAX_SHOWN])
        reading.warn(f"line {number}: Crawl-delay {shown} is not a number of seconds; ignored")
        return
    delay_s = min(float(value), LONGEST_DELAY_S)
    if delay_s > 0:
        for name in agents:
            reading.delays[name] = max(delay_s, reading.delays.get(name, 0.0))


def _pattern(kind: str, value: str) -> str:
    """`value` in one line of ASCII, spelt so that protego takes it for what it says."""
    pattern = quote(value, safe=_KEPT_IN_PATTERNS)
    # protego lets "Allow: /index.html" allow "/" as well, which the RFC does not.
    if kind == "Allow" and unquote(pattern).endswith("/index.html"):
        pattern += "*"
    return pattern


ALLOW_ALL = parse(b"", "")
DISALLOW_ALL = parse(b"User-agent: *\nDisallow: /", "")
