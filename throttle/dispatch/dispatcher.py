"""The dispatcher: claim, pull, forward, and nothing per host in between."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from throttle.dispatch.claiming import Claiming
from throttle.dispatch.expiry import Expiry
from throttle.dispatch.holding import Holding
from throttle.dispatch.sink import Forwarding, Sink
from throttle.errors import Fenced, FrontierError, ServerUnreachable
from throttle.frontier.claims import Claims
from throttle.frontier.faults import FaultLog
from throttle.model import Grant
from throttle.tokens.agenda import Agenda
from throttle.tokens.link import Link
from throttle.tokens.puller import Pulled, Puller
from throttle.tokens.topology import token_queue

_log = logging.getLogger("throttle.dispatcher")

_LOOK_UP_S = 1.0
_FAULT_PAUSE_S = 0.5


class Dispatcher:
    """Forwards URLs whose hosts may go. One process may hold all partitions, or share them.

    `links` are those of `puller` and `sink`; `prepare` declares the crawl queue.
    """

    def __init__(
        self,
        claims: Claims,
        holding: Holding,
        puller: Puller,
        sink: Sink,
        *,
        agenda: Agenda,
        links: Sequence[Link],
        claiming: Claiming,
        expiry: Expiry,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self._claims = claims
        self._holding = holding
        self._agenda = agenda
        self._links = links
        self._puller = puller
        self._sink = sink
        self._claiming = claiming
        self._expiry = expiry
        self._prepare = prepare
        self._faults = FaultLog(_log)
        self._stopping = False

    async def run(self, stop: asyncio.Event) -> None:
        """Claims, pulls and forwards until `stop`; heals by itself from faults of either server.

        Gives back what it holds, its leases, and closes its links before it returns.
        """
        await self._prepare()
        keeper = asyncio.create_task(self._holding.keep())
        bell = asyncio.create_task(self._ring_at(stop))
        try:
            while not self._stopping:
                await self._guarded_round()
                self._faults.look()
        finally:
            keeper.cancel()
            bell.cancel()
            await asyncio.gather(keeper, bell, return_exceptions=True)
            await self._holding.leave()
            for link in self._links:
                await link.close()

    async def _ring_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._stopping = True
        self._agenda.ring(None)

    async def _guarded_round(self) -> None:
        try:
            if not await self._may_work():
                return
            for partition in await self._expiry.close_due(_now()):
                self._agenda.ring(partition)
            grants = await self._claiming.claim()
            if grants:
                await self._forward(await self._pull(grants))
            else:
                await self._sleep()
        except Fenced as fault:
            _log.warning("%s; standing by", fault)
            self._holding.drop()
        except (ServerUnreachable, FrontierError) as fault:
            self._faults.tell(fault)
            await self._after_fault()

    async def _may_work(self) -> bool:
        """Fail closed: without a lease or a broker nothing is claimed."""
        if not self._holding.owned:
            await self._agenda.sleep((), _now(), _LOOK_UP_S)
            return False
        for link in self._links:
            if not await link.ready(_LOOK_UP_S):
                what = f"takes no messages ({link.blocked})" if link.blocked else "is not connected"
                self._faults.tell(f"RabbitMQ at {link.peer} {what}; nothing is claimed until then")
                return False
        return True

    async def _pull(self, grants: list[Grant]) -> list[Grant]:
        """Spends a token for each grant; those without one go back to the frontier."""
        answers = await self._puller.pull([token_queue(grant.key) for grant in grants])
        without = [
            (grant, False)
            for grant, answer in zip(grants, answers, strict=True)
            if answer is not Pulled.TOKEN
        ]
        if without:
            await asyncio.to_thread(self._claims.release, without)
        return [g for g, answer in zip(grants, answers, strict=True) if answer is Pulled.TOKEN]

    async def _forward(self, grants: list[Grant]) -> None:
        """Forwards grants; what certainly reached nobody goes back, what may have is left alone."""
        if self._stopping:
            await asyncio.to_thread(self._claims.release, [(grant, True) for grant in grants])
            return
        answers = await self._sink.forward(grants)
        returned = [
            (grant, True)
            for grant, answer in zip(grants, answers, strict=True)
            if answer is Forwarding.RETURNED
        ]
        if returned:
            self._faults.tell("RabbitMQ gives messages back; is the crawl queue there, not full?")
            await asyncio.to_thread(self._claims.release, returned)
            await self._prepare()
            await asyncio.sleep(_FAULT_PAUSE_S)

    async def _sleep(self) -> None:
        now = _now()
        at_most_s = min(_LOOK_UP_S, self._expiry.next_s(now))
        await self._agenda.sleep(self._holding.owned, now, at_most_s)

    async def _after_fault(self) -> None:
        """A reply may have been lost, and with it grants of ours that nobody will forward."""
        await asyncio.sleep(_FAULT_PAUSE_S)
        with contextlib.suppress(ServerUnreachable, FrontierError):
            await self._holding.recover()
        self._agenda.ring(None)


def _now() -> float:
    return asyncio.get_running_loop().time()
