"""One client of the site: bytes in until they are a request, bytes out until all are sent."""

import select
import socket
import struct
from collections.abc import Callable

from throttle.local.wire import Request, parse_head

_CHUNK = 65_536
_HEAD_LIMIT = 65_536


class Connection:
    """A socket that never blocks, with the one request that is open on it.

    It ends itself when the client leaves or sends what is no request; `when_ended` is called
    once, before the socket is closed.
    """

    def __init__(
        self, sock: socket.socket, poll: select.epoll, when_ended: Callable[["Connection"], None]
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._poll, self._when_ended = sock, poll, when_ended
        self.fd = sock.fileno()
        self.request: Request | None = None
        self.ended = False
        self._read = bytearray()
        self._read_s = 0.0
        self._unsent = memoryview(b"")
        self._when_sent: Callable[[], None] | None = None
        poll.register(self.fd, select.EPOLLIN)

    def receive(self, now_s: float) -> None:
        """Take in what is there; it came at `now_s`, in seconds of the monotonic clock."""
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.end()
            return
        if not self._read:
            self._read_s = now_s
        self._read += data

    def next_request(self) -> Request | None:
        """Open the next request, stamped with its first byte; None when none can be opened."""
        if self.ended or self.request is not None or not self._read:
            return None
        head, found, rest = bytes(self._read).partition(b"\r\n\r\n")
        if not found:
            if len(head) > _HEAD_LIMIT:
                self.end()
            return None
        request = parse_head(head, self._read_s)
        if request is None:
            self.end()
            return None
        length = request.headers.get("content-length", "0")
        size = int(length) if length.isdecimal() else 0
        if len(rest) < size:
            return None
        self._read = bytearray(rest[size:])
        self.request = request
        return request

    def send(self, data: bytes, when_sent: Callable[[], None]) -> None:
        """Hand `data` to the system, then call `when_sent`, unless the client leaves before."""
        self._unsent, self._when_sent = memoryview(data), when_sent
        self.push()

    def push(self) -> None:
        """Send on, now that the system may take more."""
        try:
            sent = self._sock.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.end()
            return
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._poll.modify(self.fd, select.EPOLLIN | select.EPOLLOUT)
            return
        self._poll.modify(self.fd, select.EPOLLIN)
        when_sent, self._when_sent = self._when_sent, None
        if when_sent is not None:
            when_sent()

    def reset(self) -> None:
        """End it so that the client sees a reset."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.end()

    def end(self) -> None:
        """Close it, once."""
        if self.ended:
            return
        self.ended = True
        # It may hold this connection, and the process collects no garbage.
        self._when_sent = None
        self._when_ended(self)
        self._poll.unregister(self.fd)
        self._sock.close()
