"""Steps that wait for their time, for a loop that runs them when they are due."""

import heapq
import itertools
import time
from collections.abc import Callable


class Timers:
    """The waiting steps, the nearest first."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, wait_s: float, step: Callable[[], None]) -> None:
        """Run `step` once, `wait_s` seconds from now."""
        # The number keeps steps due at the same time in order, and from being compared.
        heapq.heappush(self._waiting, (time.monotonic() + wait_s, next(self._numbers), step))

    def next_s(self) -> float | None:
        """Seconds until the nearest step, 0 when it is due; None when nothing waits."""
        if not self._waiting:
            return None
        return max(0.0, self._waiting[0][0] - time.monotonic())

    def run_due(self) -> None:
        """Run every step whose time has come, those that become due meanwhile too."""
        while self._waiting and self._waiting[0][0] <= time.monotonic():
            heapq.heappop(self._waiting)[2]()
