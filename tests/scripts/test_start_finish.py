"""start and sent: the one place where a fetch is allowed, and the clock it keeps."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scripts.frontier import FOREVER_S, Rig, pages
from throttle.frontier.startgate import Reply
from throttle.model import End, Grant, GrantKind, HostPolicy

INTERVAL_S = 0.2
INTERVAL_US = 200_000

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


def test_a_grant_shown_for_another_host_is_stale(rig: Rig) -> None:
    """A message is no proof: one that names another host changes nothing."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    forged = replace(grant, key="b.example")
    assert rig.start(forged) == (Reply.STALE, None)
    assert rig.start(grant)[0] is Reply.GO


def test_a_redelivered_message_of_a_started_grant_is_held(rig: Rig) -> None:
    """Its worker may still be fetching: nothing is fetched twice, its grant keeps its time."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant, "first")

    assert rig.start(grant, "second", redelivered=True) == (Reply.HELD, None)

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

    # The blocked host got its first URL back from `finish` before, behind the others.
    first = 1 if why == "blocked" else 0
    assert rig.client.lrange(rig.key("urls:http://a.example"), 0, 0) == [
        f"0 0 0 http://a.example/{first}".encode()
    ]
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
    rig.pass_s(INTERVAL_S)
    for grant in taken[1:]:
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
    assert min(b - a for a, b in itertools.pairwise(wires)) >= 0.03


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
    other = replace(started, request="other")

    assert not rig.gate.sent(other, 1.0)
    assert rig.gate.sent(started, started.now_s)
    tat_us = rig.number("a.example", "tat_us")
    assert not rig.gate.sent(started, started.now_s + 5)
    assert rig.finish(started, wire_s=started.now_s + 5)
    assert not rig.gate.sent(started, started.now_s)
    assert rig.number("a.example", "tat_us") == tat_us == round((started.now_s + FOREVER_S) * 1e6)
    assert rig.number("a.example", "unsent") == rig.number("a.example", "pending") == 0


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
