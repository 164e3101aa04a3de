"""Publishes batches and says of each message: RabbitMQ has it, has it not, or may have it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any

from pika import BasicProperties
from pika.exceptions import AMQPError, ChannelError
from pika.spec import Basic

from throttle.errors import BrokerError, ServerUnreachable, ThrottleError, UsageError
from throttle.tokens.channel import Channel
from throttle.tokens.link import Link

_PERSISTENT = 2
_TRANSIENT = 1
_BURST = 256
"""Messages written before the loop may read answers again."""


class Confirm(StrEnum):
    """What is known of one published message.

    CONFIRMED: it is in its queue. RETURNED: the queue does not exist. REFUSED: the queue is full,
    or the message cannot be encoded. UNKNOWN: it may be there, or may still arrive later.
    """

    CONFIRMED = "confirmed"
    RETURNED = "returned"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Message:
    """One message for `queue`; `properties.message_id` names it within its batch.

    The message owns `properties` from then on: their delivery mode follows `persistent`.
    """

    queue: str
    body: bytes
    properties: BasicProperties
    persistent: bool

    def __post_init__(self) -> None:
        if not self.properties.message_id:
            raise UsageError("a message needs a message_id: a returned one is known by it")
        self.properties.delivery_mode = _PERSISTENT if self.persistent else _TRANSIENT


class Publisher:
    """Publishes to queues through the default exchange: mandatory, confirmed, in batches."""

    def __init__(self, link: Link) -> None:
        """Publish over `link`, which nothing that must go on during an alarm should share."""
        self.fault: ThrottleError | None = None
        self._link = link
        self._channel: Channel | None = None
        self._batch: _Batch | None = None
        self._last_tag = 0
        self._turn = asyncio.Lock()

    async def publish(self, messages: Sequence[Message], timeout_s: float) -> list[Confirm]:
        """Publish `messages` and wait up to `timeout_s` seconds for what RabbitMQ says of each.

        While the link is down or blocked nothing is sent, and what is not sent in time is UNKNOWN
        too. Where one is UNKNOWN, `fault` says why. Never raises for what RabbitMQ answers.
        """
        if not messages:
            return []
        async with self._turn:
            batch = _Batch(messages)
            self.fault = None
            try:
                async with asyncio.timeout(timeout_s):
                    await self._send(batch, timeout_s)
                    await batch.answered()
            except TimeoutError:
                self.fault = self._silence(timeout_s)
            except (BrokerError, ServerUnreachable) as fault:
                self.fault = fault
            finally:
                self._batch = None
                if not batch.is_answered:
                    self._replace_channel()
            return batch.confirms

    async def _send(self, batch: "_Batch", timeout_s: float) -> None:
        await self._link.open(timeout_s)
        await self._link.ready(timeout_s)
        channel = await self._open_channel(timeout_s)
        self._batch = batch
        for index, message in enumerate(batch.messages):
            if channel.fault is not None:
                raise channel.fault
            self._write(channel, batch, index, message)
            if index % _BURST == _BURST - 1:
                await asyncio.sleep(0)

    def _write(self, channel: Channel, batch: "_Batch", index: int, message: Message) -> None:
        try:
            channel.raw.basic_publish(
                "", message.queue, message.body, message.properties, mandatory=True
            )
        except (AMQPError, ChannelError, AssertionError, TypeError, ValueError) as error:
            if not channel.is_open:
                raise ServerUnreachable(
                    f"the connection to RabbitMQ at {self._link.peer} was lost"
                ) from error
            batch.refuse(index)
            return
        self._last_tag += 1
        batch.sent(self._last_tag, index)

    async def _open_channel(self, timeout_s: float) -> Channel:
        if self._channel is None or not self._channel.is_open:
            channel = await self._link.channel(on_confirm=self._on_confirm, timeout_s=timeout_s)
            channel.raw.add_on_return_callback(self._on_return)
            channel.on_end(self._on_end)
            self._channel = channel
            self._last_tag = 0
        return self._channel

    def _replace_channel(self) -> None:
        """Leave the channel, so that a late confirm is not taken for one of the next batch."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.discard()

    def _on_confirm(self, frame: Any) -> None:
        if self._batch is not None:
            confirm = Confirm.CONFIRMED if isinstance(frame.method, Basic.Ack) else Confirm.REFUSED
            self._batch.confirm(frame.method.delivery_tag, frame.method.multiple, confirm)

    def _on_return(
        self, _channel: object, method: Any, properties: BasicProperties, _body: bytes
    ) -> None:
        if self._batch is not None:
            self._batch.give_back(method.routing_key, str(properties.message_id))

    def _on_end(self, fault: ThrottleError) -> None:
        if self._batch is not None:
            self._batch.fail(fault)

    def _silence(self, timeout_s: float) -> ServerUnreachable:
        why = f"blocked: {self._link.blocked}" if self._link.blocked else "no confirm"
        return ServerUnreachable(f"RabbitMQ at {self._link.peer}: {why} within {timeout_s:g} s")


class _Batch:
    """The messages of one call and what is known of each; UNKNOWN until RabbitMQ speaks."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.confirms = [Confirm.UNKNOWN] * len(messages)
        self._open = len(messages)
        self._fault: ThrottleError | None = None
        self._by_tag: dict[int, int] = {}
        self._returned: set[tuple[str, str]] = set()
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_answered(self) -> bool:
        return self._open == 0

    async def answered(self) -> None:
        """Wait for the last answer; raises the fault that ended the channel before it."""
        if not self.is_answered:
            await self._done
        if self._fault is not None:
            raise self._fault

    def sent(self, tag: int, index: int) -> None:
        self._by_tag[tag] = index

    def refuse(self, index: int) -> None:
        self._settle(index, Confirm.REFUSED)

    def give_back(self, queue: str, message_id: str) -> None:
        """RabbitMQ sends this before it acknowledges the same message."""
        self._returned.add((queue, message_id))

    def confirm(self, tag: int, multiple: bool, confirm: Confirm) -> None:
        """Settle the message with `tag`, and with `multiple` all those sent before it."""
        tags = [tag]
        if multiple:
            tags = list(takewhile(lambda sent: sent <= tag, self._by_tag))
        for settled in tags:
            index = self._by_tag.pop(settled, None)
            if index is not None:
                self._settle(index, confirm)

    def fail(self, fault: ThrottleError) -> None:
        self._fault = fault
        if not self._done.done():
            self._done.set_result(None)

    def _settle(self, index: int, confirm: Confirm) -> None:
        message = self.messages[index]
        if (
            self._returned
            and confirm is Confirm.CONFIRMED
            and (message.queue, message.properties.message_id) in self._returned
        ):
            confirm = Confirm.RETURNED
        self.confirms[index] = confirm
        self._open -= 1
        if self._open == 0 and not self._done.done():
            self._done.set_result(None)
