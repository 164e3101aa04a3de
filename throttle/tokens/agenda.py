"""When each partition wants to be looked at again: what dispatcher and issuer sleep by."""

import asyncio
from collections.abc import Iterable


class Agenda:
    """Due times of partitions on the loop's clock, and a bell that ends a sleep early.

    `ring` may be called from another thread.
    """

    def __init__(self) -> None:
        self._due: dict[int, float] = {}
        self._bell = asyncio.Event()

    def due(self, partitions: Iterable[int], now: float) -> list[int]:
        """Those of `partitions` that are due, the longest due first; unknown ones are due."""
        waiting = [(self._due.get(partition, 0.0), partition) for partition in partitions]
        return [partition for at, partition in sorted(waiting) if at <= now]

    def put(self, partition: int, now: float, after_s: float | None) -> None:
        """Looks at `partition` again `after_s` seconds from now; None: when it rings."""
        self._due[partition] = float("inf") if after_s is None else now + after_s

    def ring(self, partition: int | None) -> None:
        """Makes a partition (None: all) due now and ends the sleep. In the loop's thread only."""
        if partition is None:
            self._due.clear()
        else:
            self._due[partition] = 0.0
        self._bell.set()

    async def sleep(self, partitions: Iterable[int], now: float, at_most_s: float) -> None:
        """Sleeps until a partition is due, the bell rings, or `at_most_s` seconds have passed."""
        first = min((self._due.get(partition, 0.0) for partition in partitions), default=now + 3600)
        try:
            async with asyncio.timeout(max(0.0, min(first - now, at_most_s))):
                await self._bell.wait()
        except TimeoutError:
            pass
        self._bell.clear()
