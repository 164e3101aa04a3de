"""Fixtures with real servers, from the code `throttlectl up` uses, and waiting on a condition."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import redis

from throttle.local.origin import Origin
from throttle.local.servers import PrivateRabbit, PrivateRedis

_VHOSTS_AT_ONCE = 25

T = TypeVar("T")


def wait_until(
    predicate: Callable[[], T], what: str, timeout_s: float = 10.0, every_s: float = 0.01
) -> T:
    """The first true value of `predicate()`; fails naming `what` after `timeout_s` seconds."""
    end_s = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() > end_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what} (last: {value!r})")
        time.sleep(every_s)
    return value


class Vhosts:
    """Empty virtual hosts of one node, made and deleted many at a time: `rabbitmqctl` is slow."""

    def __init__(self, rabbit: PrivateRabbit) -> None:
        self._rabbit = rabbit
        self._made = 0
        self._fresh: list[str] = []
        self._used: list[str] = []

    def take(self) -> str:
        """The name of an empty one."""
        if not self._fresh:
            self._refill()
        return self._fresh.pop()

    def give_back(self, name: str) -> None:
        """Have it deleted, with its queues and connections, when the next ones are made."""
        self._used.append(name)

    def _refill(self) -> None:
        names = [f"test{self._made + n}" for n in range(_VHOSTS_AT_ONCE)]
        self._made += len(names)
        self._rabbit.ctl(
            "eval",
            f'[rabbit_vhost:delete(V, <<"tests">>) || V <- {_erlang(self._used)}],'
            f'[begin rabbit_vhost:add(V, <<"tests">>),'
            f' rabbit_auth_backend_internal:set_permissions(<<"guest">>, V, <<".*">>,'
            f' <<".*">>, <<".*">>, <<"tests">>) end || V <- {_erlang(names)}], ok.',
        )
        self._fresh, self._used = names, []


def _erlang(names: list[str]) -> str:
    return "[" + ", ".join(f'<<"{name}">>' for name in names) + "]"


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRedis]:
    """One Redis for the whole run (of one xdist worker); never stop or restart it."""
    server = PrivateRedis(tmp_path_factory.mktemp("redis"), persistent=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rabbit_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRabbit]:
    """One RabbitMQ for the whole run (of one xdist worker); never stop or restart it."""
    server = PrivateRabbit(tmp_path_factory.mktemp("rabbit"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: PrivateRedis) -> str:
    """A Redis without a key in it."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def vhosts(rabbit_server: PrivateRabbit) -> Vhosts:
    """The virtual hosts of the shared RabbitMQ."""
    return Vhosts(rabbit_server)


@pytest.fixture
def broker_url(rabbit_server: PrivateRabbit, vhosts: Vhosts) -> Iterator[str]:
    """A RabbitMQ without a queue in it: a virtual host of its own."""
    name = vhosts.take()
    yield f"amqp://guest:guest@127.0.0.1:{rabbit_server.port}/{name}"
    vhosts.give_back(name)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    """A Redis of the test's own, with its data on disk: kill, stop and restart it at will."""
    server = PrivateRedis(tmp_path / "own-redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def own_rabbit(tmp_path: Path) -> Iterator[PrivateRabbit]:
    """A RabbitMQ of the test's own: kill, stop and restart it at will (about six seconds)."""
    server = PrivateRabbit(tmp_path / "own-rabbit")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Origin]:
    """A web site that serves any host on loopback and logs each arrival, in its own process."""
    site = Origin(tmp_path / "origin")
    site.start()
    yield site
    site.stop()
