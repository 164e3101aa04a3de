"""Pulls tokens over many channels, one get under way on each; a missing queue costs only itself."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from pika.spec import Basic

from throttle.errors import BrokerError, ServerUnreachable, ThrottleError
from throttle.tokens.channel import NAME_LIMIT, Channel
from throttle.tokens.link import Link

_NO_QUEUE = 404


class Pulled(StrEnum):
    """What came of asking one queue for a token."""

    TOKEN = "token"  # noqa: S105 - a token of a bucket, not a secret
    EMPTY = "empty"
    MISSING = "missing"
    LOST = "lost"


class Puller:
    """Asks many token queues at once.

    A token is taken with automatic acknowledgement: one that waited to be acknowledged would not
    count against the queue's bound, and come back on top of it. So what is LOST may be spent.
    """

    def __init__(self, link: Link, channels: int, *, timeout_s: float = 5.0) -> None:
        """Use up to `channels` channels of `link`, opened when first needed."""
        self.fault: ThrottleError | None = None
        self._link = link
        self._channels = channels
        self._timeout_s = timeout_s
        self._idle: list[_Lane] = []
        self._turn = asyncio.Lock()

    async def pull(self, queues: Sequence[str]) -> list[Pulled]:
        """Ask each of `queues` for one token; the answers come in the same order.

        A queue whose answer has not come after `timeout_s` seconds is LOST, as are all while the
        link is down; `fault` then says why. Never raises for what RabbitMQ answers.
        """
        if not queues:
            return []
        async with self._turn:
            asked = _Round(queues)
            self.fault = None
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._link.open(self._timeout_s)
                    lanes = min(self._channels, len(queues))
                    await asyncio.gather(*(self._serve(asked) for _ in range(lanes)))
            except TimeoutError:
                self.fault = ServerUnreachable(
                    f"RabbitMQ at {self._link.peer} did not answer every get within "
                    f"{self._timeout_s:g} s; it may be overloaded or blocked by an alarm"
                )
            except ServerUnreachable as fault:
                self.fault = fault
            self.fault = self.fault or asked.fault
            return asked.answers

    async def _serve(self, asked: "_Round") -> None:
        """Ask one queue after the other, on a new channel whenever the last one was closed."""
        while asked.has_more:
            lane = await self._lane(asked)
            if lane is None:
                return
            try:
                await lane.run(asked)
            except asyncio.CancelledError:
                lane.discard()
                raise
            if lane.is_open:
                self._idle.append(lane)

    async def _lane(self, asked: "_Round") -> "_Lane | None":
        while self._idle:
            lane = self._idle.pop()
            if lane.is_open:
                return lane
        try:
            return _Lane(await self._link.channel(timeout_s=self._timeout_s))
        except (BrokerError, ServerUnreachable) as fault:
            asked.fault = fault
            return None


class _Round:
    """One call of `pull`: the queues still to be asked, and the answers so far."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.queues = queues
        self.answers = [Pulled.LOST] * len(queues)
        self.fault: ThrottleError | None = None
        self._next = 0

    @property
    def has_more(self) -> bool:
        return self._next < len(self.queues)

    def take(self) -> int | None:
        """The index of the next queue to ask."""
        while self._next < len(self.queues):
            index = self._next
            self._next += 1
            if len(self.queues[index].encode()) <= NAME_LIMIT:
                return index
            self.answers[index] = Pulled.MISSING
        return None


class _Lane:
    """One channel with at most one get under way; driven by callbacks, since tasks cost more."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._raw = channel.raw
        self._round: _Round | None = None
        self._index = 0
        self._finished: asyncio.Future[None] | None = None
        self._raw.add_callback(self._on_empty, [Basic.GetEmpty], one_shot=False)
        channel.on_end(self._on_end)

    @property
    def is_open(self) -> bool:
        return self._channel.is_open

    async def run(self, asked: _Round) -> None:
        """Ask until the round has no more queues or the channel is closed."""
        self._round = asked
        self._finished = asyncio.get_running_loop().create_future()
        self._ask()
        await self._finished

    def discard(self) -> None:
        """Give the channel up; an answer that still comes is nobody's."""
        self._round = None
        self._channel.discard()

    def _ask(self) -> None:
        asked = self._round
        index = asked.take() if asked is not None else None
        if asked is None or index is None:
            self._finish()
            return
        self._index = index
        self._raw.basic_get(asked.queues[index], self._on_token, auto_ack=True)

    def _on_token(self, *_message: object) -> None:
        self._answer(Pulled.TOKEN)

    def _on_empty(self, _frame: Any) -> None:
        self._answer(Pulled.EMPTY)

    def _answer(self, pulled: Pulled) -> None:
        if self._round is not None:
            self._round.answers[self._index] = pulled
            self._ask()

    def _on_end(self, fault: ThrottleError) -> None:
        if self._round is None:
            return
        if isinstance(fault, BrokerError) and fault.code == _NO_QUEUE:
            self._round.answers[self._index] = Pulled.MISSING
        else:
            self._round.fault = fault
        self._finish()

    def _finish(self) -> None:
        self._round = None
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
