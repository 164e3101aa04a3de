"""No waiting: no worker sleeps on a host, and no host waits for another."""

from collections.abc import Callable

import pytest

from tests.crew import Crew, share
from tests.promises.test_gap import TOLERANCE_S
from tests.servers import wait_until
from throttle.local.origin import Behaviour
from throttle.model import HostPolicy


def test_dispatcher_never_blocks_on_a_slow_host(crew: Callable[..., Crew]) -> None:
    """A host with an hour's interval holds up nobody: the fast ones are done in seconds."""
    fast = [f"fast{number}.example" for number in range(5)]
    made = crew("slow.example", *fast, interval="200ms", worker_threads="2")
    made.frontier.hosts.set_policy("slow.example", HostPolicy(interval_s=3600.0))
    made.add("slow.example", 50)
    for host in fast:
        made.add(host, 20)
    made.start_all(workers=1)

    wait_until(
        lambda: made.frontier.census.totals().done >= 100, "the fast hosts are done", timeout_s=30
    )

    assert {host: len(made.origin.arrivals(host)) for host in fast} == dict.fromkeys(fast, 21)
    assert len(made.origin.arrivals("slow.example")) == 1  # robots.txt has the first token
    assert made.frontier.census.totals().waiting == 50


def test_a_hanging_host_holds_one_slot_only(crew: Callable[..., Crew]) -> None:
    """A host that never answers costs one worker slot until the deadline, and no other host."""
    made = crew(
        "hang.example", "ok.example", interval="100ms", worker_threads="4", fetch_timeout="5s"
    )
    made.origin.set("hang.example", "*", Behaviour(delay_s=60.0))
    made.origin.set("hang.example", "/robots.txt", Behaviour(status=404))
    made.add("hang.example", 5)
    made.add("ok.example", 50)
    made.start_all(workers=1)

    wait_until(
        lambda: made.frontier.census.totals().outcomes.get("done", 0) >= 50,
        "the healthy host is done",
        timeout_s=30,
    )

    assert made.origin.max_open("hang.example") == 1


@pytest.mark.alone
def test_fifty_hosts_go_at_their_full_rate_with_few_slots(crew: Callable[..., Crew]) -> None:
    """50 hosts at 2 s for a minute, 10,000 URLs: not one gap short, 99 % of the allowed rate.

    Requests are answered after 20 ms; 50 of them in 2 s need half a slot, and eight are enough.
    """
    hosts = [f"h{number}.example" for number in range(50)]
    made = crew(*hosts, interval="2s", worker_threads="8")
    made.origin.set("*", "*", Behaviour(delay_s=0.02))
    for host in hosts:
        made.add(host, 200)
    made.start_all(workers=1)
    wait_until(
        lambda: len(made.origin.arrivals("h0.example")) >= 31,
        "a minute of crawling has passed",
        timeout_s=90,
        every_s=0.5,
    )

    smallest = min(min(made.origin.gaps(host)) for host in hosts)
    shares = [share(made.origin, host, 2.0) for host in hosts]
    assert smallest >= 2.0 - TOLERANCE_S
    assert sum(shares) / len(shares) >= 0.99
    totals = made.frontier.census.totals()
    assert totals.accepted == 10_000
    assert made.frontier.census.count().missing == 0
    assert max(made.origin.max_open(host) for host in hosts) == 1
    # Eight slots that waited for their hosts could do 8 / 2 s = 4 requests a second.
    assert len(made.origin.arrivals()) / 60 > 8 / 2.0


def test_scarce_room_goes_round(crew: Callable[..., Crew]) -> None:
    """With room for four fetches and 64 hosts of all partitions, no host is left out."""
    hosts = [f"h{number}.example" for number in range(64)]
    made = crew(*hosts, interval="100ms", max_in_flight="4")
    for host in hosts:
        made.add(host, 100)
    made.start_all(workers=1)
    wait_until(
        lambda: made.frontier.census.totals().done >= 600, "the crawl is under way", timeout_s=40
    )

    counts = sorted(len(made.origin.arrivals(host)) for host in hosts)
    assert counts[0] >= 0.5 * counts[-1]
