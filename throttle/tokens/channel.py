"""One channel of a link: what waits on it fails at once when the channel or its connection ends."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from pika.channel import Channel as PikaChannel
from pika.exceptions import AMQPError, ChannelClosed, ChannelError, ConnectionClosed, NoFreeChannels

from throttle.errors import BrokerError, ServerUnreachable, ThrottleError

NAME_LIMIT = 255
"""Bytes of UTF-8 that AMQP allows for a queue's name."""


class Channel:
    """A pika channel (`raw`) whose end is told to everything that waits on it.

    What ends a channel is kept as `fault`: `BrokerError` with AMQP's reply code where RabbitMQ
    closed it, `ServerUnreachable` where the connection went away.
    """

    def __init__(self, raw: PikaChannel, peer: str) -> None:
        self.raw = raw
        self.fault: ThrottleError | None = None
        self._peer = peer
        self._waiting: set[asyncio.Future[None]] = set()
        self._on_end: list[Callable[[ThrottleError], None]] = []
        raw.add_on_close_callback(self._ended)

    @property
    def is_open(self) -> bool:
        """True while it can be used."""
        return self.fault is None and bool(self.raw.is_open)

    def on_end(self, callback: Callable[[ThrottleError], None]) -> None:
        """Call `callback` with the fault once the channel has ended, however it ended."""
        self._on_end.append(callback)

    def expect(self) -> "asyncio.Future[None]":
        """A future for one answer of RabbitMQ; it fails when the channel ends first."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.watch(future)
        return future

    def watch(self, future: "asyncio.Future[None]") -> None:
        """Fail `future` with the fault when the channel ends first."""
        if self.fault is not None:
            future.set_exception(self.fault)
            return
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)

    def discard(self) -> None:
        """Close it without waiting: answers that are still under way will reach nobody."""
        if self.raw.is_open or self.raw.is_opening:
            self.raw.close()

    async def declare(self, queue: str, arguments: Mapping[str, object]) -> None:
        """Declare the durable queue `queue`.

        Raises `BrokerError` (406: it exists with other arguments) and `ServerUnreachable`.
        """
        await self._call(
            queue,
            lambda answered: self.raw.queue_declare(
                queue, durable=True, arguments=dict(arguments), callback=answered
            ),
        )

    async def exists(self, queue: str) -> bool:
        """Whether `queue` is there; where it is not, RabbitMQ closes this channel.

        Raises `BrokerError` for what else RabbitMQ says, and `ServerUnreachable`.
        """
        try:
            await self._call(
                queue,
                lambda answered: self.raw.queue_declare(queue, passive=True, callback=answered),
            )
        except BrokerError as error:
            if error.code == 404:
                return False
            raise
        return True

    async def delete(self, queue: str) -> None:
        """Delete `queue` with what it holds; a queue that does not exist is no error."""
        await self._call(queue, lambda answered: self.raw.queue_delete(queue, callback=answered))

    async def _call(self, queue: str, send: Callable[[Callable[[object], None]], None]) -> None:
        """Send one method that names `queue` and wait for its answer."""
        if len(queue.encode()) > NAME_LIMIT:
            raise BrokerError(f"queue {queue[:80]!r}...: the name is over {NAME_LIMIT} bytes")
        if not self.is_open:
            raise self.fault or ServerUnreachable(f"the channel to {self._peer} is closed")
        future = self.expect()
        try:
            send(lambda _answer: fulfil(future))
        except (AMQPError, ChannelError, TypeError, ValueError) as error:
            future.cancel()
            raise BrokerError(f"queue {queue!r}: cannot be asked for: {error!r}") from error
        try:
            await future
        except BrokerError as error:
            raise BrokerError(f"queue {queue!r}: {error}", code=error.code) from error

    def _ended(self, _raw: PikaChannel, reason: Exception) -> None:
        fault = _fault(reason, self._peer)
        self.fault = fault
        for future in list(self._waiting):
            if not future.done():
                future.set_exception(fault)
        for callback in self._on_end:
            callback(fault)


async def open_channel(
    connection: Any, peer: str, on_confirm: Callable[[Any], None] | None = None
) -> Channel:
    """A new channel of the pika connection `connection`, confirming to `on_confirm` if given.

    Raises `BrokerError` when no channel is left, `ServerUnreachable` when the connection goes.
    """
    opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    try:
        raw = connection.channel(on_open_callback=lambda _raw: fulfil(opened))
    except NoFreeChannels as error:
        raise BrokerError(
            f"RabbitMQ at {peer} allows no more channels; raise channel_max in its "
            "rabbitmq.conf or lower THROTTLE_CHANNELS"
        ) from error
    channel = Channel(raw, peer)
    channel.watch(opened)
    try:
        await opened
        if on_confirm is not None:
            selected = channel.expect()
            raw.confirm_delivery(on_confirm, lambda _ok: fulfil(selected))
            await selected
    except asyncio.CancelledError:
        channel.discard()
        raise
    return channel


def fulfil(future: "asyncio.Future[None]") -> None:
    """Tell who waits for `future` that it has come, unless they have stopped waiting."""
    if not future.done():
        future.set_result(None)


def _fault(reason: Exception, peer: str) -> ThrottleError:
    fault: ThrottleError
    if isinstance(reason, ChannelClosed):
        fault = BrokerError(
            f"RabbitMQ closed the channel: {reason.reply_code} {reason.reply_text}",
            code=reason.reply_code,
        )
    elif isinstance(reason, ConnectionClosed):
        fault = ServerUnreachable(
            f"the connection to RabbitMQ at {peer} was closed: "
            f"{reason.reply_code} {reason.reply_text}"
        )
    else:
        fault = ServerUnreachable(f"the connection to RabbitMQ at {peer} was lost: {reason!r}")
    fault.__cause__ = reason
    return fault
