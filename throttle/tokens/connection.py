"""One connection to RabbitMQ, from the dial to its end; what heals it is the link."""

import asyncio
from collections.abc import Callable
from typing import Any

from pika import URLParameters
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.exceptions import AMQPConnectionError

from throttle.errors import ServerUnreachable
from throttle.tokens.broker import explain
from throttle.tokens.channel import fulfil

CLOSE_S = 2.0
"""Seconds that a polite close may take; a blocked connection never answers one."""


class Connection:
    """A pika connection (`raw`) on the running event loop."""

    def __init__(
        self,
        asked: URLParameters,
        *,
        on_blocked: Callable[[str], None],
        on_end: Callable[[ServerUnreachable], None],
    ) -> None:
        """Begin to connect.

        `on_blocked` hears why RabbitMQ takes no messages, and "" when it takes them again;
        `on_end` hears how an open connection ended.
        """
        loop = asyncio.get_running_loop()
        self._asked = asked
        self._on_blocked = on_blocked
        self._on_end = on_end
        self._open: asyncio.Future[None] = loop.create_future()
        self._ended = asyncio.Event()
        self.raw: Any = AsyncioConnection(
            asked,
            on_open_callback=self._opened,
            on_open_error_callback=self._failed,
            on_close_callback=self._closed,
            custom_ioloop=loop,
        )

    @property
    def is_open(self) -> bool:
        """True while it can be used."""
        return bool(self.raw.is_open)

    async def opened(self) -> None:
        """Wait until it is open. Raises `ServerUnreachable` when it cannot be opened."""
        await self._open

    async def ended(self) -> None:
        """Wait until it is no more."""
        await self._ended.wait()

    async def end(self) -> None:
        """Close it, and cut it when RabbitMQ does not answer."""
        if self.raw.is_closed:
            return
        if not self.raw.is_closing:
            self.raw.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._ended.wait()
        except TimeoutError:
            # pika has no public way to cut a connection whose close is not answered.
            fault = AMQPConnectionError("RabbitMQ did not answer the close")
            self.raw._terminate_stream(fault)  # noqa: SLF001
            await self._ended.wait()

    def _opened(self, _raw: object) -> None:
        self.raw.add_on_connection_blocked_callback(
            lambda _raw, frame: self._on_blocked(str(frame.method.reason or "blocked"))
        )
        self.raw.add_on_connection_unblocked_callback(lambda _raw, _frame: self._on_blocked(""))
        fulfil(self._open)

    def _failed(self, _raw: object, reason: BaseException) -> None:
        self._ended.set()
        if not self._open.done():
            self._open.set_exception(explain(reason, self._asked))

    def _closed(self, _raw: object, reason: BaseException) -> None:
        self._ended.set()
        self._on_end(explain(reason, self._asked))
