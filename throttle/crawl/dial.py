"""One request's connection: the deadline, the address dialled and the moment of sending."""

import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpcore

from throttle.durations import format_duration
from throttle.errors import FetchError

# h11 bounds one header block; this bounds a flood of 1xx answers before the real one.
_HEAD_LIMIT = 512 * 1024


class Call:
    """The state of one request: time left, what has gone out, and by which address."""

    def __init__(
        self,
        *,
        timeout_s: float,
        connect_timeout_s: float,
        clock: Callable[[], float],
        may_send: Callable[[], None],
        on_sent: Callable[[float], None] | None = None,
    ) -> None:
        self.sent_at_s: float | None = None
        self.address = ""
        self.aborted: Exception | None = None
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._ends_at_s = time.monotonic() + timeout_s
        self._clock = clock
        self._may_send = may_send
        self._on_sent = on_sent
        self._to_origin = False
        self._head_bytes: int | None = 0

    def left_s(self) -> float:
        """Seconds until the deadline; raises `FetchError` when there are none."""
        left_s = self._ends_at_s - time.monotonic()
        if left_s <= 0:
            raise self.timed_out()
        return left_s

    def connect_left_s(self) -> float:
        """Seconds that one connect or TLS handshake may take."""
        return min(self._connect_timeout_s, self.left_s())

    def timed_out(self) -> FetchError:
        """The error of a wait that took too long: for the whole request, or for the connect."""
        if self._ends_at_s - time.monotonic() > 0:
            return FetchError(f"no connection in {format_duration(self._connect_timeout_s)}")
        return FetchError(f"timed out after {format_duration(self._timeout_s)}")

    def count_read(self, size: int) -> None:
        """Note bytes read; raises `FetchError` when they do not come to an answer."""
        if self._head_bytes is not None:
            self._head_bytes += size
            if self._head_bytes > _HEAD_LIMIT:
                raise FetchError(f"bad HTTP: no answer in {_HEAD_LIMIT} bytes")

    def trace(self, event: str, info: dict[str, Any]) -> None:
        """Follow httpcore: ask before the origin's first byte, stamp after the last one."""
        if event == "http11.send_request_headers.started":
            self._to_origin = info["request"].method != b"CONNECT"
            if self._to_origin:
                self.left_s()
                self._call_back(self._may_send)
        elif event in (
            "http11.send_request_headers.complete",
            "http11.send_request_headers.failed",
        ):
            # A write that failed half way may have reached the host all the same.
            if self._to_origin:
                self.sent_at_s = sent_at_s = self._clock()
                if (on_sent := self._on_sent) is not None:
                    self._call_back(lambda: on_sent(sent_at_s))
        elif event == "http11.receive_response_headers.complete" and self._to_origin:
            self._head_bytes = None

    def _call_back(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            # Remembered, so that the caller's own error is never taken for one of the network.
            self.aborted = error
            raise


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose every operation ends at the call's deadline."""

    def __init__(self, inner: httpcore.NetworkStream, call: Call) -> None:
        self._inner = inner
        self._call = call

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 (httpcore's interface)
        data = self._inner.read(max_bytes, self._call.left_s())
        self._call.count_read(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 (httpcore's interface)
        self._inner.write(buffer, self._call.left_s())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 (httpcore's interface)
    ) -> httpcore.NetworkStream:
        name = server_hostname.strip("[]") if server_hostname else None
        inner = self._inner.start_tls(ssl_context, name, self._call.connect_left_s())
        return _BoundedStream(inner, self._call)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class Dialler(httpcore.NetworkBackend):
    """Opens the connection to the first address that answers, among those it is given."""

    def __init__(self, find: Callable[[str, int], list[str]], call: Call) -> None:
        self._find = find
        self._call = call
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 (httpcore's interface)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to `host`, by one of the addresses found; raises the last one's error."""
        failure: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in self._find(host, port):
            try:
                stream = self._sockets.connect_tcp(
                    address, port, self._call.connect_left_s(), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            self._call.address = address
            return _BoundedStream(stream, self._call)
        raise failure or FetchError("name does not resolve")
