"""The verdict of the demo: each promise can be seen to break in the site's log."""

from dataclasses import replace

import pytest

from throttle.frontier.census import Count
from throttle.local.origin import Arrival
from throttle.ops.verdict import Promise, hosts_seen, promises

INTERVALS_S = {"a.example": 1.0, "b.example": 2.0}
COUNT = Count(accepted=4, done=4, refused=0, dead=0, waiting=0, delayed=0, in_flight=0, faults=())


def _arrival(host: str, path: str, at_s: float, open_now: int = 1) -> Arrival:
    return Arrival(host, path, "GET", at_s, at_s + 0.1, 200, {}, open_now)


GOOD = (
    _arrival("a.example", "/robots.txt", 0.0),
    _arrival("a.example", "/", 1.0),
    _arrival("a.example", "/x", 2.001),
    _arrival("b.example", "/robots.txt", 0.5),
    _arrival("b.example", "/", 2.5),
    _arrival("b.example", "/y", 4.5),
)


def _judged(arrivals: tuple[Arrival, ...], count: Count = COUNT) -> dict[str, Promise]:
    hosts = hosts_seen(arrivals, INTERVALS_S, ("/private/",))
    return {promise.name: promise for promise in promises(arrivals, hosts, count)}


def _broken(arrivals: tuple[Arrival, ...], count: Count = COUNT) -> set[str]:
    return {name for name, promise in _judged(arrivals, count).items() if not promise.held}


def test_a_polite_crawl_holds_every_promise() -> None:
    """Nothing is found where nothing is."""
    assert not _broken(GOOD)
    assert "4 gaps" in _judged(GOOD)["gap"].figure


def test_hosts_are_seen_with_their_figures() -> None:
    """Pages leave robots.txt out, gaps and the share of the rate count it."""
    host, _ = hosts_seen(GOOD, INTERVALS_S, ())
    assert (host.pages, host.requests, host.most_open) == (2, 3, 1)
    assert host.smallest_gap_s == pytest.approx(1.0)
    assert host.share == pytest.approx(2 / 2.001)


def test_a_host_never_asked_has_no_figures() -> None:
    """No request is no gap, not a gap of zero."""
    (host,) = hosts_seen((), {"a.example": 1.0}, ())
    assert (host.requests, host.smallest_gap_s, host.share, host.slack_s) == (0, None, None, 0.0)


def test_a_gap_may_be_short_by_the_tolerance_only() -> None:
    """Five milliseconds are the site's own blur."""
    assert not _broken((*GOOD[:2], replace(GOOD[2], at_s=1.996), *GOOD[3:]))
    assert _broken((*GOOD[:2], replace(GOOD[2], at_s=1.994), *GOOD[3:])) == {"gap"}


def test_an_empty_log_proves_nothing() -> None:
    """A crawl that asked for nothing did not hold its promises."""
    nothing = replace(COUNT, accepted=0, done=0)
    assert {"gap", "every page once", "all pay", "concurrency"} <= _broken((), nothing)


@pytest.mark.parametrize(
    ("arrivals", "count", "broken"),
    [
        ((*GOOD[:2], replace(GOOD[2], open_now=2), *GOOD[3:]), COUNT, "concurrency"),
        (GOOD, replace(COUNT, accepted=5), "nothing lost"),
        (GOOD, replace(COUNT, done=3, waiting=1), "nothing lost"),
        (GOOD, replace(COUNT, faults=("a fault",)), "nothing lost"),
        (GOOD[:-1], COUNT, "every page once"),
        ((*GOOD, _arrival("b.example", "/y", 6.5)), COUNT, "every page once"),
        ((*GOOD, _arrival("c.example", "/", 6.5)), COUNT, "all pay"),
        ((*GOOD, _arrival("b.example", "/private/a", 6.5)), COUNT, "robots"),
        (GOOD[1:], COUNT, "robots"),
    ],
)
def test_each_broken_promise_is_found(
    arrivals: tuple[Arrival, ...], count: Count, broken: str
) -> None:
    """One fault in the log or the audit breaks the promise it belongs to."""
    assert broken in _broken(arrivals, count)
