"""One HTTP request to one host: guarded address, one deadline over all of it, bounded body."""

import os
import re
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpcore

from throttle.crawl.address import Resolver
from throttle.crawl.body import ACCEPT_ENCODING, Body
from throttle.crawl.dial import Call, Dialler
from throttle.crawl.proxies import Proxies, Proxy
from throttle.errors import FetchError, SettingsError
from throttle.model import Response

_DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(https?)://([^/?#]+)([^#]*)", re.ASCII)
_VISIBLE = re.compile(r"[\x21-\x7e]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
_LONGEST_REASON = 200


def boot_clock() -> float:
    """Seconds since boot, counting sleep where the system can tell, never stepping back."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class _Place:
    """The parts of a URL that a request needs; `authority` is the Host header."""

    scheme: str
    host: str
    port: int
    authority: str
    target: str

    @classmethod
    def of(cls, url: str) -> "_Place":
        """Raises `FetchError` for anything but an http(s) URL of visible ASCII characters."""
        match = _URL.fullmatch(url.partition("#")[0])
        if match is None or not _VISIBLE.fullmatch(url):
            raise FetchError("bad URL: not an http or https URL of plain characters")
        scheme, _, target = match.groups()
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[scheme]
        except ValueError as error:
            raise FetchError(_short(f"bad URL: {error}")) from error
        if not host:
            raise FetchError("bad URL: it has no host")
        authority = f"[{host}]" if ":" in host else host
        if port != _DEFAULT_PORTS[scheme]:
            authority += f":{port}"
        if not target.startswith("/"):
            target = "/" + target
        return cls(scheme, host, port, authority, target)

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


class Fetcher:
    """Sends single GET requests; safe to use from many threads at once.

    `timeout_s` bounds one whole request, from DNS to the last byte of the body, and
    `connect_timeout_s` each connect and TLS handshake within it. `body_limit` is in bytes, before
    and after unpacking. `clock` gives the seconds in `sent_at_s`. `proxies` are by default those of
    the environment. Raises `SettingsError` for a user agent that is not one printable ASCII line.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        resolver: Resolver,
        timeout_s: float,
        connect_timeout_s: float,
        body_limit: int,
        proxies: Proxies | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        if not _HEADER_VALUE.fullmatch(user_agent):
            raise SettingsError(
                f"the User-Agent must be one line of printable ASCII, got {user_agent[:80]!r}; "
                "mend the settings product and contact"
            )
        self._user_agent = user_agent
        self._resolver = resolver
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._body_limit = body_limit
        self._proxies = proxies or Proxies.from_environment()
        self._ssl_context = ssl_context or httpcore.default_ssl_context()
        self._clock = clock

    def fetch(
        self,
        url: str,
        *,
        may_send: Callable[[], None],
        on_sent: Callable[[float], None] | None = None,
    ) -> Response:
        """GET `url` once: no redirect is followed, no cookie or login sent.

        `may_send` is called right before the first byte to the host and may raise to send nothing;
        `on_sent` is called with the clock right after the request was written. What they raise
        passes through as it is. `sent_at_s` of the response, or of the error, is that same moment,
        None when nothing was sent. Raises `AddressRefused` and `FetchError`, whose `reason` is one
        printable line.
        """
        place = _Place.of(url)
        call = Call(
            timeout_s=self._timeout_s,
            connect_timeout_s=self._connect_timeout_s,
            clock=self._clock,
            may_send=may_send,
            on_sent=on_sent,
        )
        try:
            return self._exchange(place, call)
        except FetchError as error:
            if error is not call.aborted:
                error.sent_at_s = call.sent_at_s
            raise
        except httpcore.TimeoutException as error:
            if error is call.aborted:
                raise
            raise FetchError(call.timed_out().reason, sent_at_s=call.sent_at_s) from error
        except (*_HTTPCORE_ERRORS, OSError, ValueError) as error:
            if error is call.aborted:
                raise
            raise FetchError(_reason(error), sent_at_s=call.sent_at_s) from error

    def request_headers(self, url: str) -> tuple[tuple[str, str], ...]:
        """The headers that `fetch(url)` sends, in their order."""
        return (
            ("Host", _Place.of(url).authority),
            ("User-Agent", self._user_agent),
            ("Accept", "*/*"),
            ("Accept-Encoding", ACCEPT_ENCODING),
            ("Connection", "close"),
        )

    def _exchange(self, place: _Place, call: Call) -> Response:
        proxy = self._proxies.chosen(place.scheme, place.host, place.port)
        if proxy:
            self._resolver.without_dns(place.host, place.port)
        default_port = place.port == _DEFAULT_PORTS[place.scheme]
        request = httpcore.Request(
            "GET",
            httpcore.URL(
                scheme=place.scheme,
                # httpcore writes the host as it is into what a proxy reads.
                host=f"[{place.host}]" if proxy and ":" in place.host else place.host,
                port=None if default_port else place.port,
                target=place.target,
            ),
            headers=self.request_headers(place.url),
            extensions={"trace": call.trace},
        )
        connection = self._pool(proxy, call).create_connection(request.url.origin)
        try:
            answer = connection.handle_request(request)
            body = _body_of(answer, call, self._body_limit)
            ended_at_s = self._clock()
        finally:
            connection.close()
        sent_at_s = call.sent_at_s if call.sent_at_s is not None else ended_at_s
        return Response(
            url=place.url,
            status=answer.status,
            reason=answer.extensions["reason_phrase"].decode("latin-1"),
            http_version=answer.extensions["http_version"].decode("latin-1"),
            headers=_text(answer.headers),
            body=body.decoded(),
            raw_body=body.raw(),
            address="" if proxy else call.address,
            sent_at_s=sent_at_s,
            elapsed_s=max(0.0, ended_at_s - sent_at_s),
        )

    def _pool(self, proxy: Proxy | None, call: Call) -> httpcore.ConnectionPool:
        def find(host: str, port: int) -> list[str]:
            ask = self._resolver.unchecked if proxy else self._resolver.addresses
            return ask(host, port, timeout_s=call.left_s())

        dialler = Dialler(find, call)
        if proxy is None:
            return httpcore.ConnectionPool(ssl_context=self._ssl_context, network_backend=dialler)
        return httpcore.HTTPProxy(
            httpcore.URL(scheme="http", host=proxy.host, port=proxy.port, target="/"),
            proxy_auth=proxy.login,
            ssl_context=self._ssl_context,
            network_backend=dialler,
        )


_HTTPCORE_ERRORS = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
)


def _body_of(answer: httpcore.Response, call: Call, limit: int) -> Body:
    """An error's status and headers count (its Retry-After!) though its body is unusable."""
    if answer.status < 400:
        return _read_body(answer, call, limit)
    try:
        body = _read_body(answer, call, limit)
        body.decoded()
    except (FetchError, httpcore.NetworkError, httpcore.ProtocolError):
        return Body("", limit)
    return body


def _read_body(answer: httpcore.Response, call: Call, limit: int) -> Body:
    if answer.status == 101:
        raise FetchError("bad HTTP: 101 without having been asked")
    headers = _text(answer.headers)
    codings = [value for name, value in headers if name.lower() == "content-encoding"]
    body = Body(", ".join(codings), limit)
    promised = next((v for name, v in headers if name.lower() == "content-length"), "0")
    if promised.isdecimal() and int(promised[:20]) > limit:
        raise body.too_large()
    for piece in answer.iter_stream():
        body.feed(piece)
        call.left_s()
    return body


def _text(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _short(f"TLS: certificate verify failed: {cause.verify_message}")
    if isinstance(cause, ssl.SSLError):
        return _short(f"TLS: {(cause.reason or str(cause)).lower().replace('_', ' ')}")
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    if isinstance(cause, ConnectionResetError):
        return "connection reset"
    if isinstance(cause, OSError):
        words = os.strerror(cause.errno) if cause.errno else str(cause)
        return _short(f"connection failed: {words.lower()}")
    if isinstance(error, httpcore.ProxyError):
        return _short(f"proxy: {error}")
    if "disconnected without sending" in str(error):
        return "closed before answering"
    if "closed connection without sending complete" in str(error):
        return "closed in mid-answer"
    return _short(f"bad HTTP: {error}")


def _short(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:_LONGEST_REASON]
