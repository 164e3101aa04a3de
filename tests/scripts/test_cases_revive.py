"""close and revive: a case ends with who and why, and dead URLs get another chance."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import FOREVER_S, Rig, a_case, pages
from throttle.errors import FrontierError, UsageError
from throttle.frontier.cases import ClosedCase
from throttle.model import Case, End, Verdict

A = "a.example"


def refused(rig: Rig) -> Case:
    """A host that refuses us, with a pace, a block, an open breaker and its case."""
    rig.seed(*pages(A, 3))
    started = rig.go(rig.claim_one())
    case = a_case(reason='HTTP 403, "quoted" and übel\u2028')
    change = rig.change(A, opened=1, block_s=600, breaker_s=600, refused_us=True, case=case)
    assert rig.answer(started, End.REFUSED, change=change).closed
    rig.issue(A)
    rig.open_clock(A)
    assert rig.claim() == []
    return case


def close(
    rig: Rig, kind: str = "refused", *, resume: bool = False, why: str = "wrote to them"
) -> ClosedCase:
    """Closes a case of the host."""
    return rig.cases.close(
        A, kind, who="ann", why=why, closed_at="2026-11-07T00:00:00+00:00", resume=resume
    )


def test_a_closed_case_keeps_who_and_why(rig: Rig) -> None:
    """The record of what happened and what a person decided stays readable, to the letter."""
    case = refused(rig)
    assert list(rig.cases.open()) == [case]

    closed = close(rig, why="they said: ok ☺")

    expected = ClosedCase(case, "ann", "2026-11-07T00:00:00+00:00", "they said: ok ☺", False)
    assert closed == expected
    assert list(rig.cases.closed()) == list(rig.cases.closed(A)) == [expected]
    assert list(rig.cases.open()) == []
    assert rig.cases.count_by_kind() == {}
    assert list(rig.cases.closed("b.example")) == []


def test_a_case_closed_without_resume_lets_nothing_go(rig: Rig) -> None:
    """Having looked is not having decided to go on: the host stays stopped."""
    refused(rig)
    close(rig)
    assert rig.hosts.show([A])[0].refuses_us
    rig.open_clock(A)
    assert rig.claim() == []


def test_a_case_closed_with_resume_lets_the_host_go_at_once(rig: Rig) -> None:
    """It starts with a clean pace: no block, no open breaker, no memory of refusals."""
    refused(rig)
    assert close(rig, resume=True).resumed

    view = rig.hosts.show([A])[0]
    assert not view.refuses_us
    assert (view.blocked_until_s, view.breaker_until_s, view.blocked_by) == (0.0, 0.0, None)
    assert rig.stored_pace(A) == b""
    assert rig.number(A, "opened") == 0
    assert rig.claim_one().url == f"http://{A}/1"
    rig.audited()


def test_a_case_is_closed_once(rig: Rig) -> None:
    """The second close finds nothing and says so, and the first one stands."""
    refused(rig)
    close(rig, resume=True)
    with pytest.raises(FrontierError, match="no open case of kind refused"):
        close(rig, resume=True, why="again")
    with pytest.raises(FrontierError, match="no open case"):
        close(rig)
    assert [one.why for one in rig.cases.closed()] == ["wrote to them"]
    keys = rig.keys.named(0, "ready", "cases", "closed")
    assert rig.scripts.run("close", keys, [rig.keys.prefix(0), A, "refused", "{}", "0"]) == 0
    assert len(list(rig.cases.closed())) == 1


def test_a_host_may_be_let_go_after_its_case_was_closed(rig: Rig) -> None:
    """Closed first, resumed later: both are recorded."""
    refused(rig)
    close(rig)
    assert close(rig, resume=True, why="they answered").resumed
    assert [(one.why, one.resumed) for one in rig.cases.closed()] == [
        ("wrote to them", False),
        ("they answered", True),
    ]
    assert rig.claim_one().key == A


def test_a_closed_case_may_open_again(rig: Rig) -> None:
    """What happens once more after a person looked is told once more."""
    refused(rig)
    close(rig, resume=True)
    started = rig.go(rig.claim_one())
    again = a_case(reason="again")
    rig.answer(started, End.REFUSED, change=rig.change(A, refused_us=True, case=again))
    assert list(rig.cases.open()) == [again]
    assert len(list(rig.cases.closed())) == 1


def test_only_a_refusal_can_be_resumed(rig: Rig) -> None:
    """A case of another kind stops no host: closing it takes no block away."""
    rig.seed("http://a.example/")
    case = a_case("retry_after_capped")
    started = rig.go(rig.claim_one())
    rig.answer(started, End.BACK, change=rig.change(A, block_s=600, case=case))
    block_us = rig.number(A, "block_us")
    with pytest.raises(UsageError, match="stops no host"):
        close(rig, "retry_after_capped", resume=True)
    assert close(rig, "retry_after_capped").case == case
    assert rig.number(A, "block_us") == block_us


def test_cases_of_many_hosts_are_listed_once(rigs: Callable[..., Rig]) -> None:
    """Over all partitions, each open case and no other."""
    rig = rigs(partitions=4)
    for number in range(30):
        host = f"h{number}.example"
        rig.book.store(
            f"http://{host}", "ok", 60, version="1", case=a_case("crawl_delay_capped", host)
        )
    assert sorted(case.host for case in rig.cases.open()) == sorted(
        f"h{number}.example" for number in range(30)
    )
    assert rig.cases.count_by_kind() == {"crawl_delay_capped": 30}
    assert [case.host for case in rig.cases.open("h7.example")] == ["h7.example"]


def die(rig: Rig, count: int, tries: int = 1) -> None:
    """The next `count` URLs of the host end dead after `tries` starts."""
    for attempt in range(1, tries + 1):
        for _ in range(count):
            rig.issue(A)
            rig.open_clock(A)
            started = rig.go(rig.claim_one())
            rig.answer(started, End.DEAD if attempt == tries else End.AGAIN)


def test_dead_urls_wait_again(rig: Rig) -> None:
    """Behind the URLs that wait, the first dead first, their tries forgotten, nothing lost."""
    rig.seed(*pages(A, 2))
    die(rig, 2, tries=2)
    rig.add(*pages(A, 4)[2:])
    rig.add(f"http://{A}:8080/other")
    count = rig.audited()
    assert (count.dead, count.waiting) == (2, 3)
    assert [one.entry.tries for one in rig.ends.listed("dead", [A])] == [1, 1]

    assert rig.ends.retry_dead([A]) == 2

    count = rig.audited()
    assert (count.dead, count.waiting, count.accepted) == (0, 4 + 1, 5)
    assert rig.client.lrange(rig.key(f"urls:http://{A}"), 0, -1) == [
        f"0 0 0 http://{A}/{number}".encode() for number in (2, 3, 0, 1)
    ]
    assert rig.hosts.show([A])[0].dead == 0
    assert list(rig.ends.listed("dead", [A])) == []
    assert rig.ends.retry_dead([A]) == 0


def test_as_many_come_back_as_were_asked_for(rig: Rig) -> None:
    """The oldest ones; the others stay dead."""
    rig.seed(*pages(A, 5))
    die(rig, 5)
    assert rig.ends.retry_dead(["none.example", A], 2) == 2
    assert rig.waiting(f"http://{A}") == pages(A, 2)
    assert [one.entry.url for one in rig.ends.listed("dead", [A])] == pages(A, 5)[2:]
    count = rig.audited()
    assert (count.dead, count.waiting) == (3, 2)


def test_a_revived_url_is_fetched(rigs: Callable[..., Rig]) -> None:
    """A host that had nothing left to do gets a token and goes on, and stays seen."""
    rig = rigs(burst=2)
    rig.seed(f"http://{A}/0")
    die(rig, 1)
    rig.client.zrem(rig.key("refill"), A)
    rig.client.hset(rig.keys.of_host(A, "host"), "tokens", 0)
    assert rig.ends.retry_dead([A]) == 1
    assert rig.issue() == [A]
    rig.open_clock(A)
    assert rig.fetch().url == f"http://{A}/0"
    assert rig.audited().done == 1
    assert rig.add(f"http://{A}/0") == [Verdict.SEEN]


def test_a_url_lost_with_its_worker_comes_back_whole(rigs: Callable[..., Rig]) -> None:
    """The line that `expire` wrote is read as well as that of `finish`, whatever its reason."""
    rig = rigs(max_tries=1, interval_s=FOREVER_S)
    rig.seed(*pages(A, 2))
    grant = rig.claim_one()
    rig.go(grant)
    rig.expire_now(grant)
    rig.expire()
    (ended,) = rig.ends.listed("dead", [A])
    assert (ended.key, ended.entry.url, ended.reason) == (A, f"http://{A}/0", "worker lost")
    assert rig.ends.retry_dead([A]) == 1
    assert rig.client.lrange(rig.key(f"urls:http://{A}"), 0, -1)[-1] == b"0 0 0 http://a.example/0"
    rig.audited()
