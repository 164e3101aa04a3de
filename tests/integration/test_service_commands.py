"""throttlectl dispatch, up and drain as an operator runs them."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

from tests.processes import Command
from tests.servers import wait_until
from throttle.frontier.bundle import Frontier
from throttle.local.servers import PrivateRedis
from throttle.model import Candidate
from throttle.settings import load

Run = Callable[..., Command]


def test_dispatch_ends_cleanly_when_it_is_told_to(
    tmp_path: Path, redis_url: str, broker_url: str, launch: Run
) -> None:
    """SIGTERM gives up the leases, so that another dispatcher takes over at once."""
    command = launch(tmp_path, "dispatch", redis_url=redis_url, broker_url=broker_url)
    frontier = Frontier(load(redis_url=redis_url))
    wait_until(lambda: "dispatcher" in frontier.census.ages(), "it has its leases", timeout_s=20)
    command.send(signal.SIGTERM)
    assert command.end(timeout_s=10) == 0, command.err
    assert len(frontier.leases("dispatch").renew()) == load().partitions
    assert "Traceback" not in command.err


def test_dispatch_says_which_server_it_cannot_reach(
    tmp_path: Path, redis_url: str, launch: Run
) -> None:
    """Exit code 3 and the setting to look at, instead of a traceback."""
    for settings, variable in (
        ({"redis_url": "redis://127.0.0.1:1/0"}, "THROTTLE_REDIS_URL"),
        ({"redis_url": redis_url, "broker_url": "amqp://127.0.0.1:1//"}, "THROTTLE_BROKER_URL"),
    ):
        command = launch(tmp_path, "dispatch", **settings)
        assert command.end(timeout_s=30) == 3, command.err
        assert variable in command.err
        assert "Traceback" not in command.err


def test_drain_tells_what_is_left_and_why(tmp_path: Path, redis_url: str, launch: Run) -> None:
    """With --timeout a script learns that the crawl is stuck, and a person why."""
    intake = Frontier(load(redis_url=redis_url)).intake
    intake.add([Candidate("http://a.example/1"), Candidate("http://a.example/2")])
    command = launch(tmp_path / "text", "drain", "--timeout", "500ms", redis_url=redis_url)
    assert command.end(timeout_s=20) == 1
    assert "a.example: 2 wait, 0 in flight; beat" in command.err
    command = launch(tmp_path / "json", "drain", "--timeout", "1s", "--json", redis_url=redis_url)
    assert command.end(timeout_s=20) == 1
    report = json.loads(command.out)
    assert (report["drained"], report["waiting"]) == (False, 2)
    assert report["left"][0]["host"] == "a.example"


def test_drain_ends_when_nothing_is_left(tmp_path: Path, redis_url: str, launch: Run) -> None:
    """An empty frontier is drained."""
    command = launch(tmp_path, "drain", "--timeout", "10s", redis_url=redis_url)
    assert command.end(timeout_s=20) == 0
    assert command.out == "drained: 0 done, 0 refused, 0 dead\n"


def test_up_serves_until_ctrl_c_and_keeps_its_urls(tmp_path: Path, launch: Run) -> None:
    """The printed lines lead other commands to it; Ctrl-C is its good end, and URLs stay."""
    settings = {"product": "examplebot", "contact": "https://bot.example/"}
    command = launch(tmp_path / "up", "up", "--data-dir", "kept", **settings)
    wait_until(lambda: "Ctrl-C ends it" in command.err, "it is ready", timeout_s=90)
    exported = dict(
        line.removeprefix("export THROTTLE_").split("=", 1) for line in command.out.splitlines()
    )
    assert exported.keys() == {"REDIS_URL", "BROKER_URL"}
    other = launch(
        tmp_path / "add",
        "add-url",
        "http://a.invalid/",
        **{name.lower(): url for name, url in exported.items()},
    )
    assert other.end() == 0, other.err
    assert "added 1" in other.out

    command.send(signal.SIGINT)
    assert command.end() == 0, command.err
    assert not command.left_running()
    redis = PrivateRedis(tmp_path / "up" / "kept" / "redis")
    redis.start()
    try:
        assert Frontier(load(redis_url=redis.url)).census.count().accepted == 1
    finally:
        redis.stop()
