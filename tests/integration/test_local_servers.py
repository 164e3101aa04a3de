"""Private RabbitMQ and Redis: side by side, restartable, and never left behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
import redis

from tests.servers import wait_until
from throttle.errors import LocalServerError
from throttle.local.servers import PrivateRabbit, PrivateRedis

PARENT = """
import sys, time
from pathlib import Path
from throttle.local.servers import PrivateRabbit, PrivateRedis
servers = [PrivateRedis(Path(sys.argv[1]) / "redis"), PrivateRabbit(Path(sys.argv[1]) / "rabbit")]
for server in servers:
    server.start()
print("up", flush=True)
time.sleep(600)
"""


def processes_of(directory: Path) -> list[int]:
    """Processes, zombies left out, whose environment or command line names `directory`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            holds = any(str(directory) in str(fd.readlink()) for fd in (entry / "fd").iterdir())
        except OSError:
            continue
        if state != "Z" and (holds or str(directory).encode() in told):
            found.append(int(entry.name))
    return found


def publish(url: str, queue: str, body: bytes) -> None:
    """Put one persistent message into a durable queue, confirmed."""
    lasting = pika.BasicProperties(delivery_mode=2)
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue, durable=True)
        channel.basic_publish("", queue, body, lasting, mandatory=True)


def fetch(url: str, queue: str) -> bytes | None:
    """The next message of a queue."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        _, _, body = connection.channel().basic_get(queue, auto_ack=True)
    return body


def test_rabbit_keeps_its_port_and_its_confirmed_messages(own_rabbit: PrivateRabbit) -> None:
    """A restart and a crash lose neither the address nor what was confirmed."""
    url, first = own_rabbit.url, own_rabbit.pid
    publish(url, "kept", b"one")
    own_rabbit.kill()
    assert not own_rabbit.alive()
    own_rabbit.start()
    assert (own_rabbit.url, own_rabbit.pid == first) == (url, False)
    assert fetch(url, "kept") == b"one"
    publish(url, "kept", b"two")
    own_rabbit.restart()
    assert own_rabbit.url == url
    assert fetch(url, "kept") == b"two"


def test_redis_keeps_its_port_and_its_data(own_redis: PrivateRedis) -> None:
    """A restart and a crash lose neither the address nor what was written; nothing is evicted."""
    url, first = own_redis.url, own_redis.pid
    for end in (own_redis.kill, own_redis.stop):
        with redis.Redis.from_url(url) as client:
            client.incr("count")
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert client.config_get("bind") == {"bind": "127.0.0.1"}
        end()
        with pytest.raises(redis.ConnectionError), redis.Redis.from_url(url) as client:
            client.ping()
        own_redis.start()
        assert own_redis.url == url
    with redis.Redis.from_url(url) as client:
        assert client.get("count") == b"2"
    assert own_redis.pid != first


@pytest.fixture
def two_rabbits(own_rabbit: PrivateRabbit, tmp_path: Path) -> Iterator[tuple[PrivateRabbit, ...]]:
    """Two private nodes on one machine."""
    other = PrivateRabbit(tmp_path / "other-rabbit")
    other.start()
    yield own_rabbit, other
    other.stop()


def test_two_pairs_run_side_by_side_and_stop_without_a_trace(
    two_rabbits: tuple[PrivateRabbit, ...], own_redis: PrivateRedis, tmp_path: Path
) -> None:
    """Services do not see each other, and a stopped one leaves no process, not even epmd."""
    one, two = two_rabbits
    publish(one.url, "here", b"x")
    assert "here" in one.ctl("-q", "list_queues", "name")
    assert "here" not in two.ctl("-q", "list_queues", "name")
    other_redis = PrivateRedis(tmp_path / "other-redis")
    other_redis.start()
    with redis.Redis.from_url(own_redis.url) as mine, redis.Redis.from_url(other_redis.url) as its:
        mine.set("here", 1)
        assert its.dbsize() == 0
    assert processes_of(two.directory)
    two.stop()
    other_redis.stop()
    wait_until(
        lambda: not processes_of(two.directory) + processes_of(other_redis.directory),
        "no process of the second pair is left",
    )
    assert fetch(one.url, "here") == b"x"


def test_killing_the_parent_leaves_nothing_running(tmp_path: Path) -> None:
    """After kill -9 of the service its servers are gone and its directory can be used at once."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        assert len(processes_of(tmp_path)) > 3
        parent.kill()
    again = PrivateRedis(tmp_path / "redis")
    again.start()
    again.stop()
    wait_until(lambda: not processes_of(tmp_path), "no process of the service is left")


def test_a_data_directory_belongs_to_one_service(own_redis: PrivateRedis) -> None:
    """A second service in the same directory is refused, with the holder named."""
    with pytest.raises(LocalServerError, match=f"in use by process {os.getpid()}"):
        PrivateRedis(own_redis.directory).start()
    assert own_redis.alive()
    own_redis.stop()
    second = PrivateRedis(own_redis.directory)
    second.start()
    assert second.url == own_redis.url
    second.stop()


@pytest.mark.parametrize(
    ("kind", "variable"), [(PrivateRedis, "REDIS_SERVER"), (PrivateRabbit, "RABBITMQ_SERVER")]
)
def test_a_missing_program_is_told_with_its_remedy(
    kind: type[PrivateRedis | PrivateRabbit],
    variable: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has not installed the servers reads what to install."""
    monkeypatch.setenv(variable, "/nowhere/server")
    with pytest.raises(LocalServerError) as caught:
        kind(tmp_path / "data").start()
    assert "apt-get install rabbitmq-server redis-server" in str(caught.value)
    assert variable in str(caught.value)


def test_a_server_that_ends_while_starting_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error shows the server's own last words, and nothing stays locked."""
    broken = tmp_path / "broken-server"
    broken.write_text("#!/bin/sh\necho 'cannot map the memory' >&2\nexit 1\n")
    broken.chmod(0o755)
    server = PrivateRedis(tmp_path / "data")
    monkeypatch.setenv("REDIS_SERVER", str(broken))
    with pytest.raises(LocalServerError, match=r"ended while starting(.|\n)*cannot map the memory"):
        server.start()
    monkeypatch.delenv("REDIS_SERVER")
    server.start()
    assert server.alive()
    server.stop()


def test_a_server_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting has an end, and the silent server does not stay behind."""
    silent = tmp_path / "silent-server"
    silent.write_text("#!/bin/sh\necho 'still thinking'\nexec sleep 600\n")
    silent.chmod(0o755)
    monkeypatch.setenv("REDIS_SERVER", str(silent))
    server = PrivateRedis(tmp_path / "data")
    with pytest.raises(LocalServerError, match=r"not ready after 0.5 s(.|\n)*still thinking"):
        server.start(timeout_s=0.5)
    wait_until(lambda: not processes_of(tmp_path / "data"), "the silent server is gone")


def test_each_test_has_an_empty_broker_and_redis(broker_url: str, redis_url: str) -> None:
    """What the shared fixtures hand out is empty and usable."""
    publish(broker_url, "q", b"x")
    assert fetch(broker_url, "q") == b"x"
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left", "behind")


def test_the_next_test_sees_nothing_of_the_one_before(broker_url: str, redis_url: str) -> None:
    """No queue and no key is handed on."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        fetch(broker_url, "q")
    with redis.Redis.from_url(redis_url) as client:
        assert client.get("left") is None
