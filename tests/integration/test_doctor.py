"""throttlectl doctor: what it looks at, what it says when that is wrong, and how it ends."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.integration.ctl import Ctl
from tests.integration.rabbit import linked
from throttle.frontier.bundle import Frontier
from throttle.local.servers import PrivateRabbit, PrivateRedis
from throttle.ops.health import Check, State, examine, identity, processes, redis_server
from throttle.settings import Settings
from throttle.tokens.topology import declare_crawl

GOOD = {"product": "examplebot", "contact": "https://example.org/bot"}


def _checks(**given: object) -> dict[str, Check]:
    return {check.name: check for check in examine(Settings(**given))}


def _declare(broker_url: str, length: int = 100_000) -> None:
    async def scenario() -> None:
        async with linked(broker_url) as link:
            await declare_crawl(link, "crawl", length=length)

    asyncio.run(scenario())


def _alive(redis_url: str) -> None:
    census = Frontier(Settings(redis_url=redis_url)).census
    for role in ("issuer", "dispatcher", "worker"):
        census.pulse(role)


def test_a_sound_service_has_no_fault(own_redis: PrivateRedis, broker_url: str) -> None:
    """With both servers, the queue and all processes there, every check is ok."""
    _declare(broker_url)
    _alive(own_redis.url)
    checks = _checks(redis_url=own_redis.url, broker_url=broker_url, **GOOD)
    assert {check.state for check in checks.values()} == {State.OK}
    assert not [check.remedy for check in checks.values() if check.remedy]
    assert set(checks) == {
        "Redis reachable",
        "Redis version",
        "Redis eviction",
        "Redis persistence",
        "RabbitMQ reachable",
        "RabbitMQ version",
        "crawl queue",
        "RabbitMQ takes messages",
        "product",
        "contact",
        "partitions",
        "cases",
        "beat alive",
        "dispatcher alive",
        "worker alive",
    }


def test_each_failure_comes_with_its_remedy(redis_url: str, broker_url: str) -> None:
    """A Redis without persistence, no queue, nobody alive: each line says what to do."""
    checks = _checks(redis_url=redis_url, broker_url=broker_url)
    wrong = {name: check for name, check in checks.items() if check.state is not State.OK}
    assert {name: check.state for name, check in wrong.items()} == {
        "Redis persistence": State.FAULT,
        "crawl queue": State.WARN,
        "product": State.FAULT,
        "contact": State.FAULT,
        "beat alive": State.FAULT,
        "dispatcher alive": State.FAULT,
        "worker alive": State.FAULT,
    }
    assert all(check.remedy and check.found for check in wrong.values())


def test_a_redis_that_evicts_is_a_fault(redis_url: str, broker_url: str) -> None:
    """An evicted key would be a lost URL."""
    with redis.Redis.from_url(redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            checks = _checks(redis_url=redis_url, broker_url=broker_url)
        finally:
            client.config_set("maxmemory-policy", "noeviction")
    assert checks["Redis eviction"].state is State.FAULT
    assert "noeviction" in checks["Redis eviction"].remedy


def test_a_crawl_queue_of_another_shape_is_a_fault(redis_url: str, broker_url: str) -> None:
    """Dispatcher and worker would fail on it; the way out is named, and nothing is deleted."""
    _declare(broker_url, length=5)
    check = _checks(redis_url=redis_url, broker_url=broker_url)["crawl queue"]
    assert check.state is State.FAULT
    assert "rabbitmqctl delete_queue crawl" in check.remedy


def test_looking_for_the_crawl_queue_does_not_make_it(redis_url: str, broker_url: str) -> None:
    """Asking twice gives the same answer."""
    for _ in range(2):
        assert (
            _checks(redis_url=redis_url, broker_url=broker_url)["crawl queue"].state is State.WARN
        )


def test_an_alarm_of_rabbitmq_is_a_fault(redis_url: str, own_rabbit: PrivateRabbit) -> None:
    """A broker that takes no messages is told within seconds, with how to see why."""
    own_rabbit.ctl("set_vm_memory_high_watermark", "absolute", "1MB")
    check = _checks(redis_url=redis_url, broker_url=own_rabbit.url)["RabbitMQ takes messages"]
    assert check.state is State.FAULT
    assert "memory" in check.found
    assert "rabbitmq-diagnostics alarms" in check.remedy


def test_guest_on_another_machine_is_a_fault(redis_url: str) -> None:
    """Everybody knows its password."""
    check = _checks(redis_url=redis_url, broker_url="amqp://guest:guest@192.0.2.1//")[
        "RabbitMQ reachable"
    ]
    assert (check.state, check.unreachable) == (State.FAULT, False)
    assert "guest" in check.found


def test_other_partitions_are_a_fault(redis_url: str, broker_url: str) -> None:
    """A process that counts otherwise would look for hosts where they are not."""
    _alive(redis_url)
    checks = _checks(redis_url=redis_url, broker_url=broker_url, partitions=4)
    assert checks["partitions"].state is State.FAULT
    assert "THROTTLE_PARTITIONS=16" in checks["partitions"].found


def _doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "throttle.cli.main", "doctor", *arguments],
        capture_output=True,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            **environment,
        },
        timeout=60,
        check=False,
    )


def test_the_exit_code_tells_a_fault_from_a_server_that_is_not_there(
    redis_url: str, broker_url: str
) -> None:
    """1 is a fault, 3 an unreachable server; the other checks are printed all the same."""
    servers = {"THROTTLE_REDIS_URL": redis_url, "THROTTLE_BROKER_URL": broker_url}
    fault = _doctor(**servers)
    assert fault.returncode == 1, fault.stderr
    assert "start celery -A throttle beat" in fault.stdout
    gone = _doctor("--json", **servers, THROTTLE_REDIS_URL_="")
    assert json.loads(gone.stdout)["holds"] is False
    closed = {**servers, "THROTTLE_REDIS_URL": "redis://x:opensesame@127.0.0.1:1/0"}
    done = _doctor("--json", **closed)
    assert done.returncode == 3, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["Redis reachable"]["unreachable"]
    assert checks["RabbitMQ takes messages"]["state"] == "ok"
    assert "opensesame" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("info", "save", "state"),
    [
        ({"aof_enabled": 1}, "", State.OK),
        ({"aof_enabled": 1, "aof_last_write_status": "err"}, "", State.FAULT),
        ({"aof_enabled": 0}, "3600 1", State.WARN),
        ({"aof_enabled": 0}, None, State.WARN),
        ({"aof_enabled": 0}, "", State.FAULT),
    ],
)
def test_persistence_is_judged_by_what_a_restart_would_lose(
    info: dict[str, object], save: str | None, state: State
) -> None:
    """The append-only file is good, snapshots are a warning, nothing is a fault."""
    assert {c.name: c.state for c in redis_server(info, save)}["Redis persistence"] is state


@pytest.mark.parametrize(
    ("version", "state"),
    [("7.0.15", State.OK), ("8.2.1", State.OK), ("6.2.14", State.FAULT), ("", State.WARN)],
)
def test_an_old_redis_is_a_fault(version: str, state: State) -> None:
    """The oldest version that will do is named."""
    check = redis_server({"redis_version": version}, None)[0]
    assert check.state is state
    assert state is State.OK or "7.0" in check.remedy


def test_a_process_that_fell_silent_is_a_fault() -> None:
    """Ten seconds without a round count as not running."""
    states = [check.state for check in processes({"issuer": 1.0, "dispatcher": 11.0})]
    assert states == [State.OK, State.FAULT, State.FAULT]


def test_an_empty_contact_is_a_fault() -> None:
    """Sites must be able to write to somebody."""
    checks = {check.name: check for check in identity(Settings(product="examplebot"))}
    assert checks["product"].state is State.OK
    assert "THROTTLE_CONTACT" in checks["contact"].remedy


def test_doctor_fits_a_page_when_it_is_piped(throttlectl: Ctl) -> None:
    """A report that is pasted into a message stays readable: 100 columns at most."""
    lines = throttlectl("doctor", ends=3).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any("RabbitMQ reachable" in line for line in lines)
