"""Closing a visit: the answer changes the pace once, decided anew when another one came first."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.scripts.frontier import Rig, pages
from throttle.crawl.closing import Closing
from throttle.frontier.paces import decode_pace
from throttle.frontier.startgate import Finished, PaceChange, Started, StartGate
from throttle.model import Case, End, Outcome, Says
from throttle.pace import Limits

A = "a.example"
NOW = datetime(2026, 11, 6, 8, 47, 37, tzinfo=UTC)
LIMITS = Limits(jitter=0.0, retry_after_cap_s=60.0)

THROTTLED = Outcome(End.BACK, "throttled", "HTTP 429", says=Says.THROTTLED)
FAILED = Outcome(End.AGAIN, "transient", "HTTP 500", says=Says.FAILED)
GOOD = Outcome(End.DONE, "done", says=Says.GOOD)
REFUSED = Outcome(End.REFUSED, "refused", "HTTP 403", says=Says.REFUSED)
SILENT = Outcome(End.REFUSED, "disallowed", "robots.txt disallows it")


@pytest.fixture
def wide(rigs: Callable[..., Rig]) -> Rig:
    """A frontier whose hosts may have eight requests in flight."""
    rig = rigs(interval_s=0.001, burst=8, concurrency=8)
    rig.seed(*pages(A, 20))
    return rig


def closing(gate: StartGate, limits: Limits = LIMITS) -> Closing:
    """What a worker closes its visits with."""
    return Closing(gate, limits, chance=lambda: 0.0, now=lambda: NOW)


def started(rig: Rig, count: int = 1) -> list[Started]:
    """`count` started grants of the host at once."""
    made = []
    for number in range(count):
        rig.client.hset(rig.keys.of_host(A, "host"), "tokens", 8)
        rig.open_clock(A)
        made.append(rig.go(rig.claim_one(), f"request {number}"))
        assert rig.gate.sent(made[-1], made[-1].now_s)
    return made


def close(rig: Rig, one: Started, outcome: Outcome, took_s: float = 0.5) -> bool:
    """Closes a visit whose request went out at once and whose answer took `took_s`."""
    ended_s = one.now_s + took_s
    return closing(rig.gate).close(one, outcome, wire_s=one.now_s, ended_s=ended_s)


def left_s(rig: Rig) -> float:
    """How long the host's block still lasts."""
    view = rig.hosts.show([A])[0]
    return view.blocked_until_s - view.now_s


def test_eight_throttled_answers_in_flight_are_one_step(wide: Rig) -> None:
    """Whatever order they close in, the host is slowed down by one step, and each URL is back."""
    taken = started(wide, 8)
    for number, one in enumerate(taken):
        assert close(wide, one, THROTTLED, took_s=2.0 + number)
    assert decode_pace(wide.stored_pace(A)).level == 1
    assert 9 < left_s(wide) <= 10
    count = wide.audited()
    assert (count.waiting, count.in_flight) == (20, 0)


class Rushed(StartGate):
    """A gate at which other answers of the host are finished just before this one."""

    others: list[tuple[Started, Outcome]]
    seen: list[PaceChange]

    def finish(
        self,
        started: Started,
        outcome: Outcome,
        wire_s: float | None,
        change: PaceChange | None = None,
        case: Case | None = None,
    ) -> Finished:
        """Lets another answer go first, while there is one."""
        assert change is not None
        self.seen.append(change)
        if self.others:
            other, word = self.others.pop()
            calm = StartGate(self._scripts, self._keys, worker="other", start_ttl_s=60)
            ended_s = other.now_s + 30
            assert closing(calm).close(other, word, wire_s=other.now_s, ended_s=ended_s)
        return super().finish(started, outcome, wire_s, change, case)


def test_an_answer_that_comes_second_is_decided_anew(wide: Rig) -> None:
    """However often another one is first, this one's change is made from what stands then: no
    step is lost and none is made twice."""
    one, *others = started(wide, 4)
    words = [replace(THROTTLED, retry_after_s=s) for s in (50.0, 40.0)]
    gate = Rushed(wide.scripts, wide.keys, worker="worker", start_ttl_s=60)
    gate.others, gate.seen = list(zip(others, [*words, FAILED], strict=True)), []

    ended_s = one.now_s + 1
    assert closing(gate).close(one, FAILED, wire_s=one.now_s, ended_s=ended_s)

    assert len({change.made_from for change in gate.seen}) == len(gate.seen) == 4
    pace = decode_pace(wide.stored_pace(A))
    assert (pace.level, pace.failures) == (1, 1)
    assert pace.paused_until_s == pytest.approx(others[0].now_s + 30 + 50)
    assert wide.audited().in_flight == 0


def test_what_says_nothing_of_the_host_changes_no_pace(wide: Rig) -> None:
    """A URL that we refused ourselves leaves its host as it was."""
    (one,) = started(wide)
    assert close(wide, one, SILENT)
    assert wide.stored_pace(A) == b""
    assert wide.audited().refused == 1


def test_a_visit_is_closed_once(wide: Rig) -> None:
    """The second time it is over, whatever the pace is by then."""
    (one,) = started(wide)
    assert close(wide, one, THROTTLED)
    pace = wide.stored_pace(A)
    assert not close(wide, one, THROTTLED)
    assert wide.stored_pace(A) == pace


def test_a_slow_answer_is_measured_from_the_wire(wide: Rig) -> None:
    """The pause is a multiple of what the host took, not of what we waited for before."""
    one, two = started(wide, 2)
    ended_s = one.now_s + 5.0
    slow = closing(wide.gate, replace(LIMITS, slow_factor=2.0))
    slow.close(one, GOOD, wire_s=ended_s - 1.0, ended_s=ended_s)
    assert 1.5 < left_s(wide) <= 2.0
    slow.close(two, GOOD, wire_s=None, ended_s=two.now_s + 500)
    assert left_s(wide) <= 2.0


@pytest.mark.parametrize(("asked_s", "has_case"), [(60.0, False), (60.001, True), (7200, True)])
def test_a_retry_after_above_the_cap_opens_a_case(
    wide: Rig, asked_s: float, has_case: bool
) -> None:
    """It says what the host asked for and what is applied; at the cap there is nothing to say."""
    (one,) = started(wide)
    close(wide, one, replace(THROTTLED, retry_after_s=asked_s))
    assert 59 < left_s(wide) <= 60
    cases = list(wide.cases.open())
    assert [(case.kind, case.host, case.url) for case in cases] == (
        [("retry_after_capped", A, one.entry.url)] if has_case else []
    )
    if asked_s == 7200:
        assert cases[0].reason == "Retry-After asks for 2h; applied is the cap, 1m"


def test_a_refusal_stops_the_host_with_a_case(wide: Rig) -> None:
    """The first answer of all is 403: the host stops, and the case says how to let it go."""
    (one,) = started(wide)
    close(wide, one, REFUSED)
    assert wide.hosts.show([A])[0].refuses_us
    (case,) = wide.cases.open()
    assert case == Case("refused", A, one.entry.url, case.reason, NOW.isoformat())
    assert case.reason.startswith("HTTP 403: the host refuses us")
    assert "--resume" in case.reason


def test_lone_refusals_among_good_answers_stop_nothing(wide: Rig) -> None:
    """A forbidden page is the page's matter; the third in a row is the host's."""
    for outcome in (GOOD, REFUSED, REFUSED, GOOD, REFUSED, REFUSED):
        (one,) = started(wide)
        close(wide, one, outcome, took_s=0.0)
    assert not wide.hosts.show([A])[0].refuses_us
    (one,) = started(wide)
    close(wide, one, REFUSED, took_s=0.0)
    assert wide.hosts.show([A])[0].refuses_us


def test_a_good_probe_closes_the_breaker(wide: Rig) -> None:
    """Five failures open it; a good answer from before does not close it, one from after does."""
    late, *failing = started(wide, 2)
    for number in range(5):
        one = failing.pop() if failing else started(wide)[0]
        close(wide, one, FAILED, took_s=0.0)
        pace = decode_pace(wide.stored_pace(A))
        assert pace.opened == (number == 4)
        wide.client.hset(wide.keys.of_host(A, "host"), mapping={"block_us": 0, "breaker_us": 0})
    close(wide, late, GOOD, took_s=60.0)
    assert decode_pace(wide.stored_pace(A)).opened == 1
    (probe,) = started(wide)
    close(wide, probe, GOOD, took_s=0.0)
    assert decode_pace(wide.stored_pace(A)).opened == 0
    assert wide.hosts.show([A])[0].concurrency == 8
