"""Closing the grants whose time is up, partition by partition, when the first one is due."""

import asyncio
import logging

from throttle.dispatch.holding import Holding
from throttle.frontier.claims import Claims

_log = logging.getLogger("throttle.dispatcher")

LOOK_S = 1.0
"""A started grant may come under suspicion and end sooner than was known: look now and then."""


class Expiry:
    """Knows when each partition's next grant expires; times are on the loop's clock."""

    def __init__(self, claims: Claims, holding: Holding) -> None:
        self._claims = claims
        self._holding = holding
        self._due: dict[int, float] = {}

    def note(self, partition: int, now: float, after_s: float | None) -> None:
        """The next grant of `partition` expires `after_s` seconds after `now` (None: none)."""
        self._due[partition] = now + min(LOOK_S, after_s) if after_s is not None else now + 3600.0

    def next_s(self, now: float) -> float:
        """Seconds until `close_due` has something to look at."""
        return max(
            0.0, min((self._due.get(p, 0.0) for p in self._holding.owned), default=now) - now
        )

    async def close_due(self, now: float) -> list[int]:
        """Closes what is due; the partitions whose hosts may go again because of it."""
        due = [one for p, one in self._holding.owned.items() if self._due.get(p, 0.0) <= now]
        if not due:
            return []
        freed = []
        for part in await asyncio.to_thread(self._claims.expire, due):
            self.note(part.partition, now, part.next_expiry_s)
            if part.closed:
                _log.info("%d grants of partition %d expired", part.closed, part.partition)
                freed.append(part.partition)
        return freed
