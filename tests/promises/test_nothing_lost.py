"""Nothing lost: accepted = done + waiting + delayed + in flight + refused + dead, always."""

import signal
from collections.abc import Callable

from tests.crew import Crew
from tests.servers import wait_until
from throttle.local.origin import Behaviour


def test_crashed_worker_returns_its_url(crew: Callable[..., Crew]) -> None:
    """A worker killed in mid-request loses nothing: its URL goes back and is fetched again."""
    made = crew("a.example", interval="100ms")
    made.origin.set("a.example", "/0", Behaviour(delay_s=60.0), Behaviour())
    made.start_all(workers=1)
    made.add("a.example", 1)
    wait_until(lambda: _seen(made, "/0"), "the worker is in mid-request", timeout_s=15)

    made.kill("worker0")
    made.start("worker", "worker1")
    wait_until(
        lambda: made.frontier.census.totals().in_flight == 0, "the URL is back", timeout_s=30
    )
    totals = made.drained(timeout_s=30)

    assert totals.done == 1
    assert _seen(made, "/0") == 2
    assert made.frontier.census.count().missing == 0


def test_sigterm_hands_over_at_once(crew: Callable[..., Crew]) -> None:
    """A dispatcher that is asked to end gives back what it holds; its successor need not wait."""
    made = crew("a.example", interval="100ms", lease_ttl="60s")
    made.add("a.example", 40)
    made.start_all(workers=1)
    wait_until(lambda: made.frontier.census.totals().done >= 5, "the crawl is under way", 15)

    made.signal("dispatch", signal.SIGTERM)
    assert made.processes["dispatch"].wait(timeout=10) == 0
    made.start("dispatch", "second")

    assert made.drained(timeout_s=30).done == 40


def _seen(made: Crew, path: str) -> int:
    return sum(arrival.path == path for arrival in made.origin.arrivals())
