"""Declares token queues, and replaces those that were declared with other arguments."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from throttle.errors import BrokerError, ServerUnreachable
from throttle.tokens.channel import Channel
from throttle.tokens.link import Link

_ATTEMPTS = 3
"""Two processes that replace the same queue may meet; the third attempt settles it."""


class Declarer:
    """Makes sure that queues exist with given arguments, several at a time."""

    def __init__(self, link: Link, *, channels: int = 8, timeout_s: float = 10.0) -> None:
        """Use up to `channels` channels of `link`; each queue may take `timeout_s` seconds."""
        self._link = link
        self._timeout_s = timeout_s
        self._room = asyncio.Semaphore(channels)
        self._idle: list[Channel] = []

    async def ensure(self, queue: str, arguments: Mapping[str, object]) -> None:
        """Declare `queue`; where it exists with other arguments, delete and declare it anew.

        The tokens it held are lost then, which only slows. Raises `BrokerError` naming the queue
        when RabbitMQ refuses (403: no right), `ServerUnreachable` when it does not answer.
        """
        async with self._room:
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._settle(queue, arguments)
            except TimeoutError as error:
                raise ServerUnreachable(
                    f"RabbitMQ at {self._link.peer} did not declare queue {queue!r} within "
                    f"{self._timeout_s:g} s; it may be overloaded or blocked by an alarm"
                ) from error

    async def _settle(self, queue: str, arguments: Mapping[str, object]) -> None:
        for attempt in range(_ATTEMPTS):
            try:
                await self._on_a_channel(lambda channel: channel.declare(queue, arguments))
            except BrokerError as error:
                other_arguments = error.code == 406 and "inequivalent" in str(error)
                if not other_arguments or attempt == _ATTEMPTS - 1:
                    raise
                await self._on_a_channel(lambda channel: channel.delete(queue))
            else:
                return

    async def _on_a_channel(self, call: Callable[[Channel], Awaitable[None]]) -> None:
        channel = await self._take()
        try:
            await call(channel)
        except BaseException:
            # An answer may still be under way: the next caller must not get it.
            channel.discard()
            raise
        self._idle.append(channel)

    async def _take(self) -> Channel:
        while self._idle:
            channel = self._idle.pop()
            if channel.is_open:
                return channel
        return await self._link.channel(timeout_s=self._timeout_s)
