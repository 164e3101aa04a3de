"""Running the Lua verbs: load them with their shared parts, call them, wrap what goes wrong."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, NoScriptError, ReadOnlyError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from throttle.errors import FrontierError, ServerUnreachable

_INCLUDE = re.compile(r"^--@include (\w+)$", re.MULTILINE)
_UNREACHABLE = (
    RedisConnectionError,
    RedisTimeoutError,
    BusyLoadingError,
    ReadOnlyError,
    OSError,
)


@cache
def source(name: str) -> str:
    """The text of the verb `name` with its shared parts put in."""
    folder = files("throttle.frontier") / "lua"
    text = (folder / f"{name}.lua").read_text(encoding="utf-8")

    def part(match: re.Match[str]) -> str:
        return (folder / "parts" / f"{match[1]}.lua").read_text(encoding="utf-8")

    return _INCLUDE.sub(part, text)


@cache
def _sha(name: str) -> str:
    return sha1(source(name).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb: its name, KEYS and ARGV."""

    verb: str
    keys: Sequence[str]
    args: Sequence[str | bytes | int]


class Scripts:
    """Calls verbs on one Redis. Thread-safe, as the client's connection pool is.

    A command is never sent twice by itself: only a call that Redis refused before it ran
    (NOSCRIPT) is repeated.
    """

    def __init__(self, client: redis.Redis, shown: str = "Redis") -> None:
        self.client = client
        self._shown = shown

    def run(self, verb: str, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
        """The reply of one verb. Raises as `run_many`."""
        return self.run_many([Call(verb, keys, args)])[0]

    def run_many(self, calls: Sequence[Call]) -> list[Any]:
        """The replies of many calls, sent in one round trip; each call is atomic by itself.

        Raises `ServerUnreachable` when Redis does not answer (then what ran is unknown), and
        `FrontierError` when it refuses a call.
        """
        replies = self._send(calls)
        unknown = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            self._load({calls[i].verb for i in unknown})
            for i, reply in zip(unknown, self._send([calls[i] for i in unknown]), strict=True):
                replies[i] = reply
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(reply, Exception):
                raise self._wrapped(reply, call.verb) from reply
        return replies

    def read(self, commands: Sequence[tuple[str | bytes | int, ...]]) -> list[Any]:
        """The replies of plain commands, sent in one round trip. Raises as `run_many`."""
        pipeline = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        try:
            return list(pipeline.execute())
        except (RedisError, OSError) as error:
            raise self._wrapped(error, str(commands[0][0])) from error

    def _send(self, calls: Sequence[Call]) -> list[Any]:
        pipeline = self.client.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(
                "EVALSHA", _sha(call.verb), len(call.keys), *call.keys, *call.args
            )
        try:
            return list(pipeline.execute(raise_on_error=False))
        except (RedisError, OSError) as error:
            raise self._wrapped(error, calls[0].verb) from error

    def _load(self, verbs: set[str]) -> None:
        try:
            for verb in verbs:
                self.client.script_load(source(verb))
        except (RedisError, OSError) as error:
            raise self._wrapped(error, "script load") from error

    def _wrapped(self, error: Exception, verb: str) -> Exception:
        if isinstance(error, _UNREACHABLE):
            return ServerUnreachable(
                f"{self._shown} does not answer ({verb}: {_one_line(error)}); is it running, and is"
                " THROTTLE_REDIS_URL right?"
            )
        text = _one_line(error)
        if text.startswith("OOM") or "maxmemory" in text:
            return FrontierError(
                f"{self._shown} is full ({verb}: {text}); raise its maxmemory, no URL is evicted"
            )
        return FrontierError(f"{self._shown} refused {verb}: {text}")


def connect(url: str, *, timeout_s: float = 5.0) -> Scripts:
    """Scripts on the Redis at `url`; connects at the first call.

    `timeout_s` bounds each command: Redis that is frozen counts as unreachable.
    """
    client = redis.Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        health_check_interval=0,
        retry=Retry(NoBackoff(), 0),
    )
    where = client.connection_pool.connection_kwargs
    shown = f"Redis at {where.get('host', where.get('path', '?'))}:{where.get('port', '')}"
    return Scripts(client, shown.rstrip(":"))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
