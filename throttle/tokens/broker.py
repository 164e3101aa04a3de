"""What the broker's URL says, and in words what keeps us from connecting to it."""

import ipaddress
import socket
from urllib.parse import unquote, urlsplit

from pika import URLParameters
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError, ProbableAccessDeniedError, ProbableAuthenticationError

from throttle.errors import ServerUnreachable, SettingsError

HEARTBEAT_S = 60
"""Long, because beat lets the event loop stand still between two ticks."""


class Refused(ServerUnreachable):
    """RabbitMQ answered and does not let us in: waiting rarely helps."""


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


def explain(reason: BaseException, asked: URLParameters) -> ServerUnreachable:
    """The error to raise for what pika gives as the reason of a failed or lost connection.

    It names host and port and what to do, never the password; `Refused` where RabbitMQ refuses us.
    """
    cause = _innermost(reason)
    kind: type[ServerUnreachable] = Refused
    if isinstance(cause, ProbableAuthenticationError):
        words = "it refuses the user or the password; check both in THROTTLE_BROKER_URL"
    elif isinstance(cause, ProbableAccessDeniedError):
        words = (
            f"it refuses the virtual host {asked.virtual_host!r} ({cause}); "
            "check the end of THROTTLE_BROKER_URL and the user's permissions"
        )
    else:
        kind = ServerUnreachable
        words = f"{_words(cause)}; check that it runs there and that THROTTLE_BROKER_URL names it"
    fault = kind(f"RabbitMQ at {asked.host}:{asked.port}: {words}")
    fault.__cause__ = reason
    return fault


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _innermost(reason: BaseException) -> BaseException:
    """The cause that pika has wrapped in up to three exceptions."""
    while True:
        wrapped = (
            *getattr(reason, "exceptions", ())[-1:],
            getattr(reason, "exception", None),
            *(reason.args if isinstance(reason, AMQPError | AMQPConnectorException) else ()),
        )
        inner = next((part for part in wrapped if isinstance(part, BaseException)), None)
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
