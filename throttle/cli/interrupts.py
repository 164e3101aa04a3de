"""What Ctrl-C, SIGTERM and a closed terminal do to a command that has much to put away."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

STOPPED = 130
"""The exit code of a command that was stopped before its end."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ALL = sys.maxsize


class Interrupted(BaseException):
    """Somebody wants the command to stop now; not an `Exception`, so that nothing swallows it."""


class Interrupts:
    """Counts the requests to stop, and raises `Interrupted` where one must not be waited for.

    Used with `with` in the main thread; an `Interrupted` that leaves it ends the process with
    exit code `STOPPED`.
    """

    def __init__(self) -> None:
        self._count = 0
        self._borne = 0
        self._before: dict[signal.Signals, Any] = {}
        # Asked now: a terminal that is gone says it is none.
        self._terminals = [s.fileno() for s in (sys.stdout, sys.stderr) if s.isatty()]

    @property
    def asked(self) -> bool:
        """Whether somebody asked to stop."""
        return self._count > 0

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            # Ignored by whoever started us (nohup, a background job): it stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is Interrupted:
            raise SystemExit(STOPPED) from error

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Within it the first request is only noted; the next one raises."""
        with self._bearing(max(1, self._count)):
            yield

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Within it no request raises: for what is quick and must not be left half done."""
        with self._bearing(_ALL):
            yield

    @contextmanager
    def _bearing(self, borne: int) -> Iterator[None]:
        before, self._borne = self._borne, borne
        try:
            yield
        finally:
            self._borne = before if not self.asked else max(before, self._count)

    def _heard(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _write_nowhere(self._terminals)
        self._count += 1
        if self._count > self._borne:
            raise Interrupted


@contextmanager
def ctrl_c_later() -> Iterator[None]:
    """Within it Ctrl-C waits for the end, so that what was done is counted, too."""
    heard: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


def _write_nowhere(terminals: list[int]) -> None:
    """The terminal is gone: writing to it would fail, and there is still work to put away."""
    with Path(os.devnull).open("wb") as nowhere:
        for terminal in terminals:
            os.dup2(nowhere.fileno(), terminal)
