"""Gap: two requests to one host reach the wire at least its interval apart."""

import signal
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.crew import Crew, share
from tests.servers import wait_until
from throttle.local.origin import Behaviour

TOLERANCE_S = 0.005
"""What two arrivals at the site may be closer than their requests left: scheduling on loopback."""


@pytest.mark.alone
def test_per_host_interval_holds_across_workers(crew: Callable[..., Crew]) -> None:
    """Eight workers, still one request every two seconds, and hardly ever less."""
    made = crew("a.example", interval="2s", worker_threads="4")
    made.start_all(workers=8)
    made.add("a.example", 30)

    totals = made.drained(timeout_s=90)

    gaps = made.origin.gaps("a.example")
    assert totals.done == 30
    assert len(gaps) == 30  # 30 pages and robots.txt
    assert min(gaps) >= 2.0 - TOLERANCE_S
    assert share(made.origin, "a.example", 2.0) >= 0.99
    assert made.origin.max_open("a.example") == 1


def test_paused_workers_do_not_bunch(crew: Callable[..., Crew]) -> None:
    """Workers stopped for six seconds in mid-crawl make nobody catch up afterwards."""
    hosts = [f"h{number}.example" for number in range(10)]
    made = crew(*hosts, interval="1s", worker_threads="8")
    made.start_all(workers=2)
    for host in hosts:
        made.add(host, 12)
    wait_until(lambda: made.frontier.census.totals().done >= 20, "the crawl is in its middle", 30)

    for name in ("worker0", "worker1"):
        made.signal(name, signal.SIGSTOP)
    time.sleep(6.0)  # time itself is under test: how long the workers stand still
    for name in ("worker0", "worker1"):
        made.signal(name, signal.SIGCONT)

    totals = made.drained(timeout_s=90)
    assert totals.done == 120
    for host in hosts:
        assert min(made.origin.gaps(host)) >= 1.0 - TOLERANCE_S, host
        assert made.origin.max_open(host) == 1


def test_slow_answers_keep_the_gap_and_the_concurrency(crew: Callable[..., Crew]) -> None:
    """A host that answers slower than its interval is never asked twice at once."""
    made = crew("slow.example", interval="200ms")
    made.origin.set("slow.example", "*", Behaviour(delay_s=0.5))
    made.start_all(workers=2)
    made.add("slow.example", 10)

    made.drained(timeout_s=60)

    assert made.origin.max_open("slow.example") == 1
    pages = [a.at_s for a in made.origin.arrivals("slow.example") if a.path != "/robots.txt"]
    assert min(later - earlier for earlier, later in pairwise(sorted(pages))) >= 0.5


def test_wide_concurrency_keeps_a_strict_rate(crew: Callable[..., Crew]) -> None:
    """With four requests open at once a host still sees one start per interval, no burst."""
    made = crew("api.example", interval="200ms", concurrency="4")
    made.origin.set("api.example", "*", Behaviour(delay_s=0.7))
    made.start_all(workers=2)
    made.add("api.example", 30)

    made.drained(timeout_s=60)

    gaps = made.origin.gaps("api.example")
    assert min(gaps) >= 0.2 - TOLERANCE_S
    assert 2 <= made.origin.max_open("api.example") <= 4


def test_a_burst_is_never_exceeded_in_any_window(crew: Callable[..., Crew]) -> None:
    """In any window of t seconds at most burst + t / interval requests arrive."""
    made = crew("b.example", interval="300ms", burst="4", concurrency="4")
    made.start_all(workers=2)
    made.add("b.example", 40)

    made.drained(timeout_s=60)

    at = sorted(arrival.at_s for arrival in made.origin.arrivals("b.example"))
    assert len(at) == 41
    for start, began in enumerate(at):
        for end in range(start, len(at)):
            window = at[end] - began + TOLERANCE_S
            assert end - start + 1 <= 4 + window / 0.3
    assert min(later - earlier for earlier, later in pairwise(at)) < 0.3
