"""The issuer: publishes one token for each bucket whose next one is due, and marks it issued."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from pika import BasicProperties

from throttle.errors import BrokerError, Fenced, FrontierError, ServerUnreachable, UsageError
from throttle.frontier.faults import FaultLog, Standby
from throttle.frontier.leases import Leases, Owned
from throttle.frontier.refill import Due, Refill
from throttle.model import DueToken
from throttle.tokens.agenda import Agenda
from throttle.tokens.declarer import Declarer
from throttle.tokens.link import Link
from throttle.tokens.publisher import Confirm, Message, Publisher
from throttle.tokens.topology import queue_shape, token_queue, token_queue_arguments

_log = logging.getLogger("throttle.issuer")

_LOOK_UP_S = 1.0
_FAULT_DELAY_S = 30.0
_FAULT_PAUSE_S = 0.5


class Issuer:
    """Keeps the buckets filled, for the partitions whose issuer lease it holds."""

    def __init__(
        self,
        refill: Refill,
        leases: Leases,
        link: Link,
        *,
        batch: int,
        lease_ttl_s: float,
        publish_timeout_s: float,
        pulse: Callable[[], None],
    ) -> None:
        self._refill = refill
        self._leases = leases
        self._link = link
        self._publisher = Publisher(link)
        self._declarer = Declarer(link)
        self._batch = batch
        self._renew_s = min(lease_ttl_s / 3, _LOOK_UP_S)
        self._publish_timeout_s = publish_timeout_s
        self._pulse = pulse
        self._owned: dict[int, Owned] = {}
        self._renew_at = 0.0
        self._faults, self._standby = FaultLog(_log), Standby(_log)
        self.agenda = Agenda()

    async def run_for(self, seconds: float) -> None:
        """Issues what falls due within `seconds`; heals by itself from faults of either server."""
        until = self._now() + seconds
        while True:
            try:
                await self._round()
            except Fenced as fault:
                _log.warning("%s; standing by", fault)
                self._owned = {}
            except (ServerUnreachable, FrontierError) as fault:
                self._faults.tell(fault)
                await asyncio.sleep(_FAULT_PAUSE_S)
            self._faults.look()
            now = self._now()
            if now >= until:
                return
            await self.agenda.sleep(self._owned, now, max(0.0, min(until, self._renew_at) - now))

    async def begin(self) -> None:
        """Waits until RabbitMQ answers; raises `ServerUnreachable` when it does not."""
        await self._link.open(self._publish_timeout_s)

    async def leave(self) -> None:
        """Gives the leases up and closes the link."""
        try:
            self._leases.leave()
        except (ServerUnreachable, FrontierError) as fault:
            _log.warning("leases not given up (%s); a successor waits until they end", fault)
        await self._link.close()

    async def _round(self) -> None:
        self._hold()
        due = [self._owned[p] for p in self.agenda.due(self._owned, self._now())]
        if not due:
            return
        await self._link.open(_LOOK_UP_S)
        if not await self._link.ready(_LOOK_UP_S):
            raise ServerUnreachable(
                f"RabbitMQ at {self._link.peer} takes no messages ({self._link.blocked}); free its"
                " memory or disk, the tokens wait"
            )
        parts = self._refill.due(due, self._batch)
        await self._issue(parts)
        for part in parts:
            # A bucket that is not full after this token has a next one, which is not known yet.
            more = any(token.burst > 1 for token in part.tokens)
            self.agenda.put(part.owned.partition, self._now(), 0.0 if more else part.next_due_s)

    def _hold(self) -> None:
        now = self._now()
        if now < self._renew_at:
            return
        self._renew_at = now + self._renew_s
        held = {one.partition: one for one in self._leases.renew()}
        self._standby.note(list(held.values()), self._leases.others)
        for partition in held.keys() - self._owned.keys():
            self.agenda.ring(partition)
        self._owned = held
        if held:
            self._pulse()

    async def _issue(self, parts: list[Due]) -> None:
        wanted = [(part.owned, token) for part in parts for token in part.tokens]
        if not wanted:
            return
        faults = await self._declare([t for _, t in wanted if t.queue_shape != _shape(t)])
        sound = [(owned, token) for owned, token in wanted if token.key not in faults]
        confirms = await self._publish([token for _, token in sound])
        missing = [
            token
            for (_, token), confirm in zip(sound, confirms, strict=True)
            if confirm is Confirm.RETURNED
        ]
        if missing:
            faults |= await self._declare(missing)
            again = dict(zip((t.key for t in missing), await self._publish(missing), strict=True))
            confirms = [again.get(t.key, c) for (_, t), c in zip(sound, confirms, strict=True)]
        self._mark(sound, confirms, faults)
        self._put_off(wanted, faults)

    async def _declare(self, tokens: list[DueToken]) -> dict[str, str]:
        """Declares the queues of `tokens`; the faults by key, so that one stops no other."""

        async def one(token: DueToken) -> str:
            try:
                await self._declarer.ensure(
                    token_queue(token.key), token_queue_arguments(token.burst, token.interval_s)
                )
            except (BrokerError, UsageError) as fault:
                return str(fault)
            return ""

        texts = await asyncio.gather(*(one(token) for token in tokens))
        return {t.key: text for t, text in zip(tokens, texts, strict=True) if text}

    async def _publish(self, tokens: list[DueToken]) -> list[Confirm]:
        messages = [
            Message(token_queue(t.key), b"", BasicProperties(message_id=t.key), persistent=False)
            for t in tokens
        ]
        return await self._publisher.publish(messages, self._publish_timeout_s)

    def _mark(
        self, sound: list[tuple[Owned, DueToken]], confirms: list[Confirm], faults: dict[str, str]
    ) -> None:
        marks: dict[Owned, list[tuple[str, str]]] = defaultdict(list)
        for (owned, token), confirm in zip(sound, confirms, strict=True):
            if confirm is Confirm.CONFIRMED:
                marks[owned].append((token.key, _shape(token)))
            elif confirm is not Confirm.UNKNOWN:
                faults.setdefault(token.key, "RabbitMQ did not take the token")
        self._refill.issued(list(marks.items()))

    def _put_off(self, wanted: list[tuple[Owned, DueToken]], faults: dict[str, str]) -> None:
        for owned, token in wanted:
            if token.key in faults:
                self._faults.tell(f"no token for {token.key}: {faults[token.key]}")
                self._refill.postpone(owned, [token.key], _FAULT_DELAY_S, faults[token.key])

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


def _shape(token: DueToken) -> str:
    return queue_shape(token.burst, token.interval_s)
