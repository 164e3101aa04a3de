"""Which partitions a dispatcher holds now: leases renewed in the background, fenced, given up."""

import asyncio
import logging
from collections.abc import Callable

from throttle.errors import FrontierError, ServerUnreachable
from throttle.frontier.claims import Claims
from throttle.frontier.faults import FaultLog, Standby
from throttle.frontier.leases import Leases, Owned

_log = logging.getLogger("throttle.dispatcher")


class Holding:
    """Keeps the leases. `on_gain` is told each partition that comes, `pulse` says we are alive.

    What a predecessor claimed and no worker started is given back before a partition is used.
    """

    def __init__(
        self,
        leases: Leases,
        claims: Claims,
        *,
        renew_s: float,
        on_gain: Callable[[int], None],
        pulse: Callable[[], None],
    ) -> None:
        self._leases = leases
        self._claims = claims
        self._renew_s = renew_s
        self._on_gain = on_gain
        self._pulse = pulse
        self._faults = FaultLog(_log)
        self._standby = Standby(_log)
        self.owned: dict[int, Owned] = {}

    async def keep(self) -> None:
        """Renews until cancelled; a Redis that is away is asked again, fencing does the rest."""
        while True:
            try:
                await self._renew()
            except (ServerUnreachable, FrontierError) as fault:
                self._faults.tell(f"cannot renew the leases: {fault}")
            self._faults.look()
            await asyncio.sleep(self._renew_s)

    def drop(self) -> None:
        """Forgets all partitions: one of them turned out to have another holder."""
        self.owned = {}

    async def recover(self) -> None:
        """Gives back this holder's own unstarted grants: a lost reply may have left some."""
        await asyncio.to_thread(self._claims.recover, list(self.owned.values()), own_too=True)

    async def leave(self) -> None:
        """Gives the leases up, so that a standby takes over at once."""
        try:
            await asyncio.to_thread(self._leases.leave)
        except (ServerUnreachable, FrontierError) as fault:
            _log.warning("leases not given up (%s); a successor waits until they end", fault)

    async def _renew(self) -> None:
        held = await asyncio.to_thread(self._leases.renew)
        self._standby.note(held, self._leases.others)
        new = [one for one in held if one.is_new]
        if new:
            count = await asyncio.to_thread(self._claims.recover, new, own_too=False)
            _log.info("took over %d partitions; %d grants given back", len(new), count)
        gained = {one.partition for one in held} - self.owned.keys()
        self.owned = {one.partition: one for one in held}
        for partition in gained:
            self._on_gain(partition)
        if held:
            await asyncio.to_thread(self._pulse)
