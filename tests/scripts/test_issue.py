"""due, issued, postpone: which buckets get a token, and that full and idle ones cost nothing."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, foreign, pages
from throttle.errors import Fenced
from throttle.model import DueToken


def test_due_names_the_bucket_and_its_shape(rigs: Callable[..., Rig]) -> None:
    """The issuer learns burst, interval and the shape its queue was last declared with."""
    rig = rigs(burst=3, interval_s=2.5)
    rig.add("http://a.example/")
    (due,) = rig.refill.due(rig.owned_to_issue, 10)
    assert due.owned == rig.owned_to_issue[0]
    assert due.tokens == (DueToken("a.example", 3, 2.5, ""),)

    rig.refill.issued([(due.owned, [("a.example", "3/2500")])])
    rig.issue("a.example")
    rig.client.zadd(rig.key("refill"), {"a.example": 0})
    (due,) = rig.refill.due(rig.owned_to_issue, 10)
    assert due.tokens[0].queue_shape == ""
    rig.refill.issued([(due.owned, [("a.example", "4/1")])])
    assert rig.record("a.example")["queue_shape"] == "4/1"


def test_due_alone_changes_nothing(rig: Rig) -> None:
    """Asked twice, it gives the same: only `issued` marks a token."""
    rig.add("http://a.example/")
    first = rig.refill.due(rig.owned_to_issue, 10)
    assert rig.refill.due(rig.owned_to_issue, 10)[0].tokens == first[0].tokens != ()


def test_an_issued_token_lets_the_host_go(rig: Rig) -> None:
    """The bucket of burst 1 is full: out of the set, and its host is scheduled."""
    rig.robots_ok("http://a.example")
    rig.add("http://a.example/")
    assert rig.claim() == []
    assert rig.issue() == ["a.example"]
    assert rig.number("a.example", "tokens") == 1
    assert rig.score("refill", "a.example") is None
    assert rig.claim_one().url == "http://a.example/"


def test_a_bucket_fills_to_its_burst_one_token_an_interval(rigs: Callable[..., Rig]) -> None:
    """Each token is due one interval after the one before, until the bucket is full and leaves."""
    rig = rigs(burst=3, interval_s=0.15)
    rig.add("http://a.example/")
    first_due = rig.score("refill", "a.example") or 0

    for tokens in (1, 2):
        rig.pass_until(rig.score("refill", "a.example") or 0)
        assert rig.issue() == ["a.example"]
        assert rig.issue() == []
        assert rig.number("a.example", "tokens") == tokens
        assert rig.score("refill", "a.example") == first_due + tokens * 150_000
    rig.pass_until(first_due + 300_000)
    assert rig.issue() == ["a.example"]

    assert rig.number("a.example", "tokens") == 3
    assert rig.client.zcard(rig.key("refill")) == 0
    assert rig.issue() == []


def test_a_late_issuer_catches_up_by_one_token_only(rigs: Callable[..., Rig]) -> None:
    """However long the issuer was away, a bucket gets the token it missed and one more, then the
    next an interval later."""
    rig = rigs(burst=5, interval_s=10.0)
    rig.add("http://a.example/")
    rig.client.zadd(rig.key("refill"), {"a.example": rig.now_us() - 3600e6})
    before = rig.now_us()
    assert [rig.issue() for _ in range(3)] == [["a.example"], ["a.example"], []]
    assert before + 10e6 <= (rig.score("refill", "a.example") or 0) <= rig.now_us() + 10e6


def test_marking_a_full_bucket_again_is_harmless(rig: Rig) -> None:
    """A token that was published twice is not believed twice."""
    rig.add("http://a.example/")
    (owned,) = rig.owned_to_issue
    for _ in range(2):
        rig.refill.issued([(owned, [("a.example", ""), ("unknown.example", "")])])
    assert rig.number("a.example", "tokens") == 1
    assert rig.issue("a.example") == ["a.example"]
    assert rig.number("a.example", "tokens") == 1
    assert rig.score("refill", "a.example") is None
    assert rig.record("unknown.example") == {}


def test_idle_and_full_buckets_are_not_in_the_set(rigs: Callable[..., Rig]) -> None:
    """A hundred hosts that wait with a full bucket, or have no work, cost the issuer nothing."""
    rig = rigs(interval_s=60.0)
    for number in range(100):
        rig.hosts.pause(f"idle{number}.example", paused=False)
    assert rig.client.zcard(rig.key("refill")) == 0
    rig.seed(*(f"http://h{number}.example/" for number in range(100)))
    assert rig.client.zcard(rig.key("refill")) == 0
    (due,) = rig.refill.due(rig.owned_to_issue, 10)
    assert (due.tokens, due.next_due_s) == ((), None)


def test_due_says_when_the_next_one_will_be(rigs: Callable[..., Rig]) -> None:
    """0 when the batch was full, else the seconds until the first that is not due yet."""
    rig = rigs(interval_s=60.0)
    rig.add(*(f"http://h{number}.example/" for number in range(3)))
    (due,) = rig.refill.due(rig.owned_to_issue, 2)
    assert (len(due.tokens), due.next_due_s) == (2, 0.0)
    (due,) = rig.refill.due(rig.owned_to_issue, 4)
    assert (len(due.tokens), due.next_due_s) == (3, None)

    rig.client.zadd(rig.key("refill"), {"h0.example": rig.now_us() + 30e6})
    (due,) = rig.refill.due(rig.owned_to_issue, 4)
    assert len(due.tokens) == 2
    assert 29 < (due.next_due_s or 0) <= 30


def test_postponed_buckets_are_due_later_with_their_fault(rig: Rig) -> None:
    """A bucket whose token could not be published waits, says why, and stops no other."""
    rig.add("http://bad.example/", "http://good.example/")
    (owned,) = rig.owned_to_issue
    before = rig.now_us()

    rig.refill.postpone(owned, ["bad.example", "unknown.example"], 30.0, "no\nright")

    assert rig.issue() == ["good.example"]
    assert before + 30e6 <= (rig.score("refill", "bad.example") or 0) <= rig.now_us() + 30e6
    assert rig.hosts.show(["bad.example"])[0].issue_fault == "no right"
    assert rig.record("unknown.example") == {}
    assert rig.issue("bad.example") == ["bad.example"]
    assert rig.hosts.show(["bad.example"])[0].issue_fault == ""


def test_a_former_issuer_issues_nothing(rig: Rig) -> None:
    """due, issued and postpone of an epoch that is over are refused and change nothing."""
    rig.add("http://a.example/")
    (old,) = foreign(rig.owned_to_issue)
    due_us = rig.score("refill", "a.example")

    with pytest.raises(Fenced):
        rig.refill.due([old], 10)
    with pytest.raises(Fenced):
        rig.refill.issued([(old, [("a.example", "")])])
    with pytest.raises(Fenced):
        rig.refill.postpone(old, ["a.example"], 30.0, "reason")

    assert rig.number("a.example", "tokens") == 0
    assert rig.score("refill", "a.example") == due_us


def test_the_dispatchers_lease_is_no_issuers_lease(rig: Rig) -> None:
    """Each role has its own lease: losing one does not touch the other."""
    rig.add("http://a.example/")
    rig.dispatching.leave()
    assert rig.issue() == ["a.example"]


def test_issued_with_nothing_to_mark_asks_nobody(rig: Rig) -> None:
    """A round without confirmed tokens needs no call."""
    rig.refill.issued([])
    rig.refill.issued([(rig.owned_to_issue[0], [])])


def test_an_issued_token_wakes_the_dispatcher(rig: Rig) -> None:
    """Whoever sleeps until a host may go hears that one may go now."""
    rig.robots_ok("http://a.example")
    rig.add(*pages("a.example", 2))
    with rig.client.pubsub() as heard:
        heard.psubscribe(rig.keys.wake_pattern("dispatch"))
        assert heard.get_message(timeout=2)["type"] == "psubscribe"
        rig.issue()
        message = heard.get_message(timeout=2)
        assert message["channel"].decode() == "test:{0}:wake:dispatch"
