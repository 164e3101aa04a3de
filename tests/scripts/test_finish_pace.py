"""finish with a change of the pace: stored once, from what it was made from, and obeyed at once."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.scripts.frontier import Rig, a_case, pages
from throttle.errors import FrontierError
from throttle.frontier.paces import decode_pace, encode_pace
from throttle.frontier.startgate import Finished, Reply, Started
from throttle.local.servers import PrivateRedis
from throttle.model import BlockedBy, End
from throttle.pace import Decision, Pace

A = "a.example"


@pytest.fixture
def wide(rigs: Callable[..., Rig]) -> Rig:
    """A frontier whose hosts may have eight requests in flight, one a millisecond."""
    rig = rigs(interval_s=0.001, burst=8, concurrency=8)
    rig.seed(*pages(A, 20))
    return rig


def started(rig: Rig, count: int) -> list[Started]:
    """`count` started grants of the host at once."""
    made = []
    for number in range(count):
        rig.client.hset(rig.keys.of_host(A, "host"), "tokens", 8)
        rig.open_clock(A)
        made.append(rig.go(rig.claim_one(), f"request {number}"))
        assert rig.gate.sent(made[-1], made[-1].now_s)
    return made


def goes(rig: Rig) -> int:
    """How many URLs the host gives though tokens lie ready and its clock is open."""
    rig.client.hset(rig.keys.of_host(A, "host"), "tokens", 8)
    rig.open_clock(A)
    claimed = 0
    while grants := rig.claim():
        claimed += len(grants)
    return claimed


def test_the_gate_tells_the_pace_that_stands(wide: Rig) -> None:
    """A worker decides from what Redis holds; a host without a pace has an empty one."""
    one, two = started(wide, 2)
    assert one.pace == b""
    change = wide.change(A, opened=3)
    assert wide.answer(one, change=change) == Finished(closed=True)
    assert wide.stored_pace(A) == encode_pace(Pace(opened=3)).encode()
    wide.answer(two)
    assert decode_pace(started(wide, 1)[0].pace) == Pace(opened=3)


def test_a_change_made_from_an_old_pace_is_a_conflict(wide: Rig) -> None:
    """Nothing is changed or closed; the reply holds the pace to decide from, and then it goes."""
    one, two = started(wide, 2)
    first = wide.change(A, opened=1, block_s=60, breaker_s=60)
    second = wide.change(A, opened=2, block_s=999, refused_us=True, case=a_case())
    assert wide.answer(one, change=first).closed
    record = wide.record(A)

    reply = wide.answer(two, change=second)

    assert reply == Finished(closed=False, conflict=wide.stored_pace(A))
    assert wide.record(A) == record
    assert list(wide.cases.open()) == []
    assert wide.audited().in_flight == 1
    again = replace(second, made_from=reply.conflict or b"")
    assert wide.answer(two, change=again) == Finished(closed=True)
    assert wide.stored_pace(A) == encode_pace(Pace(opened=2)).encode()
    assert wide.audited().in_flight == 0


def test_an_answer_that_says_nothing_has_no_conflict(wide: Rig) -> None:
    """A fetch that tells nothing of its host closes whatever the pace is by now, and keeps it."""
    one, two = started(wide, 2)
    wide.answer(one, change=wide.change(A, opened=1))
    pace = wide.stored_pace(A)
    assert wide.answer(two) == Finished(closed=True)
    assert wide.stored_pace(A) == pace
    assert wide.number(A, "opened") == 1


def test_a_grant_that_is_over_is_stale_and_no_conflict(wide: Rig) -> None:
    """Repeated after a lost reply, a finish changes nothing: it is over, not to be decided anew."""
    (one,) = started(wide, 1)
    change = wide.change(A, opened=1, block_s=1)
    assert wide.answer(one, change=change).closed
    record = wide.record(A)
    assert wide.answer(one, change=change) == Finished(closed=False)
    assert wide.record(A) == record


def test_a_pace_without_a_pause_blocks_nothing(wide: Rig) -> None:
    """A good answer is remembered, and no more than that."""
    (one,) = started(wide, 1)
    wide.answer(one, change=wide.change(A))
    assert wide.stored_pace(A) == encode_pace(Pace()).encode()
    view = wide.hosts.show([A])[0]
    assert (view.blocked_until_s, view.breaker_until_s, view.blocked_by) == (0.0, 0.0, None)
    assert not view.refuses_us
    assert goes(wide) == 8


def test_the_cause_is_that_of_the_longest_block(wide: Rig) -> None:
    """What a person reads is why the host is blocked until then, not what came last."""
    one, two, three = started(wide, 3)
    for grant, block_s, cause in (
        (one, 60, BlockedBy.BACK_OFF),
        (two, 30, BlockedBy.SLOW_ANSWER),
        (three, 90, BlockedBy.RETRY_AFTER),
    ):
        change = wide.change(A)
        decision = Decision(change.decision.pace, block_s, cause)
        wide.answer(grant, change=replace(change, decision=decision))
        expected = BlockedBy.BACK_OFF if grant is not three else cause
        assert wide.hosts.show([A])[0].blocked_by is expected


def test_a_case_is_open_once_per_host_and_kind(wide: Rig) -> None:
    """However often it happens, a person reads it once, as it was the first time."""
    one, two, three = started(wide, 3)
    wide.answer(one, change=wide.change(A, case=a_case(reason="first")))
    wide.answer(two, change=wide.change(A, case=a_case(reason="second")))
    wide.answer(three, change=wide.change(A, case=a_case("retry_after_capped", reason="third")))

    found = {(case.kind, case.reason) for case in wide.cases.open(A)}
    assert found == {("refused", "first"), ("retry_after_capped", "third")}
    assert sum(wide.cases.count_by_kind().values()) == 2
    assert list(wide.cases.open("b.example")) == []


def test_with_the_breaker_half_open_one_request_is_in_flight(wide: Rig) -> None:
    """Concurrency 8 and a full bucket: one probe, and the next one only after its end."""
    (one,) = started(wide, 1)
    wide.answer(one, End.AGAIN, change=wide.change(A, opened=1))

    assert wide.hosts.show([A])[0].concurrency == 1
    (probe,) = started(wide, 1)
    assert goes(wide) == 0
    assert wide.score("ready", A) is None
    wide.answer(probe, End.AGAIN, change=wide.change(A, opened=2))
    (probe,) = started(wide, 1)
    assert goes(wide) == 0

    wide.answer(probe, change=wide.change(A, opened=0))
    assert "opened" not in wide.record(A)
    assert goes(wide) == 8


def test_of_grants_from_before_the_opening_one_is_the_probe(wide: Rig) -> None:
    """Messages that lay in the crawl queue meanwhile do not all start when the breaker's time is
    over: the others go back."""
    (one,) = started(wide, 1)
    wide.open_clock(A)
    late = [wide.claim_one() for _ in range(3)]
    wide.answer(one, End.AGAIN, change=wide.change(A, opened=1))
    wide.open_clock(A)
    assert [wide.start(grant)[0] for grant in late] == [Reply.EARLY, Reply.EARLY, Reply.GO]
    assert wide.audited().in_flight == 1


def test_a_closed_breaker_opens_all_slots_at_once(wide: Rig) -> None:
    """Requests that were in flight before the opening do not keep a mended host waiting."""
    one, two, three = started(wide, 3)
    wide.answer(one, End.AGAIN, change=wide.change(A, opened=1))
    wide.client.hset(wide.keys.of_host(A, "host"), "tokens", 8)
    wide.answer(two, change=wide.change(A, opened=0))
    assert wide.score("ready", A) is not None
    assert goes(wide) == 7
    wide.answer(three)


def test_an_open_breaker_holds_claims_and_starts(wide: Rig) -> None:
    """Until its time is over nothing is claimed, and what was claimed before goes back."""
    (one,) = started(wide, 1)
    wide.open_clock(A)
    before = wide.claim_one()
    wide.answer(one, End.AGAIN, change=wide.change(A, opened=1, breaker_s=0.2))
    opens_us = wide.number(A, "breaker_us")

    assert wide.start(before) == (Reply.EARLY, None)
    assert goes(wide) == 0
    assert wide.score("ready", A) == opens_us
    assert wide.hosts.show([A])[0].breaker_until_s == opens_us / 1e6
    wide.pass_until(opens_us)
    assert wide.start(wide.claim_one())[0] is Reply.GO


def test_a_host_that_refuses_us_is_never_claimed(wide: Rig) -> None:
    """Whatever happens to it: new URLs, tokens, robots.txt, a pause and a resume, an unblock."""
    (one,) = started(wide, 1)
    wide.open_clock(A)
    before = wide.claim_one()
    wide.answer(one, End.REFUSED, change=wide.change(A, refused_us=True, case=a_case()))

    assert wide.start(before) == (Reply.EARLY, None)
    assert wide.score("ready", A) is None
    wide.add(f"http://{A}/more")
    wide.robots_ok(f"http://{A}")
    wide.issue(A)
    wide.hosts.unblock(A)
    wide.hosts.pause(A, paused=True)
    assert goes(wide) == 0
    wide.client.zadd(wide.key("ready"), {A: 0})
    assert wide.claim() == []
    assert wide.hosts.show([A])[0].refuses_us
    wide.audited()


def test_a_full_redis_still_lets_fetches_end(
    own_redis: PrivateRedis, rigs: Callable[..., Rig]
) -> None:
    """With maxmemory reached what is in flight comes to its end, with pace, case and delayed URL;
    what is new is refused by name."""
    rig = rigs(own_redis.url, burst=4, concurrency=4)
    rig.seed(*pages(A, 20))
    taken = started(rig, 4)
    change = rig.change(A, opened=1, block_s=60, breaker_s=60, case=a_case())
    rig.client.config_set("maxmemory", 1)
    with pytest.raises(FrontierError, match="is full"):
        rig.add("http://b.example/new")

    assert rig.answer(taken[0], End.DEAD, change=change).closed
    assert rig.answer(taken[1], End.DONE).closed
    assert rig.answer(taken[2], End.BACK).closed
    assert rig.finish(taken[3], End.AGAIN, wire_s=taken[3].now_s, delay_s=60)

    count = rig.audited()
    assert (count.done, count.dead, count.waiting, count.delayed) == (1, 1, 17, 1)
    assert sum(rig.cases.count_by_kind().values()) == 1
    assert rig.number(A, "opened") == 1
    rig.client.config_set("maxmemory", 0)
    assert len(rig.add("http://b.example/new")) == 1
