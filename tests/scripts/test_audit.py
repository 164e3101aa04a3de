"""audit, totals and pulse: every accepted URL is somewhere, and a wrong counter is found."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, pages
from throttle.model import End


@pytest.fixture
def busy(rigs: Callable[..., Rig]) -> Rig:
    """A frontier with a URL in every place and at every end, and hosts in two partitions."""
    rig = rigs(partitions=2, interval_s=0.001, max_tries=1)
    ends = [
        (End.DONE, 0.0),
        (End.REFUSED, 0.0),
        (End.DEAD, 0.0),
        (End.AGAIN, 60.0),
        (End.BACK, 60.0),
    ]
    for number in range(len(ends) + 3):
        rig.seed(*pages(f"h{number}.example", 3))
    grants = sorted(rig.claim(), key=lambda grant: grant.key)
    for grant, (end, delay_s) in zip(grants, ends, strict=False):
        started = rig.go(grant)
        rig.finish(started, end, wire_s=started.now_s, delay_s=delay_s)
    rig.go(grants[5])
    rig.go(grants[6])
    rig.expire_now(grants[6])
    rig.expire()
    return rig


def test_the_equation_holds_with_a_url_in_every_place(busy: Rig) -> None:
    """Accepted = done + refused + dead + waiting + delayed + in flight, each counted in place."""
    count = busy.audited()
    assert (count.accepted, count.done, count.refused, count.dead) == (24, 1, 1, 2)
    assert (count.waiting, count.delayed, count.in_flight) == (16, 2, 2)


def test_the_totals_agree_with_the_audit(busy: Rig) -> None:
    """What status shows is what the audit counts."""
    totals, count = busy.census.totals(), busy.audited()
    for name in ("accepted", "done", "refused", "dead", "waiting", "delayed", "in_flight"):
        assert getattr(totals, name) == getattr(count, name), name
    assert totals.hosts == 8
    assert totals.ready == sum(busy.client.zcard(key) for key in busy.client.keys("*:ready"))
    assert totals.robots == {"ok": 24}
    assert totals.outcomes == {
        "was done": 1,
        "was refused": 1,
        "was dead": 1,
        "was again": 1,
        "was back": 1,
        "worker lost": 1,
    }


def test_an_empty_frontier_counts_nothing(rig: Rig) -> None:
    """All numbers are zero, and nothing is missing."""
    count = rig.audited()
    assert count.accepted == 0
    assert rig.census.totals().outcomes == {}


@pytest.mark.parametrize("field", ["waiting", "delayed", "in_flight", "unsent"])
def test_a_wrong_counter_of_a_host_is_reported(busy: Rig, field: str) -> None:
    """The fault names the host, the counter, and both numbers."""
    right = busy.number("h0.example", field)
    busy.client.hincrby(busy.keys.of_host("h0.example", "host"), field, 7)
    name = field.replace("_", " ")
    assert busy.census.count().faults == (
        f"h0.example {name}: counter {right + 7}, counted {right}",
    )


@pytest.mark.parametrize("field", ["waiting", "delayed", "in_flight"])
def test_a_wrong_total_is_reported(busy: Rig, field: str) -> None:
    """A total that disagrees with what lies there is a fault; the count itself stays right."""
    right = busy.census.count()
    busy.client.hincrby(busy.key("totals"), field, 1)
    count = busy.census.count()
    assert len(count.faults) == 1
    assert count.faults[0].startswith(field.replace("_", " "))
    assert count.missing == 0
    assert getattr(count, field) == getattr(right, field)


def test_a_lost_url_is_missing(busy: Rig) -> None:
    """A URL that vanished from its lane shows as missing and as a fault of its host."""
    busy.client.lpop(busy.key("urls:http://h0.example", "h0.example"))
    count = busy.census.count()
    assert count.missing == 1
    assert any("h0.example waiting" in fault for fault in count.faults)


def test_a_url_in_two_places_is_less_than_missing(busy: Rig) -> None:
    """A doubled URL shows as a negative number."""
    key = busy.key("urls:http://h0.example", "h0.example")
    busy.client.rpush(key, busy.client.lindex(key, 0))
    assert busy.census.count().missing == -1


def test_an_ended_url_counted_twice_shows(busy: Rig) -> None:
    """A counter of ends that is wrong breaks the equation."""
    busy.client.hincrby(busy.key("totals"), "done", 1)
    assert busy.census.count().missing == -1


def test_the_pulse_tells_who_is_alive(rig: Rig) -> None:
    """Each role's age is the time since its last round; a role never seen is left out."""
    assert rig.census.ages() == {}
    rig.census.pulse("issuer")
    rig.client.hset(rig.keys.shared("pulse"), "worker", rig.now_us() - 5_000_000)
    ages = rig.census.ages()
    assert ages.keys() == {"issuer", "worker"}
    assert 0 <= ages["issuer"] < 1
    assert 5 <= ages["worker"] < 6
