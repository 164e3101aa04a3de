"""Kills at random moments: nothing is lost, no gap is short, the audit agrees with the site."""

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.crew import Crew
from tests.promises.test_gap import TOLERANCE_S
from tests.servers import wait_until
from throttle.local.origin import Behaviour


def test_killed_worker_holding_many_urls(crew: Callable[..., Crew]) -> None:
    """Kill -9 of a worker with ten requests open: each is fetched again, at its own token."""
    hosts = [f"h{number}.example" for number in range(10)]
    made = crew(*hosts, interval="500ms")
    made.origin.set("*", "*", Behaviour(delay_s=0.3))
    made.start_all(workers=2)
    for host in hosts:
        made.add(host, 12)
    wait_until(lambda: made.frontier.census.totals().done >= 30, "the crawl is under way", 30)

    made.kill("worker0")
    totals = made.drained(timeout_s=90)

    assert totals.done == 120
    _every_page_was_served(made, hosts, 12)
    _no_gap_is_short(made, hosts, 0.5)


@pytest.mark.parametrize("role", ["dispatch", "beat"])
def test_killed_twenty_times(crew: Callable[..., Crew], role: str) -> None:
    """Dispatcher or beat killed with -9 twenty times: each URL ends once, the site agrees."""
    chance = random.Random(20)
    hosts = [f"h{number}.example" for number in range(20)]
    made = crew(*hosts, interval="500ms", lease_ttl="1s")
    for host in hosts:
        made.add(host, 20)
    made.start_all(workers=1)

    for _ in range(20):
        time.sleep(chance.uniform(0.2, 1.5))  # a random moment is what is under test
        made.kill(role)
        made.start(role)

    totals = made.drained(timeout_s=120)
    assert totals.done == 400
    count = made.frontier.census.count()
    assert (count.missing, count.faults) == (0, ())
    _every_page_was_served(made, hosts, 20)
    _no_gap_is_short(made, hosts, 0.5)


def _every_page_was_served(made: Crew, hosts: list[str], count: int) -> None:
    for host in hosts:
        paths = Counter(arrival.path for arrival in made.origin.arrivals(host))
        assert {f"/{number}" for number in range(count)} <= paths.keys()


def _no_gap_is_short(made: Crew, hosts: list[str], interval_s: float) -> None:
    for host in hosts:
        assert min(made.origin.gaps(host)) >= interval_s - TOLERANCE_S, host
        assert made.origin.max_open(host) == 1, host
