"""The dispatcher: claim, pull, forward, and nothing per host in between."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from throttle.dispatch.expiry import Expiry
from throttle.dispatch.holding import Holding
from throttle.dispatch.sink import Forwarding, Sink
from throttle.errors import Fenced, FrontierError, ServerUnreachable
from throttle.frontier.claims import Claims
from throttle.frontier.leases import Owned
from throttle.model import Grant
from throttle.tokens.agenda import Agenda
from throttle.tokens.link import Link
from throttle.tokens.puller import Pulled, Puller
from throttle.tokens.topology import token_queue

_log = logging.getLogger("throttle.dispatcher")

_LOOK_UP_S = 1.0
_FULL_S = 0.02
_FAULT_PAUSE_S = 0.5


class Dispatcher:
    """Forwards URLs whose hosts may go. One process may hold all partitions, or share them.

    `max_in_flight` bounds the open grants of all partitions, `batch` the hosts of one round.
    `new_nonce` gives a text that no other claim ever used, `prepare` declares the crawl queue.
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
        max_in_flight: int,
        batch: int,
        new_nonce: Callable[[], str],
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self._claims = claims
        self._holding = holding
        self._agenda = agenda
        self._links = links
        self._puller = puller
        self._sink = sink
        self._max_in_flight = max_in_flight
        self._batch = batch
        self._new_nonce = new_nonce
        self._prepare = prepare
        self._open: dict[int, int] = {}
        self._expiry = Expiry(claims, holding)
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
            grants = await self._claim()
            if grants:
                await self._forward(await self._pull(grants))
            else:
                await self._sleep()
        except Fenced as fault:
            _log.warning("%s; standing by", fault)
            self._holding.drop()
        except (ServerUnreachable, FrontierError) as fault:
            _log.error("%s", fault)
            await self._after_fault()

    async def _may_work(self) -> bool:
        """Fail closed: without a lease or a broker nothing is claimed."""
        if not self._holding.owned:
            await self._agenda.sleep((), _now(), _LOOK_UP_S)
            return False
        for link in self._links:
            if not await link.ready(_LOOK_UP_S):
                return False
        return True

    async def _claim(self) -> list[Grant]:
        now = _now()
        due = [self._holding.owned[p] for p in self._agenda.due(self._holding.owned, now)]
        if not due:
            return []
        room = self._max_in_flight - sum(self._open.get(p, 0) for p in self._holding.owned)
        if room <= 0:
            await asyncio.sleep(_FULL_S)
            due = list(self._holding.owned.values())
        claimed = await asyncio.to_thread(
            self._claims.claim, _shares(due, max(0, min(room, self._batch))), self._new_nonce()
        )
        now = _now()
        for part in claimed:
            self._agenda.put(part.partition, now, part.next_ready_s)
            self._expiry.note(part.partition, now, part.next_expiry_s)
            self._open[part.partition] = part.open_grants
        return [grant for part in claimed for grant in part.grants]

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
            _log.error(
                "RabbitMQ took %d of %d messages; is the crawl queue there, and not full?",
                len(grants) - len(returned),
                len(grants),
            )
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


def _shares(due: list[Owned], room: int) -> list[tuple[Owned, int]]:
    """Divides `room` evenly, the first partitions taking the remainder."""
    each, more = divmod(room, len(due))
    return [(one, each + (place < more)) for place, one in enumerate(due)]
