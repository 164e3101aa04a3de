"""reset: the next generation starts clean, and what sites asked for stays."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

import pytest

from tests.scripts.frontier import Rig, pages
from throttle.errors import FrontierError
from throttle.frontier.bundle import Frontier
from throttle.frontier.generations import Begun, Generations
from throttle.frontier.startgate import Reply
from throttle.model import Candidate, End, HostPolicy, Verdict
from throttle.ops.resetting import begin_generation
from throttle.settings import Settings

ADDED = Verdict.ADDED


def begin(rig: Rig, *, keep_policies: bool = False) -> Begun:
    """The next generation of `rig`."""
    return Generations(rig.scripts, rig.keys).begin(
        rig.census.totals(),
        "2026-01-01T00:00:00+00:00",
        rig.hosts.keys(),
        keep_policies=keep_policies,
        between=lambda: None,
    )


@pytest.mark.parametrize("error_rate", [None, 1e-6])
def test_nothing_of_the_last_generation_is_left(
    rigs: Callable[..., Rig], error_rate: float | None
) -> None:
    """URLs, seen sets, ends and counters are gone, on all partitions; the audit holds."""
    rig = rigs(partitions=4, error_rate=error_rate, max_pages=500)
    ends = (End.DONE, End.DEAD, End.REFUSED, End.AGAIN, End.DONE, End.REFUSED)
    for number, end in enumerate(ends):
        rig.seed(*pages(f"h{number}.example", 40))
        (grant,) = rig.claim()
        rig.finish(rig.go(grant), end, wire_s=1.0, delay_s=60.0)
    rig.audited()

    begun = begin(rig)

    assert (begun.ended.totals["accepted"], begun.ended.totals["dead"]) == (240, 1)
    assert (begun.hosts, begun.dropped) == (6, 240 - 5)
    count_ = rig.audited()
    assert (count_.accepted, count_.done, count_.waiting, count_.delayed) == (0, 0, 0, 0)
    for name in ("urls", "lanes", "delayed", "seen", "bloom", "dead", "refused"):
        assert rig.client.keys(f"*:{name}:*") == []
    assert rig.add(*pages("h1.example", 40)) == [ADDED] * 40
    assert rig.number("h1.example", "accepted") == 40
    rig.audited()


def test_what_sites_asked_for_stays(rig: Rig) -> None:
    """A new generation is no way round a clock, a block, a refusal, a pause or robots.txt."""
    rig.seed("http://a.example/", "http://b.example/")
    for grant in rig.claim():
        started = rig.go(grant)
        rig.finish(started, wire_s=started.now_s)
    rig.hosts.block("a.example", for_s=600)
    rig.hosts.pause("b.example", paused=True)
    rig.client.hset(rig.keys.of_host("b.example", "host"), mapping={"refused": "1"})
    rig.book.store(
        "http://a.example", "ok", 600, version="2", crawl_delay_s=9e3,
        body=b"User-agent: *\nDisallow: /x",
    )  # fmt: skip
    before = rig.hosts.show(["a.example", "b.example"])

    begin(rig)

    after = rig.hosts.show(["a.example", "b.example"])
    for old, new in zip(before, after, strict=True):
        assert new.clock_opens_s == old.clock_opens_s
        assert new.blocked_until_s == old.blocked_until_s
        assert (new.refuses_us, new.paused) == (old.refuses_us, old.paused)
        assert (new.robots, new.interval_s) == (old.robots, old.interval_s)
        assert new.done == 0
    assert rig.add("http://a.example/x", "http://a.example/") == [Verdict.DISALLOWED, ADDED]
    rig.issue("a.example")
    assert rig.claim() == []


@pytest.mark.parametrize("keep", [True, False])
def test_policies_are_kept_when_asked_for(rig: Rig, *, keep: bool) -> None:
    """With the flag a host stays known at its pace; without it, it is as if never added."""
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=7.0, burst=3))
    rig.add("http://a.example/", "http://b.example/")

    begin(rig, keep_policies=keep)

    view = rig.hosts.show(["a.example"])[0]
    assert (view.operator_s, view.burst) == ((7.0, 3) if keep else (None, 1))
    links = [Candidate(f"http://{host}.example/", only_known_hosts=True) for host in "ab"]
    verdicts = [answer.verdict for answer in rig.intake.add(links)]
    assert verdicts == [ADDED if keep else Verdict.OUTSIDE, Verdict.OUTSIDE]


def test_a_host_goes_on_in_the_next_generation(rigs: Callable[..., Rig]) -> None:
    """Tokens and clock work as before: the first page of the new generation is fetched."""
    rig = rigs(interval_s=0.01)
    rig.seed(*pages("a.example", 3))
    rig.fetch()
    begin(rig)
    assert rig.add(*pages("a.example", 2)) == [ADDED, ADDED]
    rig.issue("a.example")
    rig.open_clock("a.example")
    assert rig.start(rig.claim_one())[0] is Reply.GO
    rig.audited()


def test_nothing_is_reset_while_something_is_in_flight(rig: Rig) -> None:
    """The refusal names the remedy, and changes nothing."""
    rig.seed("http://a.example/0")
    rig.claim_one()
    with pytest.raises(FrontierError, match="throttlectl drain"):
        begin(rig)
    assert rig.audited().accepted == 1
    assert Generations(rig.scripts, rig.keys).ended() == []


def test_a_reset_that_was_cut_off_goes_on_with_its_record(rig: Rig) -> None:
    """Run again, it ends the same generation, with the totals from before the first try."""
    rig.add(*pages("a.example", 5))
    generations = Generations(rig.scripts, rig.keys)

    def cut() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generations.begin(
            rig.census.totals(), "then", rig.hosts.keys(), keep_policies=False, between=cut
        )
    assert generations.number() == 1
    rig.audited()

    begun = begin(rig)

    assert (begun.ended.number, begun.ended.ended_at) == (1, "then")
    assert begun.ended.totals["accepted"] == 5
    assert generations.number() == 2
    assert [one.number for one in generations.ended()] == [1]
    begin(rig)
    assert [one.number for one in generations.ended()] == [1, 2]


def test_the_budget_and_the_kind_of_seen_set_begin_anew(rigs: Callable[..., Rig]) -> None:
    """max_pages counts a generation; another kind of seen set may be chosen for the next."""
    rig = rigs(max_pages=2)
    assert rig.add(*pages("a.example", 3)) == [ADDED, ADDED, Verdict.FULL]
    begin(rig)
    assert rig.add(*pages("a.example", 3)) == [ADDED, ADDED, Verdict.FULL]
    begin(rig)
    assert rigs(error_rate=1e-6).add("http://a.example/") == [ADDED]


def test_a_dispatcher_at_work_keeps_urls_from_being_reset(redis_url: str) -> None:
    """While URLs wait and someone could fetch them, reset refuses; when all is drained it may."""
    frontier = Frontier(Settings(redis_url=redis_url))
    clock = count()

    def now() -> datetime:
        return datetime.fromtimestamp(next(clock), UTC)

    others = frontier.leases("dispatch")
    others.renew()
    assert begin_generation(frontier, keep_policies=False, now=now).ended.number == 1
    frontier.intake.add([Candidate("http://a.example/")])
    with pytest.raises(FrontierError, match="dispatcher is at work"):
        begin_generation(frontier, keep_policies=False, now=now)
    others.leave()
    begun = begin_generation(frontier, keep_policies=False, now=now)
    assert (begun.ended.number, begun.dropped) == (2, 1)
    assert len(others.renew()) == frontier.keys.partitions
