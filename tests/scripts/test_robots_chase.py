"""robots.txt that goes wrong: redirects that pile up, lost workers, idle wishes, removed hosts."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, kinds, pages
from throttle.frontier.entries import encode
from throttle.frontier.rules import RobotsBook
from throttle.model import End, Entry, Grant, GrantKind, Verdict

A, A8080 = "http://a.example", "http://a.example:8080"
CDN = "cdn.example"
LONGEST_LIST = 1000
PAGE, ROBOTS = GrantKind.PAGE, GrantKind.ROBOTS


@pytest.fixture
def quick(rigs: Callable[..., Rig]) -> Rig:
    """A frontier whose hosts may go every millisecond."""
    return rigs(interval_s=0.001)


def redirect(number: int, origin: str | None = None) -> Entry:
    """A robots.txt of some origin that was redirected to the CDN."""
    origin = origin or f"http://o{number}.example"
    return Entry(f"http://{CDN}/{number}.txt", hops=1, origin=origin)


def chasing(rig: Rig) -> list[str]:
    """The redirects that wait at the CDN, which its record counts."""
    lines = rig.client.lrange(rig.key(f"chase:{CDN}", CDN), 0, -1)
    assert rig.number(CDN, "chase") == len(lines)
    return [line.decode() for line in lines]


def next_claim(rig: Rig, host: str) -> Grant:
    """What the host gives next, with the clock open and a token ready."""
    rig.issue(host)
    rig.open_clock(host)
    return rig.claim_one()


def lose(rig: Rig, grant: Grant) -> None:
    """The worker that started `grant` is gone."""
    rig.go(grant)
    rig.expire_now(grant)
    assert rig.expire() == 1


def test_one_redirect_waits_per_origin(quick: Rig) -> None:
    """An origin that is asked again and again has one place in the target's list: its first."""
    for entry in (redirect(1), redirect(2), redirect(3, redirect(1).origin)):
        quick.book.chase(entry)
    assert chasing(quick) == [encode(redirect(3, redirect(1).origin)), encode(redirect(2))]


def test_a_redirect_given_back_yields_to_a_newer_one(quick: Rig) -> None:
    """What came while it was on its way holds; the origin still has one place."""
    quick.book.chase(redirect(1))
    grant = next_claim(quick, CDN)
    newer = redirect(2, redirect(1).origin)
    quick.book.chase(newer)
    quick.claims.release([(grant, True)])
    assert chasing(quick) == [encode(newer)]


def test_redirects_that_wait_at_one_host_are_bounded(quick: Rig) -> None:
    """However many origins lead to one host, its list does not grow without end."""
    for number in range(LONGEST_LIST + 5):
        quick.book.chase(redirect(number))
    assert len(chasing(quick)) == LONGEST_LIST


def test_redirects_take_turns_with_the_pages_of_their_target(quick: Rig) -> None:
    """A host to which many origins lead still gets its own pages, every other turn."""
    quick.robots_ok(f"http://{CDN}/")
    quick.add(*pages(CDN, 3))
    for number in range(3):
        quick.book.chase(redirect(number))
    got = []
    for _ in range(6):
        grant = next_claim(quick, CDN)
        quick.finish(quick.go(grant), wire_s=1.0)
        got += kinds([grant])
    assert got == [
        turn
        for number in range(3)
        for turn in ((ROBOTS, redirect(number).url), (PAGE, pages(CDN, 3)[number]))
    ]


def test_redirects_go_on_where_the_target_has_nothing_of_its_own(quick: Rig) -> None:
    """While the target's own robots.txt cannot be had, redirects follow one another."""
    quick.book.store(f"http://{CDN}", "unreachable", 3600, failures=1, version="0")
    quick.add(*pages(CDN, 1))
    for number in range(3):
        quick.book.chase(redirect(number))
    for number in range(3):
        grant = next_claim(quick, CDN)
        assert grant.url == redirect(number).url
        quick.finish(quick.go(grant), wire_s=1.0)
    quick.audited()


@pytest.mark.parametrize(("failures", "pause_s"), [(0, 30), (1, 60), (7, 3600), (100, 3600)])
def test_a_robots_txt_that_loses_its_worker_is_put_off(
    quick: Rig, failures: int, pause_s: int
) -> None:
    """It may be what killed the worker: it is asked again after a pause that grows, up to 1 h."""
    quick.book.store(A, "unreachable", 0, failures=failures, crawl_delay_s=0.001, version="7")
    quick.add(*pages("a.example", 2))
    lose(quick, next_claim(quick, "a.example"))

    record = quick.book.records([A])[A]
    assert (record.state, record.failures) == ("unreachable", failures + 1)
    assert (record.crawl_delay_s, record.version) == (0.001, "7")
    assert pause_s - 2 < record.until_s - quick.now_us() / 1e6 <= pause_s
    assert quick.record("a.example")["robots_fault"] == "its worker was lost"
    quick.issue("a.example")
    quick.open_clock("a.example")
    assert quick.claim() == []
    assert quick.audited().waiting == 2


def test_a_redirect_that_loses_its_workers_is_dropped(rigs: Callable[..., Rig]) -> None:
    """After as many tries as a page has it costs no more workers."""
    rig = rigs(interval_s=0.001, max_tries=2)
    rig.book.chase(redirect(1))
    lose(rig, next_claim(rig, CDN))
    assert [line.split(" ")[0] for line in chasing(rig)] == ["1"]
    lose(rig, next_claim(rig, CDN))
    assert chasing(rig) == []
    rig.audited()


def interval_s(rig: Rig) -> float:
    """The interval in force for the host."""
    return rig.hosts.show(["a.example"])[0].interval_s


def test_the_wish_of_an_idle_origin_ends_with_its_file(quick: Rig) -> None:
    """A crawl delay out of date at an origin without URLs no longer slows the other ones."""
    quick.book.store(A8080, "ok", 0, crawl_delay_s=9.0, version="1")
    assert interval_s(quick) == 9.0
    quick.book.store(A, "ok", 3600, crawl_delay_s=2.0, version="1")
    assert interval_s(quick) == 2.0


@pytest.mark.parametrize("why", ["in force", "has a URL", "has a delayed URL"])
def test_a_wish_that_may_be_needed_holds(rigs: Callable[..., Rig], why: str) -> None:
    """A delay in force, or of an origin whose URLs wait, stays the host's pace."""
    rig = rigs(interval_s=0.001)
    if why == "has a delayed URL":
        rig.robots_ok(A8080)
        rig.add(f"{A8080}/0")
        rig.finish(rig.go(next_claim(rig, "a.example")), End.AGAIN, delay_s=60)
    elif why == "has a URL":
        rig.add(f"{A8080}/0")
    rig.book.store(A8080, "ok", 3600 if why == "in force" else 0, crawl_delay_s=9.0, version="1")
    rig.book.store(A, "ok", 3600, crawl_delay_s=2.0, version="1")
    assert interval_s(rig) == 9.0


def test_an_answer_for_a_removed_host_leaves_nothing(quick: Rig) -> None:
    """A robots.txt that was followed elsewhere may come after its host is gone: it is not kept."""
    book = RobotsBook(quick.scripts, quick.keys, "examplebot")
    assert quick.add(f"{A}/0") == [Verdict.ADDED]
    book.store(A, "asked", 600, version="0")
    quick.hosts.remove("a.example")
    before = quick.client.keys()

    book.store(A, "ok", 3600, version="1", body=b"User-agent: *\nDisallow: /no")

    assert quick.client.keys() == before
    assert not any(b"a.example" in name for name in before)


def test_an_answer_for_a_host_that_waits_is_kept(quick: Rig) -> None:
    """A host is known from its first URL on, and from a redirect that leads to it."""
    book = RobotsBook(quick.scripts, quick.keys, "examplebot")
    quick.add(f"{A}/0")
    quick.book.chase(redirect(1))
    for origin in (A, f"http://{CDN}"):
        book.store(origin, "ok", 3600, version="1")
        assert book.records([origin])[origin].state == "ok"


@pytest.mark.parametrize("is_chase", [False, True])
def test_a_robots_txt_not_sent_in_time_is_asked_again(quick: Rig, is_chase: bool) -> None:
    """A permission that was too old costs the origin nothing: it is asked at the next token."""
    if is_chase:
        quick.book.chase(redirect(1))
    else:
        quick.add(f"http://{CDN}/0")
    grant = next_claim(quick, CDN)
    assert quick.finish(quick.go(grant), End.BACK)
    again = next_claim(quick, CDN)
    assert (again.kind, again.url) == (ROBOTS, grant.url)
    assert quick.go(again).entry.tries == 0
    quick.audited()
