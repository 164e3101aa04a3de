"""A whole crawl for tests: beat, dispatcher and workers as real processes, and a site that logs."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.servers import wait_until
from throttle.frontier.bundle import Frontier
from throttle.frontier.census import Totals
from throttle.local.origin import Origin
from throttle.model import Answer, Candidate
from throttle.settings import Settings, load

COMMANDS = {
    "beat": ("-m", "celery", "-A", "throttle", "beat", "-l", "INFO"),
    "dispatch": ("-m", "throttle.cli.main", "dispatch"),
    "worker": ("-m", "celery", "-A", "throttle", "worker", "-l", "INFO", "-n", "{name}@test"),
}


class Crew:
    """Starts, pauses and kills the processes of one crawl; ends all of them on `close`.

    `hosts` are names that all resolve to the site on loopback.
    """

    def __init__(
        self,
        directory: Path,
        *,
        broker_url: str,
        redis_url: str,
        origin: Origin,
        hosts: Sequence[str],
        **settings: str,
    ) -> None:
        self.directory = directory
        self.origin = origin
        names = directory / "hosts"
        names.write_text("".join(f"127.0.0.1 {host}\n" for host in hosts))
        given = {
            "broker_url": broker_url,
            "redis_url": redis_url,
            "product": "examplebot",
            "contact": "https://bot.example/",
            "allow_nets": "127.0.0.0/8",
            "hosts_file": str(names),
            **settings,
        }
        own = {f"THROTTLE_{name.upper()}": value for name, value in given.items()}
        self.environment = {**_bare_environment(directory), **own}
        self.settings: Settings = load(**given)
        self.frontier = Frontier(self.settings)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, role: str, name: str = "", **settings: str) -> None:
        """Starts a process of `role` (beat, dispatch, worker), called `name` or as its role."""
        name = name or role
        extra = {f"THROTTLE_{key.upper()}": value for key, value in settings.items()}
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *(part.format(name=name) for part in COMMANDS[role])],
                cwd=self.directory,
                env={**self.environment, **extra},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_all(self, *, workers: int = 1) -> None:
        """Starts beat, a dispatcher and `workers` workers, and waits until they are at work."""
        self.start("beat")
        self.start("dispatch")
        for number in range(workers):
            self.start("worker", f"worker{number}")
        wait_until(
            lambda: {"issuer", "dispatcher", "worker"} <= self.frontier.census.ages().keys(),
            "beat, dispatcher and worker are at work",
            timeout_s=30,
        )
        wait_until(
            lambda: all("ready." in self.log(f"worker{n}") for n in range(workers)),
            "all workers are ready",
            timeout_s=30,
        )

    def signal(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to the process called `name`."""
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Kills the process called `name` (SIGKILL) and waits for its end."""
        process = self.processes.pop(name)
        process.kill()
        process.wait(timeout=10)

    def log(self, name: str) -> str:
        """What the process called `name` has printed so far."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def add(self, host: str, count: int, *, first: int = 0) -> list[Answer]:
        """Adds the URLs `/first`, `/first+1`, ... of `host`."""
        urls = [self.origin.url(host, f"/{number}") for number in range(first, first + count)]
        return self.frontier.intake.add([Candidate(url) for url in urls])

    def drained(self, timeout_s: float) -> Totals:
        """The totals once nothing waits and nothing is in flight any more."""
        return wait_until(
            self._ended, "every accepted URL has come to an end", timeout_s=timeout_s, every_s=0.1
        )

    def _ended(self) -> Totals | None:
        totals = self.frontier.census.totals()
        return None if totals.waiting + totals.delayed + totals.in_flight else totals

    def close(self) -> None:
        """Ends all processes, those that are paused, too."""
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)


def _bare_environment(directory: Path) -> dict[str, str]:
    root = Path(__file__).parents[1]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("THROTTLE_")}
    return {**kept, "PYTHONPATH": f"{root}:{directory}"}


def share(origin: Origin, host: str, interval_s: float) -> float:
    """The share of the allowed rate that `host` got, from its first request to its last."""
    gaps = origin.gaps(host)
    return interval_s * len(gaps) / sum(gaps)


@pytest.fixture
def crew(
    tmp_path: Path, broker_url: str, redis_url: str, origin: Origin
) -> Iterator[Callable[..., Crew]]:
    """Makes crews on the shared servers; their processes end with the test."""
    made: list[Crew] = []

    def make(*hosts: str, **settings: str) -> Crew:
        directory = tmp_path / f"crew{len(made)}"
        directory.mkdir()
        made.append(
            Crew(
                directory,
                broker_url=broker_url,
                redis_url=redis_url,
                origin=origin,
                hosts=hosts,
                **settings,
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()
