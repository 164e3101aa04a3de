"""A connection to RabbitMQ that heals by itself and tells when RabbitMQ blocks it."""

import asyncio
from collections.abc import Callable
from typing import Any

from throttle.errors import ServerUnreachable
from throttle.tokens.broker import Refused, parameters
from throttle.tokens.channel import Channel, open_channel
from throttle.tokens.connection import Connection

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Link:
    """A connection that is opened again, with growing pauses, whenever it is lost.

    RabbitMQ stops reading from a connection that publishes during a memory or disk alarm, so gets
    behind a publish hang too: use one link for publishing and another for pulling.
    """

    def __init__(self, url: str, *, name: str) -> None:
        """Prepare a link to `url`; `name` is what RabbitMQ's management shows.

        Raises `SettingsError` for a URL that cannot be used.
        """
        self._parameters = parameters(url, name)
        self.peer = f"{self._parameters.host}:{self._parameters.port}"
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._fault: ServerUnreachable | None = None
        self._settled = asyncio.Event()
        self._ready = asyncio.Event()
        self._blocked = ""
        self._is_closed = False

    @property
    def connected(self) -> bool:
        """True while the connection is open."""
        return self._connection is not None and self._connection.is_open

    @property
    def blocked(self) -> str:
        """Why RabbitMQ takes no messages now ("low on memory", "low on disk"), or empty."""
        return self._blocked

    @property
    def server_version(self) -> str:
        """RabbitMQ's own version, such as "3.10.8"; empty while the connection is not open."""
        if self._connection is None:
            return ""
        return str((self._connection.raw.server_properties or {}).get("version", ""))

    async def open(self, timeout_s: float) -> None:
        """Wait until the connection is open, starting it the first time.

        Raises `ServerUnreachable` after `timeout_s` seconds, and at once when RabbitMQ refuses the
        user or the virtual host; the link goes on trying in the background until `close`.
        """
        if self._is_closed:
            raise ServerUnreachable(f"the link to RabbitMQ at {self.peer} was closed by us")
        if self._keeper is None:
            self._keeper = asyncio.get_running_loop().create_task(self._keep())
        try:
            async with asyncio.timeout(timeout_s):
                await self._settled.wait()
        except TimeoutError as error:
            raise self._unreachable(f"no answer within {timeout_s:g} s") from error
        if not self.connected:
            raise self._unreachable("the connection was lost")

    async def ready(self, timeout_s: float) -> bool:
        """Wait until messages can be published; False when `timeout_s` seconds did not do."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            return False
        return True

    async def channel(
        self, *, on_confirm: Callable[[Any], None] | None = None, timeout_s: float = 5.0
    ) -> Channel:
        """A new channel; with `on_confirm` RabbitMQ's acks and nacks are asked for and go there.

        Raises `ServerUnreachable` when the link is down or does not answer, `BrokerError` when
        RabbitMQ refuses the channel.
        """
        if self._connection is None or not self._connection.is_open:
            raise self._unreachable("not connected")
        try:
            async with asyncio.timeout(timeout_s):
                return await open_channel(self._connection.raw, self.peer, on_confirm)
        except TimeoutError as error:
            raise self._unreachable(f"no channel within {timeout_s:g} s") from error

    async def close(self) -> None:
        """End the connection, politely within two seconds, and stop healing it."""
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def _keep(self) -> None:
        """Hold one connection open for ever; ends by being cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            connection = Connection(
                self._parameters, on_blocked=self._on_blocked, on_end=self._on_end
            )
            try:
                await connection.opened()
                self._on_open(connection)
                pause_s = FIRST_PAUSE_S
                await connection.ended()
            except ServerUnreachable as fault:
                self._on_failure(fault)
            finally:
                await connection.end()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _on_open(self, connection: Connection) -> None:
        if connection.is_open:
            self._connection = connection
            self._fault = None
            self._settled.set()
            self._ready.set()

    def _on_failure(self, fault: ServerUnreachable) -> None:
        self._fault = fault
        if isinstance(fault, Refused):
            self._settled.set()
        else:
            self._settled.clear()

    def _on_end(self, fault: ServerUnreachable) -> None:
        self._connection = None
        self._blocked = ""
        self._fault = fault
        self._settled.clear()
        self._ready.clear()

    def _on_blocked(self, why: str) -> None:
        self._blocked = why
        if why:
            self._ready.clear()
        elif self.connected:
            self._ready.set()

    def _unreachable(self, what: str) -> ServerUnreachable:
        if self._fault is not None:
            return ServerUnreachable(str(self._fault))
        if self._blocked:
            what = f"{what}, RabbitMQ has blocked the connection ({self._blocked})"
        return ServerUnreachable(
            f"RabbitMQ at {self.peer}: {what}; check that it runs there and that "
            "THROTTLE_BROKER_URL names it"
        )
