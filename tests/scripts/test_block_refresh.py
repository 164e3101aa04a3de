"""block, unblock, refresh: what a person may ask of a host's pauses and of its robots.txt."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, kinds, pages
from throttle.frontier.rules import RobotsRecord
from throttle.frontier.startgate import Reply
from throttle.model import BlockedBy, GrantKind, HostPolicy

A, A8080 = "http://a.example", "http://a.example:8080"


@pytest.fixture
def quick(rigs: Callable[..., Rig]) -> Rig:
    """A frontier whose hosts may go every millisecond."""
    return rigs(interval_s=0.001)


def test_a_block_holds_from_its_return(quick: Rig) -> None:
    """What was claimed before goes back, nothing more is claimed, until the block ends."""
    quick.seed(*pages("a.example", 3))
    grant = quick.claim_one()
    before = quick.now_us()

    until_s = quick.hosts.block("a.example", for_s=0.2)

    assert until_s is not None
    assert before + 200_000 <= round(until_s * 1e6) <= quick.now_us() + 200_000
    assert quick.start(grant) == (Reply.EARLY, None)
    quick.issue("a.example")
    assert quick.claim() == []
    assert quick.score("ready", "a.example") == round(until_s * 1e6)
    view = quick.hosts.show(["a.example"])[0]
    assert (view.blocked_until_s, view.blocked_by) == (until_s, BlockedBy.OPERATOR)
    quick.pass_until(until_s * 1e6)
    assert quick.start(quick.claim_one())[0] is Reply.GO


def test_a_block_only_extends(quick: Rig) -> None:
    """The reply is the end in force: the later one of what stood and what was asked."""
    quick.seed("http://a.example/")
    now_s = quick.now_us() / 1e6
    long_s, longer_s = round(now_s) + 600.0, round(now_s) + 700.0
    assert quick.hosts.block("a.example", until_s=long_s) == long_s
    assert quick.hosts.block("a.example", for_s=1) == long_s
    assert quick.hosts.block("a.example", until_s=1.0) == long_s
    assert quick.hosts.block("a.example", until_s=longer_s) == longer_s
    assert quick.hosts.block("a.example", until_s=longer_s) == longer_s
    assert quick.number("a.example", "block_us") == longer_s * 1e6


def test_a_block_of_the_operator_extends_one_of_the_host(quick: Rig) -> None:
    """A person may lengthen a Retry-After, and a shorter wish leaves its cause."""
    quick.seed("http://a.example/")
    quick.finish(quick.go(quick.claim_one()), block_s=60)
    stood_us = quick.number("a.example", "block_us")
    assert round((quick.hosts.block("a.example", for_s=1) or 0) * 1e6) == stood_us
    assert quick.hosts.show(["a.example"])[0].blocked_by is BlockedBy.BACK_OFF
    assert (quick.hosts.block("a.example", for_s=600) or 0) * 1e6 > stood_us + 500e6
    assert quick.hosts.show(["a.example"])[0].blocked_by is BlockedBy.OPERATOR


def test_an_unknown_host_is_neither_blocked_nor_made(rig: Rig) -> None:
    """A misspelt name answers so, and leaves nothing in Redis, whatever was asked."""
    assert rig.hosts.block("never.example", for_s=60) is None
    rig.hosts.unblock("never.example")
    assert rig.hosts.refresh_robots("never.example") == 0
    assert rig.ends.retry_dead(["never.example"]) == 0
    key = rig.keys.of_host("never.example", "host")
    totals = rig.keys.named(0, "ready", "refill", "totals")
    assert rig.scripts.run("revive", totals, [rig.keys.prefix(0), "never.example", 5, "dead"]) == 0
    assert rig.client.exists(key) == 0
    assert rig.client.keys("*never*") == []


def test_a_host_known_by_its_policy_alone_can_be_blocked(rig: Rig) -> None:
    """The block is there before the first URL is."""
    rig.hosts.set_policy("a.example", HostPolicy(burst=2))
    until_s = rig.hosts.block("a.example", for_s=60)
    rig.seed("http://a.example/")
    assert rig.claim() == []
    assert rig.hosts.show(["a.example"])[0].ready_at_s == until_s


def test_unblock_takes_block_back_off_and_breaker_away(rigs: Callable[..., Rig]) -> None:
    """The host goes at once and with all its slots; what is spent of its burst stays spent."""
    rig = rigs(burst=3, concurrency=3)
    rig.seed(*pages("a.example", 4))
    started = rig.go(rig.claim_one())
    rig.answer(started, change=rig.change("a.example", opened=2, block_s=600, breaker_s=900))
    rig.client.hset(rig.keys.of_host("a.example", "host"), "tokens", 3)
    tat_us = rig.number("a.example", "tat_us")
    assert rig.claim() == []

    rig.hosts.unblock("a.example")

    view = rig.hosts.show(["a.example"])[0]
    assert (view.blocked_until_s, view.breaker_until_s, view.blocked_by) == (0.0, 0.0, None)
    assert view.concurrency == 3
    assert rig.stored_pace("a.example") == b""
    assert rig.number("a.example", "tat_us") == tat_us
    assert [len(rig.claim()) for _ in range(3)] == [1, 1, 0]
    rig.hosts.unblock("a.example")
    rig.audited()


def test_an_answer_under_way_during_an_unblock_decides_anew(rigs: Callable[..., Rig]) -> None:
    """It was decided from a pace that a person took away meanwhile: it does not bring it back."""
    rig = rigs(burst=2, concurrency=2)
    rig.seed(*pages("a.example", 3))
    rig.issue("a.example")
    one, two = rig.go(rig.claim_one(), "1"), rig.go(rig.claim_one(), "2")
    rig.answer(one, change=rig.change("a.example", opened=1, block_s=600))
    change = rig.change("a.example", opened=2, block_s=900)
    rig.hosts.unblock("a.example")
    assert rig.answer(two, change=change).conflict == b""
    assert rig.number("a.example", "block_us") == 0


def test_refresh_asks_every_robots_txt_once(quick: Rig) -> None:
    """Each origin's file is fetched again before its next page, once, and the rest is as it was."""
    quick.robots_ok(A)
    quick.book.store(A8080, "unreachable", 3600, failures=3, crawl_delay_s=0.001, version="7")
    quick.add(f"{A}/0", f"{A}/1", f"{A8080}/0")

    assert quick.hosts.refresh_robots("a.example") == 2

    asked = []
    for _ in range(2):
        quick.issue("a.example")
        quick.open_clock("a.example")
        grant = quick.claim_one()
        asked += kinds([grant])
        quick.finish(quick.go(grant), wire_s=1.0)
    robots = GrantKind.ROBOTS
    assert set(asked) == {(robots, f"{A8080}/robots.txt"), (robots, f"{A}/robots.txt")}
    quick.issue("a.example")
    quick.open_clock("a.example")
    assert quick.claim() == []
    record = quick.book.records([A8080])[A8080]
    assert (record.failures, record.crawl_delay_s, record.version) == (3, 0.001, "7")

    quick.robots_ok(A)
    quick.open_clock("a.example")
    assert quick.claim_one().url == f"{A}/0"


def test_refresh_leaves_a_question_under_way_alone(quick: Rig) -> None:
    """A robots.txt that is being asked for is not asked for twice."""
    quick.robots_ok(A8080)
    quick.book.store(A, "asked", 600, version="0")
    record = quick.book.records([A])[A]
    assert quick.hosts.refresh_robots("a.example") == 1
    assert quick.book.records([A])[A] == record
    assert quick.book.records([A8080])[A8080].until_s == 0.0


def test_refresh_lets_a_page_in_flight_keep_its_rules(quick: Rig) -> None:
    """The gate still knows the rules in force for what was claimed before."""
    quick.book.store(A, "ok", 3600, version="4", body=b"User-agent: *\nDisallow: /x")
    quick.add(f"{A}/0")
    quick.issue()
    grant = quick.claim_one()
    quick.hosts.refresh_robots("a.example")
    assert quick.go(grant).robots == RobotsRecord("ok", 0.0, version="4")


def test_a_host_held_by_robots_txt_goes_at_once_after_a_refresh(quick: Rig) -> None:
    """A person who knows that the site is back need not wait for the next look."""
    quick.book.store(A, "unreachable", 3600, failures=5, version="0")
    quick.add(f"{A}/0")
    quick.issue()
    assert quick.claim() == []
    quick.hosts.refresh_robots("a.example")
    assert quick.claim_one().url == f"{A}/robots.txt"
