"""The dispatcher: claim, pull, forward, and nothing per host in between."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from throttle.dispatch.sink import Forwarding, Sink
from throttle.errors import Fenced, FrontierError, ServerUnreachable
from throttle.frontier.claims import Claims
from throttle.frontier.leases import Leases, Owned
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
        leases: Leases,
        links: Sequence[Link],
        puller: Puller,
        sink: Sink,
        *,
        max_in_flight: int,
        batch: int,
        lease_ttl_s: float,
        new_nonce: Callable[[], str],
        prepare: Callable[[], Awaitable[None]],
        pulse: Callable[[], None],
    ) -> None:
        self._claims = claims
        self._leases = leases
        self._links = links
        self._puller = puller
        self._sink = sink
        self._max_in_flight = max_in_flight
        self._batch = batch
        self._renew_s = lease_ttl_s / 3
        self._new_nonce = new_nonce
        self._prepare = prepare
        self._pulse = pulse
        self._owned: dict[int, Owned] = {}
        self._open: dict[int, int] = {}
        self._expiry: dict[int, float] = {}
        self._stopping = False
        self.agenda = Agenda()

    async def run(self, stop: asyncio.Event) -> None:
        """Claims, pulls and forwards until `stop`; heals by itself from faults of either server.

        Gives back what it holds, its leases, and closes its links before it returns.
        """
        await self._prepare()
        keeper = asyncio.create_task(self._keep_leases())
        bell = asyncio.create_task(self._ring_at(stop))
        try:
            while not self._stopping:
                await self._guarded_round()
        finally:
            keeper.cancel()
            bell.cancel()
            await asyncio.gather(keeper, bell, return_exceptions=True)
            await self._leave()

    async def _ring_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._stopping = True
        self.agenda.ring(None)

    async def _guarded_round(self) -> None:
        try:
            if not await self._may_work():
                return
            await self._expire()
            grants = await self._claim()
            if grants:
                await self._forward(await self._pull(grants))
            else:
                await self._sleep()
        except Fenced as fault:
            _log.warning("%s; standing by", fault)
            self._owned = {}
        except (ServerUnreachable, FrontierError) as fault:
            _log.error("%s", fault)
            await self._after_fault()

    async def _may_work(self) -> bool:
        """Fail closed: without a lease or a broker nothing is claimed."""
        if not self._owned:
            await self.agenda.sleep((), self._now(), _LOOK_UP_S)
            return False
        for link in self._links:
            if not await link.ready(_LOOK_UP_S):
                return False
        return True

    async def _claim(self) -> list[Grant]:
        now = self._now()
        due = [self._owned[p] for p in self.agenda.due(self._owned, now)]
        if not due:
            return []
        room = self._max_in_flight - sum(self._open.values())
        if room <= 0:
            await asyncio.sleep(_FULL_S)
            due = list(self._owned.values())
        claimed = await asyncio.to_thread(
            self._claims.claim, _shares(due, max(0, min(room, self._batch))), self._new_nonce()
        )
        now = self._now()
        for part in claimed:
            self.agenda.put(part.partition, now, part.next_ready_s)
            self._note_expiry(part.partition, now, part.next_expiry_s)
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

    async def _expire(self) -> None:
        now = self._now()
        due = [one for p, one in self._owned.items() if self._expiry.get(p, 0.0) <= now]
        if not due:
            return
        for part in await asyncio.to_thread(self._claims.expire, due):
            self._note_expiry(part.partition, now, part.next_expiry_s)
            if part.closed:
                _log.info("%d grants of partition %d expired", part.closed, part.partition)
                self.agenda.ring(part.partition)

    def _note_expiry(self, partition: int, now: float, after_s: float | None) -> None:
        """A started grant may be put under suspicion and expire sooner: look now and then."""
        self._expiry[partition] = now + min(_LOOK_UP_S, after_s if after_s is not None else 3600.0)

    async def _sleep(self) -> None:
        now = self._now()
        first = min(self._expiry.values(), default=now + _LOOK_UP_S)
        await self.agenda.sleep(self._owned, now, max(0.0, min(_LOOK_UP_S, first - now)))

    async def _keep_leases(self) -> None:
        while True:
            try:
                held = await asyncio.to_thread(self._leases.renew)
                await self._take_over([one for one in held if one.is_new])
                gained = {one.partition for one in held} - self._owned.keys()
                self._owned = {one.partition: one for one in held}
                self._open = {p: n for p, n in self._open.items() if p in self._owned}
                for partition in gained:
                    self.agenda.ring(partition)
                if held:
                    await asyncio.to_thread(self._pulse)
            except (ServerUnreachable, FrontierError) as fault:
                _log.warning("cannot renew the leases: %s", fault)
            await asyncio.sleep(min(self._renew_s, _LOOK_UP_S))

    async def _take_over(self, gained: list[Owned]) -> None:
        if gained:
            count = await asyncio.to_thread(self._claims.recover, gained, own_too=False)
            _log.info("holding %d partitions; %d grants given back", len(gained), count)

    async def _after_fault(self) -> None:
        """A reply may have been lost, and with it grants of ours that nobody will forward."""
        await asyncio.sleep(_FAULT_PAUSE_S)
        with contextlib.suppress(ServerUnreachable, FrontierError):
            await asyncio.to_thread(
                self._claims.recover, list(self._owned.values()), own_too=True
            )
        self.agenda.ring(None)

    async def _leave(self) -> None:
        try:
            await asyncio.to_thread(self._leases.leave)
        except (ServerUnreachable, FrontierError) as fault:
            _log.warning("leases not given up (%s); a successor waits until they end", fault)
        for link in self._links:
            await link.close()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _shares(due: list[Owned], room: int) -> list[tuple[Owned, int]]:
    """Divides `room` evenly, the first partitions taking the remainder."""
    each, more = divmod(room, len(due))
    return [(one, each + (place < more)) for place, one in enumerate(due)]
