"""Says of faults and leases what a person must know, once and not at every round."""

import logging
import time
from collections.abc import Callable, Sequence

from throttle.durations import format_duration
from throttle.frontier.leases import Owned

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
WELL_AFTER_S = 10.0
"""Seconds without a fault that count as well: longer than any wait for a server that is gone."""

_MOST_FAULTS = 1000


class FaultLog:
    """Logs each distinct fault at once, and again after 1, 2, 4 ... 60 seconds while it lasts.

    `clock` counts seconds and never steps back.
    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._told: dict[str, tuple[float, float]] = {}
        self._last_s = 0.0

    def tell(self, fault: object) -> None:
        """A fault happened, now or still."""
        text, now_s = str(fault), self._clock()
        self._last_s = now_s
        next_s, pause_s = self._told.get(text, (now_s, FIRST_PAUSE_S))
        if now_s < next_s:
            return
        if len(self._told) >= _MOST_FAULTS:
            self._told.clear()
        self._told[text] = (now_s + pause_s, min(2 * pause_s, LONGEST_PAUSE_S))
        self._log.error("%s", text)

    def look(self) -> None:
        """To be called at every round: says `well again` once the faults have stayed away."""
        if self._told and self._clock() - self._last_s >= WELL_AFTER_S:
            self._told.clear()
            self._log.warning("well again: no fault for %s", format_duration(WELL_AFTER_S))


class Standby:
    """Logs once that others hold every lease, and once that this process takes over."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._stands_by = False

    def note(self, held: Sequence[Owned], others: Sequence[str]) -> None:
        """What the last renewal gave: the partitions held, and the other holders."""
        if others and not held and not self._stands_by:
            self._stands_by = True
            self._log.warning("standing by: %s holds the leases", ", ".join(others))
        elif held and self._stands_by:
            self._stands_by = False
            self._log.warning("takes over %d partitions", len(held))
