"""The process behind `Origin`: one loop that stamps each request, answers it and logs it.

Started as `python -m throttle.local.website LISTENER_FD CONTROL_FD LOG [PAGES]`. It is measuring
equipment: one thread, no garbage collection, real-time priority where the system permits it.
"""

import contextlib
import gc
import os
import resource
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

from throttle.local.answers import Answers
from throttle.local.arrival_log import ArrivalLog
from throttle.local.connection import Connection
from throttle.local.orders import Orders
from throttle.local.origin import Behaviour, Ending
from throttle.local.timers import Timers
from throttle.local.wire import Request, answer_pieces

_FLUSH_S = 1.0


class Website:
    """The loop: lets clients in, answers their requests as told, and logs them."""

    def __init__(
        self, listener: socket.socket, orders: Orders, log: ArrivalLog, answers: Answers
    ) -> None:
        self._listener, self._orders, self._log, self._answers = listener, orders, log, answers
        self._connections: dict[int, Connection] = {}
        self._timers = Timers()
        self._poll = select.epoll()

    def run(self) -> None:
        """Serve until the control connection is closed."""
        self._listener.setblocking(False)
        self._poll.register(self._listener.fileno(), select.EPOLLIN)
        self._poll.register(self._orders.fileno(), select.EPOLLIN)
        self._flush_regularly()
        while True:
            events = self._poll.poll(self._timers.next_s())
            # What is reported now was there now, however long the events before it take.
            woke_s = time.monotonic()
            for fd, mask in events:
                if fd == self._listener.fileno():
                    self._accept()
                elif fd == self._orders.fileno():
                    if not self._orders.obey():
                        self._log.flush()
                        return
                else:
                    self._serve(fd, mask, woke_s)
            self._timers.run_due()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            connection = Connection(sock, self._poll, self._ended)
            self._connections[connection.fd] = connection
            connection.receive(time.monotonic())
            self._next_request(connection)

    def _serve(self, fd: int, mask: int, woke_s: float) -> None:
        connection = self._connections.get(fd)
        if connection is None:
            return
        if mask & select.EPOLLOUT:
            connection.push()
        if mask & ~select.EPOLLOUT and not connection.ended:
            connection.receive(woke_s)
            self._next_request(connection)

    def _next_request(self, connection: Connection) -> None:
        request = connection.next_request()
        if request is None:
            return
        self._log.opened(request)
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
        if behaviour.ending is Ending.CLOSE:
            connection.end()
        elif behaviour.ending is Ending.RESET:
            connection.reset()
        else:
            request.status = behaviour.status
            pieces = answer_pieces(request, behaviour)
            if behaviour.raw or behaviour.ending is Ending.CUT:
                request.keep = False
            pieces.reverse()
            self._send(connection, pieces, behaviour.drip_s)

    def _send(self, connection: Connection, pieces: list[bytes], every_s: float) -> None:
        """Send `pieces`, the last of the list first."""

        def go_on() -> None:
            if pieces:
                self._later(every_s, connection, lambda: self._send(connection, pieces, every_s))
            else:
                self._done(connection)

        connection.send(pieces.pop(), go_on)

    def _done(self, connection: Connection) -> None:
        request, connection.request = connection.request, None
        if request is None:
            return
        self._log.closed(request)
        if request.keep:
            self._next_request(connection)
        else:
            connection.end()

    def _ended(self, connection: Connection) -> None:
        del self._connections[connection.fd]
        if connection.request is not None:
            self._log.closed(connection.request)

    def _later(self, after_s: float, connection: Connection, step: Callable[[], None]) -> None:
        def unless_ended() -> None:
            if not connection.ended:
                step()

        self._timers.after(after_s, unless_ended)

    def _flush_regularly(self) -> None:
        self._log.flush()
        self._timers.after(_FLUSH_S, self._flush_regularly)


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
    log = ArrivalLog(Path(arguments[2]))
    Website(listener, Orders(control, answers, log), log, answers).run()


if __name__ == "__main__":
    main(sys.argv[1:])
