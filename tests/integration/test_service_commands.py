"""throttlectl dispatch, up and drain as an operator runs them."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.processes import Command
from tests.servers import wait_until
from throttle.frontier.bundle import Frontier
from throttle.local.servers import PrivateRedis
from throttle.model import Candidate
from throttle.settings import load

Run = Callable[..., Command]

_ROOT = str(Path(__file__).resolve().parents[2])
_ALWAYS = ("REDIS_URL", "BROKER_URL", "PRODUCT", "CONTACT")


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
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "names").write_text("127.0.0.1 a.example\n")
    settings = {
        "product": "examplebot",
        "contact": "https://bot.example/",
        "allow_nets": "127.0.0.0/8,::1/128",
        "hosts_file": "names",
        "interval": "500ms",
    }
    command = launch(tmp_path / "up", "up", "--data-dir", "kept", **settings)
    wait_until(lambda: "Ctrl-C ends it" in command.err, "it is ready", timeout_s=90)
    exported = dict(
        line.removeprefix("export THROTTLE_").split("=", 1) for line in command.out.splitlines()
    )
    assert exported.keys() == {*_ALWAYS, "ALLOW_NETS", "HOSTS_FILE", "INTERVAL"}
    assert (exported["PRODUCT"], exported["ALLOW_NETS"]) == ("examplebot", "'127.0.0.0/8 ::1/128'")
    assert exported["HOSTS_FILE"] == str(tmp_path / "up" / "names")
    assert exported["INTERVAL"] == "0.5"
    other = launch(
        tmp_path / "add",
        "add-url",
        "http://a.invalid/",
        **{name.lower(): " ".join(shlex.split(text)) for name, text in exported.items()},
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


def test_beat_says_which_server_it_cannot_reach(tmp_path: Path, redis_url: str) -> None:
    """One line that names the setting, and exit code 1, instead of a traceback."""
    for settings, variable in (
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "THROTTLE_REDIS_URL"),
        ({"REDIS_URL": redis_url, "BROKER_URL": "amqp://127.0.0.1:1//"}, "THROTTLE_BROKER_URL"),
    ):
        kept = {n: v for n, v in os.environ.items() if not n.startswith("THROTTLE_")}
        done = subprocess.run(
            [sys.executable, "-m", "celery", "-A", "throttle", "beat"],
            cwd=tmp_path,
            env={**kept, "PYTHONPATH": _ROOT, **{f"THROTTLE_{n}": v for n, v in settings.items()}},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("throttle: ")]
        assert variable in line


def test_a_standby_dispatcher_says_so_once_and_takes_over(
    tmp_path: Path, redis_url: str, broker_url: str, launch: Run
) -> None:
    """Its log names who works, and the moment when it works itself."""
    servers = {"redis_url": redis_url, "broker_url": broker_url, "lease_ttl": "500ms"}
    first = launch(tmp_path / "first", "dispatch", **servers)
    frontier = Frontier(load(redis_url=redis_url))
    wait_until(lambda: "dispatcher" in frontier.census.ages(), "it has its leases", timeout_s=20)
    second = launch(tmp_path / "second", "dispatch", **servers)
    wait_until(lambda: "standing by" in second.err, "the second stands by", timeout_s=20)
    first.send(signal.SIGTERM)
    wait_until(lambda: "takes over 16 partitions" in second.err, "it takes over", timeout_s=20)
    assert second.err.count("standing by: ") == 1
    second.send(signal.SIGTERM)
    assert second.end(timeout_s=10) == 0
