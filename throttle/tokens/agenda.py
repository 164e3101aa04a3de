"""When each partition wants to be looked at again: what dispatcher and issuer sleep by."""

import asyncio
import contextlib
from collections.abc import Iterable

LOOK_S = 1.0
"""Every partition is looked at this often at least, so that a lost wake-up costs no more."""


class Agenda:
    """Due times of partitions on the loop's clock, and a bell that ends a sleep early.

    A ring between `due` and `put` is not lost: it concerns what the look in between did not see.
    """

    def __init__(self) -> None:
        self._due: dict[int, float] = {}
        self._rung: set[int] = set()
        self._bell = asyncio.Event()

    def due(self, partitions: Iterable[int], now: float) -> list[int]:
        """Those of `partitions` that are due, the longest due first; unknown ones are due."""
        waiting = sorted((self._due.get(partition, 0.0), partition) for partition in partitions)
        found = [partition for at, partition in waiting if at <= now]
        self._rung.difference_update(found)
        return found

    def put(self, partition: int, now: float, after_s: float | None) -> None:
        """Looks at `partition` again `after_s` seconds from now, None: when something happens."""
        if partition not in self._rung:
            self._due[partition] = now + min(LOOK_S, LOOK_S if after_s is None else after_s)

    def ring(self, partition: int | None) -> None:
        """Makes a partition (None: all) due now and ends the sleep. In the loop's thread only.

        One that was due before stays due from then on: it is not put behind or before its turn.
        """
        now = asyncio.get_running_loop().time()
        for one in list(self._due) if partition is None else [partition]:
            self._rung.add(one)
            self._due[one] = min(now, self._due.get(one, now))
        self._bell.set()

    async def sleep(self, partitions: Iterable[int], now: float, at_most_s: float) -> None:
        """Sleeps until a partition is due, the bell rings, or `at_most_s` seconds have passed."""
        first = min((self._due.get(partition, 0.0) for partition in partitions), default=now + 3600)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, min(first - now, at_most_s))):
                await self._bell.wait()
        self._bell.clear()
