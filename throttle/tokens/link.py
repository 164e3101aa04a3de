"""One connection to RabbitMQ that heals by itself and tells when RabbitMQ blocks it."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from pika import URLParameters
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import (
    AMQPConnectionError,
    AMQPError,
    NoFreeChannels,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from throttle.errors import BrokerError, ServerUnreachable, SettingsError
from throttle.tokens.channel import Channel, fulfil

HEARTBEAT_S = 60
"""Long, because beat lets the event loop stand still between two ticks."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
CLOSE_S = 2.0
"""Seconds that a polite close may take; a blocked connection never answers one."""


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
        self._connection: Any = None
        self._keeper: asyncio.Task[None] | None = None
        self._fault: ServerUnreachable | None = None
        self._settled = asyncio.Event()
        self._ready = asyncio.Event()
        self._blocked = ""
        self._is_closed = False

    @property
    def connected(self) -> bool:
        """True while the connection is open."""
        return self._connection is not None and bool(self._connection.is_open)

    @property
    def blocked(self) -> str:
        """Why RabbitMQ takes no messages now ("low on memory", "low on disk"), or empty."""
        return self._blocked

    @property
    def server_version(self) -> str:
        """RabbitMQ's own version, such as "3.10.8"; empty while the connection is not open."""
        if not self.connected:
            return ""
        return str((self._connection.server_properties or {}).get("version", ""))

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
        if not self.connected:
            raise self._unreachable("not connected")
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            raw = self._connection.channel(on_open_callback=lambda _raw: fulfil(opened))
        except NoFreeChannels as error:
            raise BrokerError(
                f"RabbitMQ at {self.peer} allows no more channels; raise channel_max in its "
                "rabbitmq.conf or lower THROTTLE_CHANNELS"
            ) from error
        channel = Channel(raw, self.peer)
        channel.watch(opened)
        try:
            async with asyncio.timeout(timeout_s):
                await opened
                if on_confirm is not None:
                    selected = channel.expect()
                    raw.confirm_delivery(on_confirm, lambda _ok: fulfil(selected))
                    await selected
        except TimeoutError as error:
            channel.discard()
            raise self._unreachable(f"no channel within {timeout_s:g} s") from error
        except asyncio.CancelledError:
            channel.discard()
            raise
        return channel

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
            lost = asyncio.Event()
            try:
                await self._connect(lost)
            except ServerUnreachable as fault:
                self._fault = fault
            else:
                pause_s = FIRST_PAUSE_S
                await self._hold(lost)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _connect(self, lost: asyncio.Event) -> None:
        answer = asyncio.get_running_loop().create_future()

        def opened(connection: Any) -> None:
            connection.add_on_connection_blocked_callback(self._on_blocked)
            connection.add_on_connection_unblocked_callback(self._on_unblocked)
            self._connection = connection
            self._fault = None
            self._settled.set()
            self._ready.set()
            if not answer.done():
                answer.set_result(None)

        def failed(_connection: Any, reason: BaseException) -> None:
            fault, refused = self._explain(reason)
            self._fault = fault
            if refused:
                self._settled.set()
            else:
                self._settled.clear()
            lost.set()
            if not answer.done():
                answer.set_exception(fault)

        def closed(_connection: Any, reason: BaseException) -> None:
            self._connection = None
            self._blocked = ""
            self._fault = self._explain(reason)[0]
            self._settled.clear()
            self._ready.clear()
            lost.set()

        connection = AsyncioConnection(
            self._parameters,
            on_open_callback=opened,
            on_open_error_callback=failed,
            on_close_callback=closed,
            custom_ioloop=asyncio.get_running_loop(),
        )
        try:
            await answer
        except asyncio.CancelledError:
            await _end(connection, lost)
            raise

    async def _hold(self, lost: asyncio.Event) -> None:
        connection = self._connection
        try:
            await lost.wait()
        except asyncio.CancelledError:
            await _end(connection, lost)
            raise

    def _on_blocked(self, _connection: Any, frame: Any) -> None:
        self._blocked = str(frame.method.reason or "blocked")
        self._ready.clear()

    def _on_unblocked(self, _connection: Any, _frame: Any) -> None:
        self._blocked = ""
        if self.connected:
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

    def _explain(self, reason: BaseException) -> tuple[ServerUnreachable, bool]:
        """What went wrong, in words, and whether RabbitMQ refused us (waiting rarely helps)."""
        cause = _innermost(reason)
        refused = True
        if isinstance(cause, ProbableAuthenticationError):
            words = "it refuses the user or the password; check both in THROTTLE_BROKER_URL"
        elif isinstance(cause, ProbableAccessDeniedError):
            words = (
                f"it refuses the virtual host {self._parameters.virtual_host!r} ({cause}); "
                "check the end of THROTTLE_BROKER_URL and the user's permissions"
            )
        else:
            refused = False
            words = (
                f"{_words(cause)}; check that it runs there and that THROTTLE_BROKER_URL names it"
            )
        fault = ServerUnreachable(f"RabbitMQ at {self.peer}: {words}")
        fault.__cause__ = reason
        return fault, refused


def parameters(url: str, name: str) -> URLParameters:
    """What `url` (`amqp://` or `amqps://`) says, read as Celery reads it.

    Raises `SettingsError` for another URL, and for the user `guest` on a server that is not this
    machine: everybody knows its password.
    """
    if not url.startswith(("amqp://", "amqps://")):
        raise SettingsError("THROTTLE_BROKER_URL must begin with amqp:// or amqps://")
    try:
        given = URLParameters(url)
    except (ValueError, TypeError, AttributeError, SyntaxError, OSError) as error:
        raise SettingsError(
            "THROTTLE_BROKER_URL cannot be read; write amqp://user:password@host:5672/vhost"
        ) from error
    given.virtual_host = unquote(urlsplit(url).path[1:]) or "/"
    refuse_guest(given.credentials.username, given.host)
    if given.heartbeat is None:
        given.heartbeat = HEARTBEAT_S
    given.client_properties = {**(given.client_properties or {}), "connection_name": name}
    return given


def refuse_guest(user: str, host: str) -> None:
    """Raise `SettingsError` when `user` is guest and `host` is not a loopback address."""
    if user != "guest" or _is_loopback(host):
        return
    raise SettingsError(
        f"THROTTLE_BROKER_URL: user guest at {host}; its password is known to everybody, so it is "
        "only taken on this machine: make a user of your own (rabbitmqctl add_user)"
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _end(connection: Any, lost: asyncio.Event) -> None:
    """Close `connection`, and cut it when RabbitMQ does not answer."""
    if connection.is_closed:
        return
    if not connection.is_closing:
        connection.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await lost.wait()
    except TimeoutError:
        # pika has no public way to cut a connection whose close is not answered.
        fault = AMQPConnectionError("RabbitMQ did not answer the close")
        connection._terminate_stream(fault)  # noqa: SLF001
        await lost.wait()


def _innermost(reason: BaseException) -> BaseException:
    """The cause that pika has wrapped in up to three exceptions."""
    while True:
        inner = next(
            (
                part
                for part in (
                    *getattr(reason, "exceptions", ())[-1:],
                    getattr(reason, "exception", None),
                    *(
                        reason.args
                        if isinstance(reason, AMQPError | AMQPConnectorException)
                        else ()
                    ),
                )
                if isinstance(part, BaseException)
            ),
            None,
        )
        if inner is None:
            return reason
        reason = inner


def _words(cause: BaseException) -> str:
    if isinstance(cause, socket.gaierror):
        return "the host name cannot be resolved"
    if isinstance(cause, ConnectionRefusedError):
        return "nothing listens there (connection refused)"
    if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
        return "no answer in time"
    return str(cause) or type(cause).__name__
