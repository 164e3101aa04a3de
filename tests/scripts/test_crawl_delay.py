"""robots: a crawl delay is the host's pace from the moment it is stored until it is dropped."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.scripts.frontier import Rig, a_case, pages
from throttle.crawl.robots_visit import RobotsVisit
from throttle.errors import FetchError
from throttle.frontier.hosts import HostView
from throttle.frontier.startgate import Reply, Started
from throttle.model import End, HostPolicy, Outcome, Response, Says

A, A8080 = "http://a.example", "http://a.example:8080"
NOW = datetime(2026, 11, 6, 8, 47, 37, tzinfo=UTC)


@pytest.fixture
def quick(rigs: Callable[..., Rig]) -> Rig:
    """A frontier at 2 s whose crawl delays are capped at 60 s."""
    return rigs(interval_s=2.0, crawl_delay_cap_s=60.0)


def asks(rig: Rig, delay_s: float | None, origin: str = A, state: str = "ok") -> HostView:
    """The host after a robots.txt of one of its origins with that crawl delay."""
    rig.book.store(origin, state, 3600, crawl_delay_s=delay_s, version="1")
    return rig.hosts.show(["a.example"])[0]


def test_the_longest_of_the_origins_counts(quick: Rig) -> None:
    """Both ports share a pace, so the slower wish holds; without it the other one does."""
    assert asks(quick, 5.0).interval_s == 5.0
    view = asks(quick, 9.0, A8080)
    assert (view.interval_s, view.interval_source, view.crawl_delay_s) == (9.0, "robots.txt", 9.0)
    assert asks(quick, 7.0).interval_s == 9.0
    assert asks(quick, None, A8080).interval_s == 7.0
    assert asks(quick, 0.0).interval_s == 2.0


@pytest.mark.parametrize(
    ("asked_s", "applied_s"), [(59.5, 59.5), (60.0, 60.0), (60.000001, 60.0), (3e8, 60.0)]
)
def test_the_cap_is_exact(quick: Rig, asked_s: float, applied_s: float) -> None:
    """A delay at the cap is obeyed whole, one above it as far as the cap; what was asked stays
    readable."""
    view = asks(quick, asked_s)
    assert (view.interval_s, view.crawl_delay_s) == (applied_s, applied_s)
    assert view.crawl_delay_asked_s == asked_s


def test_a_capped_delay_of_one_origin_hides_no_other(quick: Rig) -> None:
    """The cap is on what is applied to the host, whichever origin asks for more."""
    asks(quick, 1e6)
    assert asks(quick, 30.0, A8080).interval_s == 60.0
    assert asks(quick, None).interval_s == 30.0


@pytest.mark.parametrize(("operator_s", "source"), [(None, "default"), (0.5, "operator")])
def test_a_dropped_delay_uncovers_the_layer_beneath(
    quick: Rig, operator_s: float | None, source: str
) -> None:
    """When the site takes its wish back, the host has the pace it had, not the site's."""
    if operator_s:
        quick.hosts.set_policy("a.example", HostPolicy(interval_s=operator_s))
    assert asks(quick, 10.0).interval_source == "robots.txt"
    view = asks(quick, None)
    assert (view.interval_s, view.interval_source) == (operator_s or 2.0, source)
    assert (view.crawl_delay_s, view.crawl_delay_asked_s) == (None, None)
    assert "robots_us" not in quick.record("a.example")


def test_a_delay_never_makes_a_host_faster(quick: Rig) -> None:
    """A shorter wish than the operator's or the default changes nothing, not even the bucket."""
    quick.hosts.set_policy("a.example", HostPolicy(interval_s=8.0))
    quick.seed(f"{A}/0")
    view = asks(quick, 3.0)
    assert (view.interval_s, view.interval_source) == (8.0, "operator")
    assert quick.number("a.example", "tokens") == 1
    quick.hosts.set_policy("a.example", HostPolicy(interval_s=1.0))
    assert quick.hosts.show(["a.example"])[0].interval_s == 3.0


def test_a_cleared_policy_uncovers_the_default_beneath_the_delay(quick: Rig) -> None:
    """Each layer stands for itself: taking the operator's away leaves the site's."""
    quick.hosts.set_policy("a.example", HostPolicy(interval_s=20.0))
    asks(quick, 5.0)
    quick.hosts.set_policy("a.example", HostPolicy(cleared=frozenset({"interval_s"})))
    assert quick.hosts.show(["a.example"])[0].interval_s == 5.0
    assert asks(quick, None).interval_s == 2.0


def test_a_delay_resizes_the_token_period_at_once(quick: Rig) -> None:
    """The bucket is believed empty and put up for refill, and the issuer reads the new interval,
    which its queue must be made for; likewise when the delay is gone."""
    quick.seed(*pages("a.example", 3))
    assert quick.number("a.example", "tokens") == 1
    for delay_s, interval_s in ((6.0, 6.0), (None, 2.0)):
        asks(quick, delay_s)
        assert quick.number("a.example", "tokens") == 0
        assert quick.score("ready", "a.example") is None
        (due,) = quick.refill.due(quick.owned_to_issue, 10)
        assert [(token.key, token.interval_s) for token in due.tokens] == [
            ("a.example", interval_s)
        ]
        quick.issue()


def test_a_delay_that_stays_the_same_costs_no_token(quick: Rig) -> None:
    """A robots.txt fetched again each day does not empty the bucket."""
    quick.seed(f"{A}/0")
    asks(quick, 6.0)
    quick.issue()
    assert quick.number("a.example", "tokens") == 1
    asks(quick, 6.0)
    assert quick.number("a.example", "tokens") == 1
    assert quick.score("refill", "a.example") is None


def test_a_new_delay_counts_from_the_last_request(rigs: Callable[..., Rig]) -> None:
    """The gap before the next fetch is the new one already, even for what was claimed before."""
    rig = rigs(interval_s=0.01)
    rig.seed(*pages("a.example", 3))
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=started.now_s)
    rig.issue("a.example")
    rig.pass_until(rig.number("a.example", "tat_us"))
    claimed = rig.claim_one()

    asks(rig, 0.25)

    opens_us = round(started.now_s * 1e6) + 250_000
    assert rig.number("a.example", "tat_us") == opens_us
    assert rig.start(claimed)[0] is Reply.EARLY
    rig.issue("a.example")
    assert rig.claim() == []
    rig.pass_until(opens_us)
    assert rig.start(rig.claim_one())[0] is Reply.GO


def test_a_dropped_delay_lets_the_host_go_sooner(quick: Rig) -> None:
    """The clock comes in as far as the shorter interval allows."""
    asks(quick, 60.0)
    quick.seed(*pages("a.example", 2))
    asks(quick, 60.0)
    quick.issue("a.example")
    quick.open_clock("a.example")
    started = quick.go(quick.claim_one())
    quick.finish(started, wire_s=started.now_s)
    asks(quick, None)
    assert quick.number("a.example", "tat_us") == round((started.now_s + 2) * 1e6)


def test_a_case_for_a_delay_above_the_cap_is_stored_with_it(quick: Rig) -> None:
    """One per host, however many of its origins and fetches ask for it."""
    for origin in (A, A8080, A):
        case = a_case("crawl_delay_capped", reason=f"asked by {origin}")
        quick.book.store(origin, "ok", 60, crawl_delay_s=1e6, version="1", case=case)
    assert [case.reason for case in quick.cases.open()] == [f"asked by {A}"]


@pytest.fixture
def visit(quick: Rig) -> RobotsVisit:
    """What a worker does with a robots.txt, at a certain time of day."""
    return RobotsVisit(quick.book, product="examplebot", ttl_s=3600, now=lambda: NOW)


def asked_for(rig: Rig) -> Started:
    """A started grant for the robots.txt of the first origin."""
    rig.add(f"{A}/0")
    rig.hosts.refresh_robots("a.example")
    rig.issue("a.example")
    rig.open_clock("a.example")
    return rig.go(rig.claim_one())


def answered(
    rig: Rig, visit: RobotsVisit, status: int, body: bytes = b"", retry_after: str = ""
) -> Outcome:
    """The outcome of one fetch of robots.txt, which is finished, too."""
    started = asked_for(rig)
    headers = (("Retry-After", retry_after),) if retry_after else ()
    url = started.entry.url
    response = Response(url, status, "", "HTTP/1.1", headers, body, body, "127.0.0.1", 1.0, 1.0)
    outcome = visit.answered(started, response)
    rig.gate.finish(started, outcome, started.now_s)
    return outcome


def delay(text: str) -> bytes:
    """A robots.txt with a crawl delay."""
    return f"User-agent: *\nCrawl-delay: {text}\n".encode()


def test_a_site_that_asks_for_too_much_is_told_to_a_person(quick: Rig, visit: RobotsVisit) -> None:
    """At the cap there is no case, above it there is one, with what was asked and what holds."""
    answered(quick, visit, 200, delay("60"))
    assert list(quick.cases.open()) == []
    assert quick.hosts.show(["a.example"])[0].interval_s == 60.0

    answered(quick, visit, 200, delay("600"))

    (case,) = quick.cases.open()
    assert (case.kind, case.host, case.url) == (
        "crawl_delay_capped",
        "a.example",
        f"{A}/robots.txt",
    )
    assert case.reason.startswith("robots.txt asks for 10m between two requests")
    assert case.reason.endswith("applied is the cap, 1m")
    assert case.opened_at == NOW.isoformat()
    assert quick.hosts.show(["a.example"])[0].interval_s == 60.0


@pytest.mark.parametrize("how", ["500", "429", "no answer", "redirect"])
def test_silence_is_no_faster_pace(quick: Rig, visit: RobotsVisit, how: str) -> None:
    """While robots.txt cannot be had, or is being followed, the delay that was known holds."""
    answered(quick, visit, 200, delay("10"))
    if how == "no answer":
        started = asked_for(quick)
        assert visit.failed(started, FetchError("connection reset")).says is Says.SILENT
    elif how == "redirect":
        started = asked_for(quick)
        headers = (("Location", "http://b.example/r.txt"),)
        visit.answered(
            started,
            Response(A, 301, "", "HTTP/1.1", headers, b"", b"", "127.0.0.1", 1.0, 1.0),
        )
    else:
        answered(quick, visit, int(how))
    assert quick.hosts.show(["a.example"])[0].interval_s == 10.0


@pytest.mark.parametrize(("status", "body"), [(404, b""), (200, b"User-agent: *\nDisallow:\n")])
def test_a_robots_txt_without_a_delay_drops_it(
    quick: Rig, visit: RobotsVisit, status: int, body: bytes
) -> None:
    """A site that takes the line or the file away has its pace back with that answer."""
    answered(quick, visit, 200, delay("10"))
    answered(quick, visit, status, body)
    assert quick.hosts.show(["a.example"])[0].interval_s == 2.0


@pytest.mark.parametrize(
    ("status", "retry_after", "asked_s"),
    [(429, "500", 500.0), (503, "500", 500.0), (429, "0", None), (503, "", None)],
)
def test_a_throttled_robots_txt_speaks_for_its_host(
    quick: Rig, visit: RobotsVisit, status: int, retry_after: str, asked_s: float | None
) -> None:
    """It slows the host as a page's answer does, and is not asked again before its time."""
    outcome = answered(quick, visit, status, retry_after=retry_after)
    assert (outcome.end, outcome.says, outcome.retry_after_s) == (
        End.DONE,
        Says.THROTTLED,
        asked_s,
    )
    record = quick.book.records([A])[A]
    left_s = record.until_s - quick.now_us() / 1e6
    assert record.state == "unreachable"
    least_s = asked_s or 30.0
    assert least_s - 1 < left_s <= least_s
