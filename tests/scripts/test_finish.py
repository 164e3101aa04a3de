"""finish: what becomes of a URL, of its host's clock and of the token it cost."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scripts.frontier import Rig, pages
from throttle.model import End


@pytest.mark.parametrize("end", [End.DONE, End.REFUSED, End.DEAD])
def test_an_ended_url_is_counted_and_gone(rig: Rig, end: End) -> None:
    """The URL comes to its end; what was refused or dead is kept with its reason."""
    rig.seed("http://a.example/x")
    started = rig.go(rig.claim_one())

    assert rig.finish(started, end, wire_s=started.now_s)

    count = rig.audited()
    assert getattr(count, end) == 1
    assert (count.accepted, count.waiting, count.delayed, count.in_flight) == (1, 0, 0, 0)
    assert rig.number("a.example", f"ended:{end}") == 1
    assert rig.number("a.example", "in_flight") == 0
    assert rig.census.totals().outcomes == {f"was {end}": 1}
    kept = rig.client.lrange(rig.key(f"{end}:a.example"), 0, -1)
    assert kept == ([] if end is End.DONE else [b"a reason\n0 0 0 http://a.example/x"])
    assert rig.client.exists(rig.key(f"grant:{started.grant_id}")) == 0


@pytest.mark.parametrize(("end", "tries"), [(End.AGAIN, 1), (End.BACK, 0)])
def test_a_url_that_comes_again_goes_behind_the_others(rig: Rig, end: End, tries: int) -> None:
    """One page must not starve its host; `again` counts a try, `back` does not."""
    rig.seed(*pages("a.example", 2))
    rig.finish(rig.go(rig.claim_one()), end, wire_s=1.0)
    assert rig.client.lrange(rig.key("urls:http://a.example"), 0, -1) == [
        b"0 0 0 http://a.example/1",
        f"{tries} 0 0 http://a.example/0".encode(),
    ]
    assert rig.audited().waiting == 2


@pytest.mark.parametrize(("end", "tries"), [(End.AGAIN, 1), (End.BACK, 0)])
def test_a_url_that_comes_later_is_delayed(rig: Rig, end: End, tries: int) -> None:
    """With a delay it waits apart until its time, rounded to no sooner."""
    rig.seed(*pages("a.example", 2))
    before = rig.now_us()
    rig.finish(rig.go(rig.claim_one()), end, wire_s=1.0, delay_s=30.0)
    ((entry, due_us),) = rig.client.zrange(rig.key("delayed:a.example"), 0, -1, withscores=True)
    assert entry == f"{tries} 0 0 http://a.example/0".encode()
    assert before + 30e6 <= due_us <= rig.now_us() + 30e6
    count = rig.audited()
    assert (count.waiting, count.delayed) == (1, 1)


def test_tries_add_up(rigs: Callable[..., Rig]) -> None:
    """Each `again` is one more try, and the gate tells the worker how many there were."""
    rig = rigs(interval_s=0.001)
    rig.seed("http://a.example/")
    for tries in range(3):
        rig.open_clock("a.example")
        started = rig.go(rig.claim_one())
        assert started.entry.tries == tries
        rig.finish(started, End.AGAIN, wire_s=1.0)
        rig.issue("a.example")


def test_nothing_sent_costs_nothing(rig: Rig) -> None:
    """A fetch that never reached the host leaves its clock, and its token is issued again now."""
    rig.seed(*pages("a.example", 2))
    started = rig.go(rig.claim_one())
    assert (rig.score("refill", "a.example") or 0) > rig.now_us() + 3000e6

    assert rig.finish(started, End.REFUSED, wire_s=None)

    assert rig.number("a.example", "tat_us") == 0
    assert (rig.score("refill", "a.example") or 0) <= rig.now_us()
    assert rig.issue() == ["a.example"]
    assert rig.claim_one().url == "http://a.example/1"


def test_what_was_sent_is_not_refunded(rig: Rig) -> None:
    """Once `sent` was said, a finish without a wire time refunds nothing."""
    rig.seed("http://a.example/")
    started = rig.go(rig.claim_one())
    rig.gate.sent(started, started.now_s)
    due_us, tat_us = rig.score("refill", "a.example"), rig.number("a.example", "tat_us")
    rig.finish(started, End.DEAD, wire_s=None)
    assert rig.score("refill", "a.example") == due_us
    assert rig.number("a.example", "tat_us") == tat_us


def test_a_second_finish_is_stale(rig: Rig) -> None:
    """Whoever closes a grant second changes nothing, be it a repeat or another request."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant)
    other = replace(started, request="other")

    assert not rig.finish(other, End.DEAD, wire_s=5.0, block_s=60)
    assert rig.finish(started, wire_s=started.now_s)
    record = rig.record("a.example")
    assert not rig.finish(started, End.DEAD, wire_s=started.now_s + 9, block_s=60)

    assert rig.record("a.example") == record
    assert rig.audited().done == 1


def test_a_finish_before_a_start_is_stale(rig: Rig) -> None:
    """A grant that nobody started cannot be closed as if it were fetched."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant)
    rig.client.hset(rig.key(f"grant:{grant.id}"), "state", "claimed")
    assert not rig.finish(started, wire_s=1.0)
    assert rig.audited().in_flight == 1


def test_a_block_stops_the_whole_host(rigs: Callable[..., Rig]) -> None:
    """Nothing of a blocked host is claimed before the block is over; a shorter one changes
    nothing."""
    rig = rigs(interval_s=0.001, concurrency=2, burst=2)
    rig.seed(*pages("a.example", 4))
    rig.issue("a.example")
    one, two = rig.go(rig.claim_one(), "one"), rig.go(rig.claim_one(), "two")
    before = rig.now_us()
    rig.finish(one, End.AGAIN, wire_s=one.now_s, block_s=0.15)
    block_us = rig.number("a.example", "block_us")
    assert before + 150_000 <= block_us <= rig.now_us() + 150_000
    rig.finish(two, End.AGAIN, wire_s=two.now_s, block_s=0.01)
    assert rig.number("a.example", "block_us") == block_us

    rig.issue("a.example")
    assert rig.claim() == []
    assert rig.score("ready", "a.example") == block_us
    rig.pass_until(block_us)
    assert rig.claim_one().key == "a.example"


def test_a_finish_frees_the_slot_at_once(rigs: Callable[..., Rig]) -> None:
    """A waiting host with a token goes the moment its slot is free and its clock open."""
    rig = rigs(interval_s=0.001)
    rig.seed(*pages("a.example", 2))
    started = rig.go(rig.claim_one())
    rig.issue("a.example")
    assert rig.score("ready", "a.example") is None
    rig.finish(started, wire_s=1.0)
    assert rig.claim_one().url == "http://a.example/1"
