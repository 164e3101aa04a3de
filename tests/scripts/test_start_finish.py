"""start, sent, finish: the one place where a fetch is allowed, and what closes it."""

import itertools
from collections.abc import Callable

import pytest

from tests.scripts.frontier import FOREVER_S, Rig, pages
from throttle.frontier.startgate import Reply, Started
from throttle.model import End, Grant, GrantKind, HostPolicy

INTERVAL_S = 0.08
INTERVAL_US = 80_000

_NUMBERS = itertools.count()


def grants(rig: Rig, count: int, host: str = "a.example") -> list[Grant]:
    """`count` grants of one host at once, its bucket and schedule bypassed: only the gate holds."""
    rig.robots_ok(f"http://{host}")
    rig.add(*(f"http://{host}/{next(_NUMBERS)}" for _ in range(count)))
    made = []
    for _ in range(count):
        rig.client.hset(rig.keys.of_host(host, "host"), "tokens", 1)
        rig.client.zadd(rig.key("ready"), {host: 0})
        made.append(rig.claim_one())
    return made


def test_go_hands_over_the_entry(rig: Rig) -> None:
    """The worker learns what to fetch, how many at once are allowed, and Redis's time."""
    rig.seed("http://a.example/x")
    grant = rig.claim_one()
    before = rig.now_us()

    reply, started = rig.start(grant)

    assert reply is Reply.GO
    assert started is not None
    assert before <= round(started.now_s * 1e6) <= rig.now_us()
    assert (started.grant_id, started.key, started.kind) == (grant.id, "a.example", GrantKind.PAGE)
    assert (started.entry.url, started.entry.tries) == ("http://a.example/x", 0)
    assert (started.concurrency, started.robots.state) == (1, "ok")
    assert rig.number("a.example", "pending") == 1


def test_the_same_request_may_ask_again(rig: Rig) -> None:
    """After a lost reply the worker asks again: go, without a second reservation."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    first = rig.go(grant)
    record = rig.record("a.example")

    again = rig.go(grant)

    assert again.entry == first.entry
    assert rig.record("a.example") == record
    assert rig.finish(first, wire_s=first.now_s)
    assert rig.audited().done == 1


def test_an_unknown_grant_is_stale(rig: Rig) -> None:
    """A message whose grant is over is dropped, whether it was finished or never existed."""
    rig.seed("http://a.example/")
    grant = rig.fetch()
    assert rig.start(grant) == (Reply.STALE, None)
    assert rig.start(grant, "other", redelivered=True) == (Reply.STALE, None)
    never = Grant("never", "b.example", GrantKind.PAGE, "http://b.example/")
    assert rig.start(never) == (Reply.STALE, None)
    assert rig.record("b.example") == {}


def test_a_second_message_of_a_started_grant_is_a_duplicate(rig: Rig) -> None:
    """Two copies of a message make one fetch; the first one is not disturbed."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant, "first")
    expiry = rig.score("grants", grant.id)

    assert rig.start(grant, "second") == (Reply.DUPLICATE, None)

    assert rig.score("grants", grant.id) == expiry
    assert rig.finish(started, wire_s=1.0)


def test_a_redelivered_message_of_a_started_grant_is_held(rig: Rig) -> None:
    """Its worker is suspected: nothing is fetched, and the expiry looks at it soon."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant, "first")

    assert rig.start(grant, "second", redelivered=True) == (Reply.HELD, None)

    assert (rig.score("grants", grant.id) or 0) < rig.now_us() + 10e6
    assert rig.number("a.example", "pending") == 1
    assert rig.finish(started, wire_s=1.0)
    assert rig.start(grant, "second", redelivered=True) == (Reply.STALE, None)


def test_a_redelivered_message_of_an_unstarted_grant_goes(rig: Rig) -> None:
    """Nobody started it, so the copy is as good as the first."""
    rig.seed("http://a.example/")
    assert rig.start(rig.claim_one(), redelivered=True)[0] is Reply.GO


@pytest.mark.parametrize("why", ["clock", "paused", "blocked"])
def test_early_gives_the_url_back(rigs: Callable[..., Rig], why: str) -> None:
    """Before its host may go, a grant ends: its URL is next in its lane, no try is counted."""
    rig = rigs(interval_s=60.0)
    rig.seed(*pages("a.example", 2))
    if why == "blocked":
        rig.finish(rig.go(rig.claim_one()), End.BACK, block_s=60)
        rig.client.hset(rig.keys.of_host("a.example", "host"), "tokens", 1)
        rig.client.zadd(rig.key("ready"), {"a.example": 0})
    grant = rig.claim_one()
    if why == "clock":
        rig.client.hset(rig.keys.of_host("a.example", "host"), "tat_us", rig.now_us() + 10_000_000)
    elif why == "paused":
        rig.hosts.pause("a.example", paused=True)

    assert rig.start(grant) == (Reply.EARLY, None)

    assert rig.client.lrange(rig.key("urls:http://a.example"), 0, 0) == [b"0 0 0 http://a.example/0"]
    assert rig.start(grant) == (Reply.STALE, None)
    assert rig.census.totals().early == 1
    count = rig.audited()
    assert (count.waiting, count.in_flight) == (2, 0)
    assert rig.number("a.example", "pending") == 0


@pytest.mark.parametrize("concurrency", [1, 2, 3, 4])
def test_a_strict_gap_waits_for_the_wire_time(rigs: Callable[..., Rig], concurrency: int) -> None:
    """Burst 1: while one request may still reach the wire, no other starts, however wide the
    host; one interval after it did, the next may."""
    rig = rigs(interval_s=INTERVAL_S, concurrency=concurrency)
    taken = grants(rig, concurrency)
    started = rig.go(taken[0])
    for grant in taken[1:]:
        rig.pass_s(INTERVAL_S)
        assert rig.start(grant)[0] is Reply.EARLY

    wire_us = rig.now_us()
    assert rig.gate.sent(started, wire_us / 1e6)
    if concurrency == 1:
        rig.finish(started, wire_s=wire_us / 1e6)
    (shut,) = grants(rig, 1)
    assert rig.start(shut)[0] is Reply.EARLY
    rig.pass_until(wire_us + INTERVAL_US)
    (grant,) = grants(rig, 1)
    assert rig.start(grant)[0] is Reply.GO


def test_the_finish_tells_the_wire_time_too(rigs: Callable[..., Rig]) -> None:
    """Without `sent`, the clock runs from the wire time that `finish` brings, to the us."""
    rig = rigs(interval_s=INTERVAL_S)
    (grant,) = grants(rig, 1)
    wire_us = rig.now_us() + 20_000
    rig.finish(rig.go(grant), wire_s=wire_us / 1e6)
    assert rig.number("a.example", "tat_us") == wire_us + INTERVAL_US
    (early,) = grants(rig, 1)
    assert rig.start(early)[0] is Reply.EARLY
    rig.pass_until(wire_us + INTERVAL_US)
    (grant,) = grants(rig, 1)
    assert rig.start(grant)[0] is Reply.GO


def test_the_gap_is_never_undercut_in_a_row_of_fetches(rigs: Callable[..., Rig]) -> None:
    """Each start that the gate allows comes one interval after the wire time before it."""
    rig = rigs(interval_s=0.03, concurrency=3)
    wires: list[float] = []
    while len(wires) < 8:
        (grant,) = grants(rig, 1)
        reply, started = rig.start(grant)
        if started is not None:
            wires.append(started.now_s)
            assert rig.gate.sent(started, started.now_s)
            rig.finish(started, wire_s=started.now_s)
        else:
            assert reply is Reply.EARLY
    assert min(b - a for a, b in zip(wires, wires[1:], strict=False)) >= 0.03


def test_a_burst_lets_five_start_and_no_sixth(rigs: Callable[..., Rig]) -> None:
    """Burst 5: five requests may be on their way at once; the sixth waits for one interval."""
    rig = rigs(interval_s=INTERVAL_S, burst=5, concurrency=6)
    taken = grants(rig, 6)
    started = [rig.go(grant) for grant in taken[:5]]
    assert rig.start(taken[5])[0] is Reply.EARLY

    wire_s = rig.now_us() / 1e6
    for one in started:
        assert rig.gate.sent(one, wire_s)
        rig.finish(one, wire_s=wire_s)
    assert rig.number("a.example", "tat_us") == round(wire_s * 1e6) + 5 * INTERVAL_US

    (early,) = grants(rig, 1)
    assert rig.start(early)[0] is Reply.EARLY
    rig.pass_until(wire_s * 1e6 + INTERVAL_US)
    one, two = grants(rig, 2)
    rig.gate.sent(rig.go(one), wire_s + INTERVAL_S)
    assert rig.start(two)[0] is Reply.EARLY


def test_an_idle_host_saves_up_no_more_than_its_burst(rigs: Callable[..., Rig]) -> None:
    """However long a host was idle, at most `burst` requests start at once."""
    rig = rigs(interval_s=0.01, burst=2, concurrency=10)
    rig.finish(rig.go(grants(rig, 1)[0]), wire_s=1.0)
    rig.pass_s(0.05)
    replies = [rig.start(grant)[0] for grant in grants(rig, 4)]
    assert replies[:2] == [Reply.GO, Reply.GO]
    assert Reply.EARLY in replies[2:]


def test_sent_counts_once_and_only_for_its_request(rig: Rig) -> None:
    """A repeated, foreign or late `sent` moves no clock."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant)
    other = Started(**{**_fields(started), "request": "other"})

    assert not rig.gate.sent(other, 1.0)
    assert rig.gate.sent(started, started.now_s)
    tat_us = rig.number("a.example", "tat_us")
    assert not rig.gate.sent(started, started.now_s + 5)
    assert rig.finish(started, wire_s=started.now_s + 5)
    assert not rig.gate.sent(started, started.now_s)
    assert rig.number("a.example", "tat_us") == tat_us == round((started.now_s + FOREVER_S) * 1e6)
    assert rig.number("a.example", "unsent") == rig.number("a.example", "pending") == 0


@pytest.mark.parametrize("end", [End.DONE, End.REFUSED, End.DEAD])
def test_an_ended_url_is_counted_and_gone(rig: Rig, end: End) -> None:
    """The URL comes to its end; what was refused or dead is kept with its reason."""
    rig.seed("http://a.example/x")
    started = rig.go(rig.claim_one())

    assert rig.finish(started, end, wire_s=started.now_s)

    count = rig.audited()
    assert getattr(count, end) == 1
    assert (count.accepted, count.waiting, count.delayed, count.in_flight) == (1, 0, 0, 0)
    assert rig.number("a.example", end) == 1
    assert rig.number("a.example", "in_flight") == 0
    assert rig.census.totals().outcomes == {f"was {end}": 1}
    kept = rig.client.lrange(rig.key(f"{end}:a.example"), 0, -1)
    assert kept == ([] if end is End.DONE else [b"a reason\n0 0 0 http://a.example/x"])
    assert rig.client.exists(rig.key(f"grant:{started.grant_id}")) == 0


@pytest.mark.parametrize(("end", "tries"), [(End.AGAIN, 1), (End.BACK, 0)])
def test_a_url_that_comes_again_is_next_in_its_lane(rig: Rig, end: End, tries: int) -> None:
    """Without a delay the URL is the next of its origin; `again` counts a try, `back` does not."""
    rig.seed(*pages("a.example", 2))
    rig.finish(rig.go(rig.claim_one()), end, wire_s=1.0)
    assert rig.client.lrange(rig.key("urls:http://a.example"), 0, -1) == [
        f"{tries} 0 0 http://a.example/0".encode(),
        b"0 0 0 http://a.example/1",
    ]
    assert rig.audited().waiting == 2


@pytest.mark.parametrize(("end", "tries"), [(End.AGAIN, 1), (End.BACK, 0)])
def test_a_url_that_comes_later_is_delayed(rig: Rig, end: End, tries: int) -> None:
    """With a delay it waits apart until its time, rounded to no sooner."""
    rig.seed(*pages("a.example", 2))
    before = rig.now_us()
    rig.finish(rig.go(rig.claim_one()), end, wire_s=1.0, delay_s=30.0)
    ((entry, due_us),) = rig.client.zrange(
        rig.key("delayed:a.example"), 0, -1, withscores=True
    )
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
    other = Started(**{**_fields(started), "request": "other"})

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


def test_a_policy_between_claim_and_start_is_obeyed(rigs: Callable[..., Rig]) -> None:
    """A host made slower after the claim is held at the gate."""
    rig = rigs(interval_s=0.001)
    rig.seed(*pages("a.example", 2))
    rig.fetch()
    rig.issue("a.example")
    rig.pass_until(rig.number("a.example", "tat_us"))
    grant = rig.claim_one()
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=60.0))
    assert rig.start(grant)[0] is Reply.EARLY


def _fields(started: Started) -> dict[str, object]:
    return {name: getattr(started, name) for name in Started.__slots__}
