"""One spelling per page and one key per host: canonical URLs by the WHATWG rules."""

import re
from hashlib import blake2b

import ada_url

from throttle.errors import InvalidURL

MAX_LENGTH = 8192
"""The most characters a URL may have, before and after it is made canonical."""

_MAX_HOST = 253
_MAX_LABEL = 63
_STRIPPED_ENDS = "".join(map(chr, range(0x21)))
_STRIPPED_INSIDE = {ord(character): None for character in "\t\r\n"}
_HTTP_WITH_HOST = re.compile(r"https?://[^/\\?#]", re.IGNORECASE | re.ASCII)
_HTTP = re.compile(r"https?:", re.IGNORECASE | re.ASCII)
_DNS_NAME = re.compile(r"[a-z0-9._-]+", re.ASCII)
_AUTHORITY_START = re.compile(
    r"(?:(?:[a-z][a-z0-9+.-]*:)?[/\\]+|https?:)?", re.IGNORECASE | re.ASCII
)
_AUTHORITY_END = re.compile(r"[/\\?#]")
_PORT = re.compile(r":([0-9]*)", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_BARE_HOST = re.compile(r"[/\\?#@]|^-")


def canonical(url: str, base: str | None = None) -> str:
    """The one spelling of `url` that is stored, compared and fetched: printable ASCII, no space.

    Resolved by the WHATWG URL rules, against `base` (a canonical URL) where there is one. Dropped
    are the fragment, user name and password, the default or empty port and the dot at the end of
    the host. Kept as they are: the order of the query, session ids such as `;jsessionid`, and
    percent-encoding that was not needed; sites may tell these apart.

    Raises `InvalidURL` when it is not http or https, has no host, is longer than 8,192 characters
    or has a host that no DNS name can be. Its text never shows a user name or password.
    """
    text = url.strip(_STRIPPED_ENDS)
    if not text.isprintable():
        text = text.translate(_STRIPPED_INSIDE)
    scheme, _, rest = _resolved(text, base).partition("://")
    if scheme not in {"http", "https"}:
        raise _invalid(text, "not an http or https URL")
    authority, _, path = rest.partition("#")[0].partition("/")
    host, colon, port = _split_port(authority.rpartition("@")[2])
    if not host.startswith("["):
        host = host.removesuffix(".")
        if fault := _dns_fault(host):
            raise _invalid(text, fault)
    result = f"{scheme}://{host}{colon}{port}/{path}"
    if len(result) > MAX_LENGTH:
        raise _invalid(text, f"longer than {MAX_LENGTH:,} characters when percent-encoded")
    if not (result.isascii() and result.isprintable()) or " " in result:
        raise _invalid(text, "it has a character that cannot be sent")
    return result


def politeness_key(url: str) -> str:
    """The name of the bucket that a canonical `url` pays from: its host, without the port.

    All ports and both schemes of a host share one bucket, since they share one machine. An IPv6
    address keeps its brackets. Raises `InvalidURL` rather than give an empty key.
    """
    host = _split_port(url.partition("://")[2].partition("/")[0])[0]
    if not host:
        raise _invalid(url, "no host")
    return host


def origin_of(url: str) -> str:
    """`scheme://host[:port]` of a canonical `url` (RFC 6454): what one robots.txt speaks for.

    Raises `InvalidURL` when there is no host.
    """
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    if not authority:
        raise _invalid(url, "no host")
    return f"{scheme}://{authority}"


def robots_url(origin: str) -> str:
    """Where the robots.txt of `origin` lies (RFC 9309 section 2.3)."""
    return f"{origin}/robots.txt"


def digest(url: str) -> bytes:
    """16 bytes that stand for a canonical `url` where the whole of it would cost too much room."""
    return blake2b(url.encode("ascii"), digest_size=16).digest()


def host_key(text: str) -> str:
    """The politeness key of a host as a person types it.

    `A.Example.`, `a.example:8080`, `[::1]:80`, `::1` and whole http or https URLs are taken.
    Raises `InvalidURL` for anything else, such as an option, a path or a pattern.
    """
    typed = text.strip()
    if not typed.isprintable():
        raise _invalid(typed, "a host name has no control characters")
    if "://" in typed:
        return politeness_key(canonical(typed))
    if not typed or _NOT_BARE_HOST.search(typed):
        raise _invalid(typed, "not a host name; write a.example or a whole URL")
    bare_ipv6 = typed.count(":") > 1 and not typed.startswith("[")
    try:
        return politeness_key(canonical(f"http://[{typed}]/" if bare_ipv6 else f"http://{typed}/"))
    except InvalidURL as error:
        raise _invalid(typed, error.reason) from None


def _resolved(text: str, base: str | None) -> str:
    if not text:
        raise _invalid(text, "it is empty")
    if len(text) > MAX_LENGTH:
        raise _invalid(text, f"longer than {MAX_LENGTH:,} characters")
    if base is None and not _HTTP_WITH_HOST.match(text):
        raise _invalid(text, "no host" if _HTTP.match(text) else "not an http or https URL")
    try:
        return ada_url.normalize_url(text) if base is None else ada_url.join_url(base, text)
    except ValueError:
        raise _invalid(text, _unparsable(text)) from None


def _split_port(authority: str) -> tuple[str, str, str]:
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        return authority, "", ""
    return host, colon, port


def _dns_fault(host: str) -> str:
    """Why DNS could not look `host` up (RFC 1035 section 2.3.4), or nothing."""
    if not host or host.startswith(".") or ".." in host or host.endswith("."):
        return "the host has an empty label"
    if not _DNS_NAME.fullmatch(host):
        return "the host has a character that no DNS name has"
    if len(host) > _MAX_LABEL:
        if len(host) > _MAX_HOST:
            return f"the host is longer than {_MAX_HOST} bytes"
        if max(map(len, host.split("."))) > _MAX_LABEL:
            return f"the host has a label longer than {_MAX_LABEL} bytes"
    return ""


def _unparsable(text: str) -> str:
    if _SURROGATE.search(text):
        return "it is not Unicode text"
    rest = text[_end_of_scheme(text) :]
    host = _AUTHORITY_END.split(rest, maxsplit=1)[0].rpartition("@")[2]
    port = host[host.rfind(":") :] if ":" in host and not host.endswith("]") else ""
    digits = _PORT.fullmatch(port)
    if host.count(":") == 1 and (digits is None or int(digits[1][:9] or 0) > 65535):
        return "the port is not a number up to 65535"
    return "the host is not valid"


def _end_of_scheme(text: str) -> int:
    start = _AUTHORITY_START.match(text)
    return start.end() if start else 0


def _invalid(text: str, reason: str) -> InvalidURL:
    return InvalidURL(_without_userinfo(text), reason)


def _without_userinfo(text: str) -> str:
    """`text` with what stands, or seems meant to stand, before the host's `@` masked."""
    cut = _end_of_scheme(text)
    head, rest = text[:cut], text[cut:]
    authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
    if "@" in authority:
        return f"{head}***@{rest[authority.rindex('@') + 1 :]}"
    # A password with an unescaped slash ends the authority early: mask up to the last @.
    if "@" in rest and ":" in authority and not _PORT.fullmatch(authority[authority.rindex(":") :]):
        return f"{head}***@{rest[rest.rindex('@') + 1 :]}"
    return text
