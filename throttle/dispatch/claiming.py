"""Claiming: which partitions are asked, and for how many hosts, within the bound of open grants."""

import asyncio
from collections.abc import Callable

from throttle.dispatch.expiry import Expiry
from throttle.dispatch.holding import Holding
from throttle.frontier.claims import Claims
from throttle.frontier.leases import Owned
from throttle.model import Grant
from throttle.tokens.agenda import LOOK_S, Agenda

_FULL_S = 0.02


class Claiming:
    """Takes grants from the partitions that are due. Times are on the loop's clock.

    `max_in_flight` bounds the open grants of all partitions held, `batch` the hosts of one claim.
    `new_nonce` gives a text that no other claim ever used.
    """

    def __init__(
        self,
        claims: Claims,
        holding: Holding,
        agenda: Agenda,
        expiry: Expiry,
        *,
        max_in_flight: int,
        batch: int,
        new_nonce: Callable[[], str],
    ) -> None:
        self._claims = claims
        self._holding = holding
        self._agenda = agenda
        self._expiry = expiry
        self._max_in_flight = max_in_flight
        self._batch = batch
        self._new_nonce = new_nonce
        self._open: dict[int, int] = {}
        self._full_s = _FULL_S

    async def claim(self) -> list[Grant]:
        """The grants of the hosts that may go now; none when no partition is due."""
        owned = self._holding.owned
        due = [owned[p] for p in self._agenda.due(owned, _now())]
        if not due:
            return []
        room = self._max_in_flight - sum(self._open.get(p, 0) for p in owned)
        if room <= 0:
            due = await self._full()
        else:
            self._full_s = _FULL_S
        claimed = await asyncio.to_thread(
            self._claims.claim,
            _shares(due, max(0, min(room, self._batch))),
            self._new_nonce(),
        )
        now = _now()
        for part in claimed:
            self._agenda.put(part.partition, now, part.next_ready_s)
            self._expiry.note(part.partition, now, part.next_expiry_s)
            self._open[part.partition] = part.open_grants
        return [grant for part in claimed for grant in part.grants]

    async def _full(self) -> list[Owned]:
        """At the bound all partitions are counted anew, after growing pauses while nothing ends."""
        await asyncio.sleep(self._full_s)
        self._full_s = min(2 * self._full_s, LOOK_S)
        return list(self._holding.owned.values())


def _now() -> float:
    return asyncio.get_running_loop().time()


def _shares(due: list[Owned], room: int) -> list[tuple[Owned, int]]:
    """Divides `room` evenly; those whose first host waits longest take the remainder."""
    if not due:
        return []
    each, more = divmod(room, len(due))
    return [(one, each + (place < more)) for place, one in enumerate(due)]
