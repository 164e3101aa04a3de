"""The process behind `Origin`: one loop that stamps each request, answers it and logs it.

Started as `python -m throttle.local.website LISTENER_FD CONTROL_FD LOG [PAGES]`. It is measuring
equipment: one thread, no garbage collection, real-time priority where the system permits it.
"""

import contextlib
import gc
import heapq
import itertools
import json
import os
import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from throttle.local.answers import Answers
from throttle.local.origin import Behaviour, Ending, behaviour_from_json
from throttle.local.wire import Request, answer_head, parse_head

_CHUNK = 65_536
_HEAD_LIMIT = 65_536
_FLUSH_S = 1.0


@dataclass(slots=True, eq=False)
class Connection:
    """One client."""

    sock: socket.socket
    fd: int
    read: bytearray = field(default_factory=bytearray)
    read_s: float = 0.0
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    request: Request | None = None
    ended: bool = False
    when_sent: Callable[[], None] | None = None


class Website:
    """The loop."""

    def __init__(
        self, listener: socket.socket, control: socket.socket, log: Path, answers: Answers
    ) -> None:
        self._listener, self._control, self._answers = listener, control, answers
        self._log = log.open("ab", buffering=1 << 20)
        self._connections: dict[int, Connection] = {}
        self._open: dict[str, int] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._orders = bytearray()
        self._poll = select.epoll()

    def run(self) -> None:
        """Serve until the control connection is closed."""
        self._listener.setblocking(False)
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._poll.register(self._control.fileno(), select.EPOLLIN)
        self._flush_regularly()
        while True:
            wait_s = max(0.0, self._timers[0][0] - time.monotonic())
            events = self._poll.poll(wait_s)
            # What is reported now was there now, however long the events before it take.
            woke_s = time.monotonic()
            for fd, mask in events:
                if fd == self._listener.fileno():
                    self._accept()
                elif fd == self._control.fileno():
                    if not self._obey():
                        return
                else:
                    self._serve(fd, mask, woke_s)
            self._run_timers()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock, sock.fileno())
            self._connections[connection.fd] = connection
            self._poll.register(connection.fd, select.EPOLLIN)
            self._receive(connection, time.monotonic())

    def _serve(self, fd: int, mask: int, woke_s: float) -> None:
        connection = self._connections.get(fd)
        if connection is None:
            return
        if mask & select.EPOLLOUT:
            self._push(connection)
        if mask & ~select.EPOLLOUT and not connection.ended:
            self._receive(connection, woke_s)

    def _receive(self, connection: Connection, now_s: float) -> None:
        try:
            data = connection.sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end(connection)
            return
        if not connection.read:
            connection.read_s = now_s
        connection.read += data
        self._next_request(connection)

    def _next_request(self, connection: Connection) -> None:
        if connection.request is not None or not connection.read:
            return
        head, found, rest = bytes(connection.read).partition(b"\r\n\r\n")
        if not found:
            if len(head) > _HEAD_LIMIT:
                self._end(connection)
            return
        request = parse_head(head, connection.read_s)
        if request is None:
            self._end(connection)
            return
        length = request.headers.get("content-length", "0")
        size = int(length) if length.isdecimal() else 0
        if len(rest) < size:
            return
        connection.read = bytearray(rest[size:])
        connection.request = request
        request.open_now = self._open.get(request.host, 0) + 1
        self._open[request.host] = request.open_now
        behaviour = self._answers.next_for(request.host, request.path)
        if behaviour.delay_s > 0:
            self._later(
                behaviour.delay_s, connection, lambda: self._answer(connection, request, behaviour)
            )
        else:
            self._answer(connection, request, behaviour)

    def _answer(self, connection: Connection, request: Request, behaviour: Behaviour) -> None:
        if behaviour.ending is Ending.HANG:
            return
        if behaviour.ending in (Ending.CLOSE, Ending.RESET):
            if behaviour.ending is Ending.RESET:
                connection.sock.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            self._end(connection)
            return
        request.status = behaviour.status
        if behaviour.raw:
            request.keep = False
            self._send(connection, behaviour.raw, lambda: self._done(connection))
            return
        head = answer_head(request, behaviour)
        body = b"" if request.method == "HEAD" else behaviour.body or b""
        if behaviour.ending is Ending.CUT:
            body = body[: len(body) // 2]
            request.keep = False
        if behaviour.drip_s > 0 and body:
            step = behaviour.drip_bytes
            pieces = [body[start : start + step] for start in range(0, len(body), step)]
            pieces.reverse()
            self._send(connection, head, lambda: self._drip(connection, pieces, behaviour.drip_s))
        else:
            self._send(connection, head + body, lambda: self._done(connection))

    def _drip(self, connection: Connection, pieces: list[bytes], every_s: float) -> None:
        def piece() -> None:
            self._send(connection, pieces.pop(), lambda: self._drip(connection, pieces, every_s))

        if pieces:
            self._later(every_s, connection, piece)
        else:
            self._done(connection)

    def _send(self, connection: Connection, data: bytes, when_sent: Callable[[], None]) -> None:
        connection.unsent, connection.when_sent = memoryview(data), when_sent
        self._push(connection)

    def _push(self, connection: Connection) -> None:
        try:
            sent = connection.sock.send(connection.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end(connection)
            return
        connection.unsent = connection.unsent[sent:]
        if connection.unsent:
            self._poll.modify(connection.fd, select.EPOLLIN | select.EPOLLOUT)
            return
        self._poll.modify(connection.fd, select.EPOLLIN)
        when_sent, connection.when_sent = connection.when_sent, None
        if when_sent is not None:
            when_sent()

    def _done(self, connection: Connection) -> None:
        request = connection.request
        if request is None:
            return
        self._close_request(connection)
        if request.keep:
            self._next_request(connection)
        else:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        connection.ended = True
        if connection.request is not None:
            self._close_request(connection)
        if self._connections.pop(connection.fd, None) is not None:
            self._poll.unregister(connection.fd)
            connection.sock.close()

    def _close_request(self, connection: Connection) -> None:
        request, connection.request = connection.request, None
        if request is None:
            return
        done_s = time.monotonic()
        left = self._open[request.host] - 1
        if left:
            self._open[request.host] = left
        else:
            del self._open[request.host]
        self._log.write(json.dumps(request.fields(done_s)).encode() + b"\n")

    def _later(self, after_s: float, connection: Connection, step: Callable[[], None]) -> None:
        def unless_ended() -> None:
            if not connection.ended:
                step()

        self._at(time.monotonic() + after_s, unless_ended)

    def _at(self, at_s: float, step: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (at_s, next(self._numbers), step))

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()

    def _flush_regularly(self) -> None:
        self._log.flush()
        self._at(time.monotonic() + _FLUSH_S, self._flush_regularly)

    def _obey(self) -> bool:
        data = self._control.recv(_CHUNK)
        if not data:
            self._log.flush()
            return False
        self._orders += data
        if b"\n" not in data:
            return True
        *lines, self._orders = self._orders.split(b"\n")
        for line in lines:
            answer = self._carry_out(json.loads(line))
            self._control.sendall(json.dumps(answer).encode() + b"\n")
        return True

    def _carry_out(self, order: dict[str, Any]) -> list[list[Any]]:
        if order["do"] == "set":
            told = [behaviour_from_json(each) for each in order["behaviours"]]
            self._answers.set(order["host"], order["path"], told)
        elif order["do"] == "clear":
            self._answers.clear()
        elif order["do"] == "open":
            self._log.flush()
            waiting = [each.request for each in self._connections.values()]
            return [request.fields(None) for request in waiting if request is not None]
        return []


def _come_first() -> None:
    """Rise above the load of the machine, so that it does not blur the stamps."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (OSError, AttributeError):
        with contextlib.suppress(OSError):
            os.nice(-10)


def main(arguments: list[str]) -> None:
    """Serve on the inherited descriptors until the control connection is closed."""
    listener = socket.socket(fileno=int(arguments[0]))
    control = socket.socket(fileno=int(arguments[1]))
    pages = Path(arguments[3]) if len(arguments) > 3 else None
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    answers = Answers(pages, listener.getsockname()[1])
    _come_first()
    gc.disable()
    Website(listener, control, Path(arguments[2]), answers).run()


if __name__ == "__main__":
    main(sys.argv[1:])
