"""Robots: nothing that the robots.txt in force forbids is fetched, and it comes before any page."""

from collections.abc import Callable

import pytest

from tests.crew import Crew
from tests.servers import wait_until
from throttle.local.origin import Behaviour, Ending
from throttle.model import Verdict


def test_pages_wait_for_a_slow_robots_txt(crew: Callable[..., Crew]) -> None:
    """50 URLs, two workers, a robots.txt that takes two seconds and forbids all: no page."""
    made = crew("a.example", interval="100ms", concurrency="4")
    made.origin.set(
        "a.example",
        "/robots.txt",
        Behaviour(body=b"User-agent: *\nDisallow: /\n", delay_s=2.0),
    )
    made.add("a.example", 50)
    made.start_all(workers=2)

    totals = made.drained(timeout_s=30)

    assert totals.refused == 50
    assert [arrival.path for arrival in made.origin.arrivals()] == ["/robots.txt"]


def test_rules_are_kept_at_add_and_at_the_fetch(crew: Callable[..., Crew]) -> None:
    """What is forbidden is refused at add once the rules are known, and at the fetch before."""
    made = crew("a.example", interval="100ms")
    made.origin.set(
        "a.example", "/robots.txt", Behaviour(body=b"\xef\xbb\xbfUser-agent: *\nDisallow: /1\n")
    )
    made.add("a.example", 20)
    made.start_all()
    totals = made.drained(timeout_s=30)

    later = made.add("a.example", 1, first=100)

    paths = {arrival.path for arrival in made.origin.arrivals()}
    assert not [path for path in paths if path.startswith("/1")]
    assert (totals.done, totals.refused) == (9, 11)
    assert later[0].verdict is Verdict.DISALLOWED


@pytest.mark.parametrize("status", [200, 204, 401, 403, 404, 410])
def test_a_missing_robots_txt_allows(crew: Callable[..., Crew], status: int) -> None:
    """An empty file and every 4xx but 429 let the pages be fetched (RFC 9309 section 2.3.1.3)."""
    made = crew("a.example", interval="50ms")
    made.origin.set("a.example", "/robots.txt", Behaviour(status=status, body=b""))
    made.add("a.example", 3)
    made.start_all()

    assert made.drained(timeout_s=30).done == 3


UNREACHABLE = {
    "429": Behaviour(status=429),
    "500": Behaviour(status=500),
    "503": Behaviour(status=503),
    "reset": Behaviour(ending=Ending.RESET),
    "cut": Behaviour(body=b"User-agent: *\nAllow: /\n" * 50, ending=Ending.CUT),
    "silent": Behaviour(delay_s=30.0),
}


def test_an_unreachable_robots_txt_stops_its_host_only(crew: Callable[..., Crew]) -> None:
    """429, 5xx, resets, broken transfers and silence: no page, nothing lost, no other host held."""
    hosts = [f"x{name}.example" for name in UNREACHABLE]
    made = crew("ok.example", *hosts, interval="100ms", fetch_timeout="2s", worker_threads="8")
    for host, behaviour in zip(hosts, UNREACHABLE.values(), strict=True):
        made.origin.set(host, "/robots.txt", behaviour)
        made.add(host, 5)
    made.add("ok.example", 20)
    made.start_all()

    wait_until(lambda: made.frontier.census.totals().done == 20, "the healthy host is done", 30)
    wait_until(
        lambda: made.frontier.census.totals().robots.get("unreachable", 0) == len(hosts),
        "each robots.txt was found unreachable",
        timeout_s=30,
    )

    assert {a.path for a in made.origin.arrivals() if a.host != "ok.example"} == {"/robots.txt"}
    totals = made.frontier.census.totals()
    assert totals.waiting == 5 * len(hosts)
    assert made.frontier.census.count().missing == 0


def test_a_robots_redirect_pays_at_its_own_host(crew: Callable[..., Crew]) -> None:
    """Twenty hosts whose robots.txt lies on one host: each asks there, at that host's pace."""
    hosts = [f"h{number}.example" for number in range(8)]
    made = crew("rules.example", *hosts, interval="300ms")
    target = made.origin.url("rules.example", "/robots.txt")
    for host in hosts:
        made.origin.set(host, "/robots.txt", Behaviour(status=301, headers=(("Location", target),)))
        made.add(host, 2)
    made.origin.set(
        "rules.example", "/robots.txt", Behaviour(body=b"User-agent: examplebot\nDisallow: /0\n")
    )
    made.start_all()

    totals = made.drained(timeout_s=60)

    assert (totals.done, totals.refused) == (8, 8)
    assert len(made.origin.arrivals("rules.example")) == 8
    assert min(made.origin.gaps("rules.example")) >= 0.295
    assert not [a for a in made.origin.arrivals() if a.path == "/0"]
