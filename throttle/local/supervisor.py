"""Keeps the processes of one service running: starts them, restarts the dead, stops them all."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from throttle.errors import LocalServerError
from throttle.local.child import Child

MOST_RESTARTS = 5
WINDOW_S = 60.0
_WATCH_S = 0.2


class Supervised(Protocol):
    """What can be kept running: a `Child` or a private server."""

    name: str

    @property
    def pid(self) -> int:
        """Its process id."""

    def start(self) -> None:
        """Start it, unless it runs; ready when this returns."""

    def alive(self) -> bool:
        """Whether it runs."""

    def stop(self, timeout_s: float = ...) -> None:
        """SIGTERM, and SIGKILL after `timeout_s` seconds."""

    def kill(self) -> None:
        """SIGKILL."""

    def last_lines(self, count: int = ...) -> str:
        """The end of its log."""


class Supervisor:
    """The processes of one service, by name, with their logs in `directory`.

    They do not get the terminal's Ctrl-C, and none outlives this process. One that died is started
    again by `check`, at most `MOST_RESTARTS` times in `WINDOW_S` seconds.
    """

    def __init__(self, directory: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = Path(directory)
        self._clock = clock
        self._running: dict[str, Supervised] = {}
        self._restarts_s: dict[str, deque[float]] = {}

    def start(
        self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> None:
        """Start a process and keep it running; it logs to `name.log`.

        `env` is its whole environment, ours if not given. Raises `LocalServerError` when the name
        is taken or it cannot be started.
        """
        self.adopt(Child(name, argv, log=self._directory / f"{name}.log", env=env))

    def adopt(self, process: Supervised) -> None:
        """Start `process`, unless it runs, and keep it running."""
        if process.name in self._running:
            raise LocalServerError(f"there is a process named {process.name} already")
        process.start()
        self._running[process.name] = process
        self._restarts_s[process.name] = deque()

    def alive(self) -> dict[str, bool]:
        """Which of the processes run, by name in the order of their start."""
        return {name: process.alive() for name, process in self._running.items()}

    def pid(self, name: str) -> int:
        """The process id of one."""
        return self._named(name).pid

    def kill(self, name: str) -> None:
        """End one by SIGKILL, as a crash would; the next `check` starts it again."""
        self._named(name).kill()

    def check(self) -> list[str]:
        """Start those that died again; returns their names.

        Raises `LocalServerError` with the last log lines of one that dies too often.
        """
        dead = [process for process in self._running.values() if not process.alive()]
        for process in dead:
            self._count_restart(process)
            process.start()
        return [process.name for process in dead]

    def watch(self, stopping: threading.Event) -> None:
        """`check` again and again until `stopping` is set. Raises as `check` does."""
        while not stopping.wait(_WATCH_S):
            self.check()

    def stop(self, timeout_s: float = 20.0) -> None:
        """End all, the last started first: each SIGTERM, then SIGKILL after `timeout_s` seconds."""
        while self._running:
            _, process = self._running.popitem()
            process.stop(timeout_s)
        self._restarts_s.clear()

    def _named(self, name: str) -> Supervised:
        try:
            return self._running[name]
        except KeyError as error:
            known = ", ".join(self._running) or "none"
            raise LocalServerError(f"there is no process named {name}; running: {known}") from error

    def _count_restart(self, process: Supervised) -> None:
        restarts_s = self._restarts_s[process.name]
        now_s = self._clock()
        while restarts_s and restarts_s[0] <= now_s - WINDOW_S:
            restarts_s.popleft()
        if len(restarts_s) >= MOST_RESTARTS:
            raise LocalServerError(
                f"{process.name} died again after {MOST_RESTARTS} restarts in "
                f"{WINDOW_S:g} s; the end of its log:\n{process.last_lines()}"
            )
        restarts_s.append(now_s)
