"""claim and robots.txt: an origin's rules come first, and one origin never blocks another."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, kinds, pages
from throttle.frontier.rules import RobotsRecord
from throttle.frontier.startgate import Reply
from throttle.model import End, Entry, GrantKind, Verdict

PAGE, ROBOTS = GrantKind.PAGE, GrantKind.ROBOTS
A, A8080 = "http://a.example", "http://a.example:8080"


@pytest.fixture
def quick(rigs: Callable[..., Rig]) -> Rig:
    """A frontier whose hosts may go every millisecond."""
    return rigs(interval_s=0.001)


def next_grant(rig: Rig, host: str = "a.example") -> tuple[GrantKind, str]:
    """Fetches what the host gives next, with the clock open and a token ready."""
    rig.issue(host)
    rig.open_clock(host)
    grant = rig.claim_one()
    rig.finish(rig.go(grant), wire_s=1.0)
    return grant.kind, grant.url


def nothing_goes(rig: Rig, host: str = "a.example") -> bool:
    """Whether the host gives nothing though its clock is open and a token lies ready."""
    rig.issue(host)
    rig.open_clock(host)
    return rig.claim() == []


def test_robots_txt_is_fetched_before_the_first_page(quick: Rig) -> None:
    """The first grant of an origin is its robots.txt; its pages wait until the rules are there."""
    quick.add(*pages("a.example", 3))

    assert next_grant(quick) == (ROBOTS, f"{A}/robots.txt")
    assert nothing_goes(quick)
    quick.robots_ok(A)
    assert next_grant(quick) == (PAGE, f"{A}/0")
    assert next_grant(quick) == (PAGE, f"{A}/1")
    assert quick.audited().waiting == 1


def test_a_robots_grant_names_its_origin_and_counts_no_page(quick: Rig) -> None:
    """robots.txt costs slot and token of its host, but is no URL of the crawl."""
    quick.add(f"{A8080}/x")
    quick.issue()
    grant = quick.claim_one()
    assert quick.number("a.example", "in_flight") == 1
    assert quick.number("a.example", "tokens") == 0
    assert quick.audited().in_flight == 0

    started = quick.go(grant)

    assert started.kind is ROBOTS
    assert started.entry == Entry(f"{A8080}/robots.txt", origin=A8080)
    assert started.robots == RobotsRecord("unknown")
    quick.finish(started, End.DONE, wire_s=1.0)
    assert quick.audited().done == 0
    assert quick.census.totals().outcomes == {}


def test_lanes_of_two_origins_take_turns(quick: Rig) -> None:
    """A host's two ports share its pace, and neither waits until the other is empty."""
    quick.robots_ok(A, A8080)
    quick.add(*(f"{A}/{n}" for n in range(3)), *(f"{A8080}/{n}" for n in range(3)))

    order = [next_grant(quick)[1] for _ in range(6)]

    assert order == [url for n in range(3) for url in (f"{A}/{n}", f"{A8080}/{n}")]
    assert nothing_goes(quick)


def test_an_unreachable_origin_does_not_block_the_other(quick: Rig) -> None:
    """While robots.txt of one port cannot be had, the other port goes on, in order."""
    quick.robots_ok(A8080)
    quick.book.store(A, "unreachable", 3600, failures=1, version="0")
    quick.add(f"{A}/0", f"{A8080}/0", f"{A}/1", f"{A8080}/1")

    assert next_grant(quick) == (PAGE, f"{A8080}/0")
    assert next_grant(quick) == (PAGE, f"{A8080}/1")
    assert nothing_goes(quick)
    assert quick.audited().waiting == 2
    hold_us = quick.number("a.example", "hold_us")
    assert quick.score("ready", "a.example") == hold_us > quick.now_us() + 3500e6


def test_a_new_lane_opens_a_host_that_waits_for_robots_txt(quick: Rig) -> None:
    """While one origin is unreachable, the first URL of another one makes the host go at once."""
    quick.robots_ok(A8080)
    quick.book.store(A, "unreachable", 3600, failures=1, version="0")
    quick.add(f"{A}/0")
    assert nothing_goes(quick)

    quick.add(f"{A8080}/0")

    assert quick.claim_one().url == f"{A8080}/0"


def test_an_unreachable_origin_is_asked_again_in_its_time(quick: Rig) -> None:
    """After the wait its robots.txt is fetched first, once; then its pages go."""
    quick.book.store(A, "unreachable", 0.2, failures=2, version="0")
    quick.add(f"{A}/0")
    assert nothing_goes(quick)
    quick.pass_until(quick.book.records([A])[A].until_s * 1e6)

    assert next_grant(quick) == (ROBOTS, f"{A}/robots.txt")
    assert quick.book.records([A])[A].failures == 2
    assert nothing_goes(quick)


def test_expired_rules_are_fetched_once_while_many_urls_wait(quick: Rig) -> None:
    """One refetch for two hundred URLs: they wait in their lane, none is put off or lost."""
    quick.robots_ok(A, valid_s=0.0)
    quick.add(*pages("a.example", 200))

    assert next_grant(quick) == (ROBOTS, f"{A}/robots.txt")
    for _ in range(5):
        assert nothing_goes(quick)
    assert quick.waiting(A) == pages("a.example", 200)
    assert quick.audited().waiting == 200

    quick.robots_ok(A)
    assert [next_grant(quick)[1] for _ in range(3)] == pages("a.example", 3)


def test_with_a_wide_concurrency_robots_txt_is_still_asked_once(rigs: Callable[..., Rig]) -> None:
    """Open slots and tokens do not make a second request for the same robots.txt."""
    rig = rigs(burst=5, concurrency=5)
    rig.add(*pages("a.example", 5))
    for _ in range(5):
        rig.issue("a.example")
    assert kinds(rig.claim()) == [(ROBOTS, f"{A}/robots.txt")]
    assert rig.claim() == []


def test_pages_carry_the_rules_that_hold_at_their_start(quick: Rig) -> None:
    """The worker gets the origin's record as it is at the gate, not as it was at the claim."""
    quick.book.store(A, "ok", 3600, version="1", body=b"User-agent: *\nDisallow: /old")
    quick.add(f"{A}/x")
    quick.issue()
    grant = quick.claim_one()
    quick.book.store(
        A, "ok", 3600, crawl_delay_s=2.5, version="2", body=b"User-agent: *\nDisallow: /x"
    )

    started = quick.go(grant)

    assert (started.robots.state, started.robots.version) == ("ok", "2")
    assert started.robots.crawl_delay_s == 2.5
    assert not quick.book.rules(A, started.robots).allows(f"{A}/x")


def test_stored_rules_refuse_at_the_door(rig: Rig) -> None:
    """Known rules are applied by add; a new version replaces them at once."""
    rig.book.store(A, "ok", 3600, version="1", body=b"User-agent: *\nDisallow: /no")
    assert rig.add(f"{A}/no", f"{A}/yes") == [Verdict.DISALLOWED, Verdict.ADDED]
    assert rig.add(f"{A8080}/no") == [Verdict.ADDED]
    rig.book.store(A, "ok", 3600, version="2", body=b"")
    assert rig.add(f"{A}/no") == [Verdict.ADDED]


def test_rules_stay_known_while_their_origin_is_unreachable(rig: Rig) -> None:
    """The last good rules are kept: `unreachable` replaces the state, not the body."""
    rig.book.store(A, "ok", 3600, version="1", body=b"User-agent: *\nDisallow: /no")
    rig.book.store(A, "unreachable", 60, failures=1, version="1")
    rig.book._parsed.clear()
    assert rig.add(f"{A}/no") == [Verdict.DISALLOWED]
    assert rig.census.totals().robots == {"ok": 1, "unreachable": 1}


@pytest.mark.parametrize("way", ["release", "early", "recover", "expire"])
def test_a_robots_grant_that_comes_to_nothing_is_asked_again(quick: Rig, way: str) -> None:
    """However a robots.txt grant is lost, the origin is asked anew and no page slips through."""
    quick.add(*pages("a.example", 2))
    quick.issue()
    grant = quick.claim_one()
    if way == "release":
        quick.claims.release([(grant, True)])
    elif way == "early":
        quick.hosts.pause("a.example", paused=True)
        assert quick.start(grant)[0] is Reply.EARLY
        quick.hosts.pause("a.example", paused=False)
    elif way == "recover":
        assert quick.claims.recover(quick.owned, own_too=True) == 1
    else:
        quick.expire_now(grant)
        assert quick.expire() == 1

    assert next_grant(quick) == (ROBOTS, f"{A}/robots.txt")
    assert quick.audited().waiting == 2


def test_answered_rules_are_not_undone_by_a_late_expiry(quick: Rig) -> None:
    """A robots.txt that was stored before its grant was lost stays in force."""
    quick.add(f"{A}/0")
    quick.issue()
    grant = quick.claim_one()
    quick.go(grant)
    quick.robots_ok(A)
    quick.expire_now(grant)
    quick.expire()
    assert next_grant(quick) == (PAGE, f"{A}/0")


def test_a_redirected_robots_txt_pays_at_the_host_it_leads_to(quick: Rig) -> None:
    """The target waits for a token of its own host, goes before that host's pages, and says
    whose rules it brings."""
    target = Entry("http://cdn.example/r.txt", hops=1, origin=A)
    quick.seed("http://cdn.example/page")
    quick.book.store(A, "asked", 600, version="0")
    quick.book.chase(target)

    grant = quick.claim_one()

    assert (grant.key, grant.kind, grant.url) == ("cdn.example", ROBOTS, target.url)
    assert quick.number("cdn.example", "tokens") == 0
    started = quick.go(grant)
    assert started.entry == target
    quick.finish(started, wire_s=1.0)
    assert next_grant(quick, "cdn.example") == (PAGE, "http://cdn.example/page")
    quick.audited()


def test_a_redirect_to_a_new_host_asks_for_a_token_there(quick: Rig) -> None:
    """A host known only from a redirect gets its bucket at once; its own rules are not asked."""
    quick.book.chase(Entry("http://cdn.example/r.txt", hops=1, origin=A))
    assert quick.claim() == []
    assert quick.issue() == ["cdn.example"]
    assert quick.claim_one().url == "http://cdn.example/r.txt"


@pytest.mark.parametrize("way", ["release", "expire", "worker lost"])
def test_a_redirected_robots_txt_is_not_lost(quick: Rig, way: str) -> None:
    """Given back, the target waits at its host again, with its origin."""
    quick.book.chase(Entry("http://cdn.example/r.txt", hops=1, origin=A))
    quick.issue()
    grant = quick.claim_one()
    if way == "release":
        quick.claims.release([(grant, True)])
    else:
        if way == "worker lost":
            quick.go(grant)
        quick.expire_now(grant)
        quick.expire()
    quick.issue("cdn.example")
    quick.open_clock("cdn.example")
    entry = quick.go(quick.claim_one()).entry
    assert (entry.url, entry.origin, entry.hops) == ("http://cdn.example/r.txt", A, 1)
    quick.audited()
