"""The pace of a host, answer by answer: back-off, breaker, refusals, and the layers beneath."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from throttle.model import BlockedBy, Says
from throttle.pace import (
    Decision,
    Limits,
    Pace,
    Seen,
    capped,
    forgiven_at_s,
    interval_in_force,
    observe,
)

GOOD, THROTTLED, FAILED, REFUSED = Says.GOOD, Says.THROTTLED, Says.FAILED, Says.REFUSED
EXACT = Limits(jitter=0.0)
START_S = 1_000_000.0


def answer(
    pace: Pace,
    says: Says,
    started_s: float,
    ended_s: float | None = None,
    *,
    limits: Limits = EXACT,
    retry_after_s: float | None = None,
    chance: float = 0.0,
) -> Decision:
    """What one answer changes; without `ended_s` it came a second after its start."""
    ended_s = started_s + 1 if ended_s is None else ended_s
    return observe(pace, Seen(says, started_s, ended_s, retry_after_s, 1.0), limits, chance)


def one_after_another(
    says: Iterable[Says],
    limits: Limits = EXACT,
    chance: float = 0.0,
    pace: Pace | None = None,
    now_s: float = START_S,
) -> list[Decision]:
    """Each request starts when the pauses that the answers before it made are over."""
    decisions: list[Decision] = []
    pace = pace or Pace()
    for word in says:
        decisions.append(answer(pace, word, now_s, limits=limits, chance=chance))
        pace = decisions[-1].pace
        now_s += 1 + max(decisions[-1].block_s, decisions[-1].breaker_s)
    return decisions


@pytest.mark.parametrize(
    ("default_s", "operator_s", "crawl_delay_s", "in_force"),
    [
        (2.0, None, None, (2.0, "default")),
        (2.0, 0.5, None, (0.5, "operator")),
        (2.0, 9.0, None, (9.0, "operator")),
        (2.0, None, 5.0, (5.0, "robots.txt")),
        (2.0, None, 1.0, (2.0, "default")),
        (2.0, None, 2.0, (2.0, "default")),
        (2.0, 0.5, 1.0, (1.0, "robots.txt")),
        (2.0, 9.0, 5.0, (9.0, "operator")),
        (2.0, 5.0, 5.0, (5.0, "operator")),
    ],
)
def test_robots_txt_only_slows_what_the_operator_replaces(
    default_s: float,
    operator_s: float | None,
    crawl_delay_s: float | None,
    in_force: tuple[float, str],
) -> None:
    """The operator's interval stands in for the default; a crawl delay counts where it is longer,
    and the source names who made it."""
    assert interval_in_force(default_s, operator_s, crawl_delay_s) == in_force


@pytest.mark.parametrize(
    ("asked_s", "applied"), [(59.9, (59.9, False)), (60.0, (60.0, False)), (60.1, (60.0, True))]
)
def test_a_cap_is_exact(asked_s: float, applied: tuple[float, bool]) -> None:
    """What is asked at the cap is given and not flagged; a hair above it is cut and flagged."""
    assert capped(asked_s, 60.0) == applied


@pytest.mark.parametrize(
    ("asked_s", "block_s", "is_capped"),
    [(120.0, 120.0, False), (86_400.0, 86_400.0, False), (86_400.5, 86_400.0, True)],
)
def test_retry_after_blocks_as_long_as_it_says(
    asked_s: float, block_s: float, is_capped: bool
) -> None:
    """Obeyed up to a day, and whoever asks for more is reported; it is no step of our own."""
    decision = answer(Pace(), THROTTLED, START_S, retry_after_s=asked_s)
    assert (decision.block_s, decision.capped) == (block_s, is_capped)
    assert (decision.blocked_by, decision.breaker_s) == (BlockedBy.RETRY_AFTER, 0.0)
    assert decision.pace.level == 0


def test_without_retry_after_the_block_doubles_up_to_the_cap() -> None:
    """10 s, 20 s, 40 s and so on up to a day: a host that says nothing usable (or 0, or a date in
    the past) is asked ever more rarely."""
    blocks = [decision.block_s for decision in one_after_another([THROTTLED] * 20)]
    assert blocks[:4] == [10.0, 20.0, 40.0, 80.0]
    assert blocks == [min(10.0 * 2**n, 86_400.0) for n in range(20)]


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_steps_grow_though_the_pauses_outgrow_the_quiet_time(chance: float) -> None:
    """A pause is no quiet time: it is not forgiven because it was spread to end a little later."""
    limits = Limits(quiet_s=10.0, backoff_cap_s=1e6)
    decisions = one_after_another([THROTTLED] * 15, limits, chance)
    assert [decision.pace.level for decision in decisions] == [*range(1, 16)]


def test_jitter_only_ever_lengthens() -> None:
    """Ends of pauses are spread by a tenth, to later: no host is asked before its time."""
    for chance, block_s in ((0.0, 10.0), (0.5, 10.5)):
        assert answer(Pace(), FAILED, START_S, limits=Limits(), chance=chance).block_s == block_s
    asked = answer(Pace(), THROTTLED, START_S, limits=Limits(), retry_after_s=100.0, chance=0.5)
    assert asked.block_s == 105.0


@pytest.mark.parametrize("says", [THROTTLED, FAILED])
def test_eight_bad_answers_in_flight_are_one_step(says: Says) -> None:
    """Requests under way when the first bad answer came belong to its incident: one step, not
    eight; the first request after it makes the second step."""
    pace = Pace()
    for number in range(8):
        pace = answer(pace, says, START_S + number / 10, START_S + 5 + number).pace
    assert (pace.level, pace.stepped_at_s) == (1, START_S + 5)
    assert pace.failures == (says is FAILED)
    assert answer(pace, says, START_S + 20).pace.level == 2
    assert answer(pace, says, pace.stepped_at_s).pace.level == 2
    assert answer(pace, says, pace.stepped_at_s - 0.001).pace.level == 1


def test_a_late_good_answer_resets_nothing() -> None:
    """A 200 of a request from before the trouble neither shortens, nor forgives, nor counts."""
    failing = one_after_another([FAILED] * 3)[-1].pace
    asked = answer(failing, THROTTLED, START_S + 500, retry_after_s=600.0).pace
    late = answer(asked, GOOD, START_S - 5, START_S + 600)
    assert late.pace == replace(asked, refusals=0, answered=True)
    assert (late.block_s, late.breaker_s) == (0.0, 0.0)


def test_a_good_answer_leaves_the_back_off_to_quiet_time() -> None:
    """It ends the row of failures, but the next trouble goes on where the last one stopped."""
    pace = one_after_another([THROTTLED, THROTTLED, FAILED, GOOD])[-1].pace
    assert (pace.level, pace.failures) == (3, 0)
    assert answer(pace, THROTTLED, START_S + 100).block_s == 80.0


@pytest.mark.parametrize(
    ("after_s", "level"), [(0.0, 3), (1799.0, 3), (1800.0, 3), (1800.5, 1), (9e9, 1)]
)
def test_quiet_time_counts_from_the_end_of_the_pause(after_s: float, level: int) -> None:
    """Half an hour without trouble after the pause is over forgives; the pause itself does not."""
    paused = one_after_another([THROTTLED, THROTTLED])[-1].pace
    assert paused.paused_until_s == paused.stepped_at_s + 20
    assert forgiven_at_s(paused, EXACT) == paused.stepped_at_s + 20 + 1800
    ended_s = paused.paused_until_s + after_s
    assert answer(paused, THROTTLED, ended_s - 0.5, ended_s).pace.level == level


def test_a_day_that_the_host_asked_for_is_no_quiet_time() -> None:
    """A host that throttles again after its Retry-After is over has earned nothing by it."""
    pace = one_after_another([THROTTLED] * 4)[-1].pace
    asked = answer(pace, THROTTLED, START_S + 200, retry_after_s=86_400.0)
    assert answer(asked.pace, THROTTLED, START_S + 202 + 86_400).pace.level == 5


def test_an_open_breaker_is_no_quiet_time() -> None:
    """A failed probe after a long cool-down takes the next step, not the first."""
    limits = replace(EXACT, breaker_failures=2, breaker_first_s=50_000.0)
    levels = [decision.pace.level for decision in one_after_another([FAILED] * 5, limits)]
    assert levels == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("failures", [1, 2, 5])
def test_the_breaker_opens_at_the_nth_failure_in_a_row(failures: int) -> None:
    """Not one sooner; each opening after a failed probe is twice as long, up to the cap."""
    limits = replace(EXACT, breaker_failures=failures, breaker_cap_s=200.0)
    decisions = one_after_another([FAILED] * (failures + 4), limits)
    opened = [decision.breaker_s for decision in decisions]
    assert opened == [*[0.0] * (failures - 1), 60.0, 120.0, 200.0, 200.0, 200.0]
    assert decisions[-1].pace.opened == 5


def test_a_good_answer_breaks_the_row_of_failures() -> None:
    """A site that fails now and then is slowed down, not shut off."""
    decisions = one_after_another([*[FAILED] * 4, GOOD] * 5)
    assert {decision.breaker_s for decision in decisions} == {0.0}


def test_being_throttled_is_no_failure() -> None:
    """429s alone never open the breaker: the back-off answers them."""
    decisions = one_after_another([THROTTLED] * 30)
    assert {(decision.breaker_s, decision.pace.opened) for decision in decisions} == {(0.0, 0)}


@pytest.fixture
def opened() -> Pace:
    """A pace whose breaker has just opened."""
    pace = one_after_another([FAILED] * 5)[-1].pace
    assert pace.opened == 1
    return pace


@pytest.mark.parametrize("says", [GOOD, FAILED, THROTTLED])
def test_a_late_answer_moves_no_breaker(opened: Pace, says: Says) -> None:
    """What was asked before the opening neither closes it nor opens it again."""
    late = answer(opened, says, opened.opened_at_s - 0.001, opened.opened_at_s + 500)
    assert (late.pace, late.breaker_s, late.block_s) == (opened, 0.0, 0.0)


def test_a_good_probe_closes_the_breaker(opened: Pace) -> None:
    """The first good answer to a request from after the opening; then five failures count anew."""
    closed = answer(opened, GOOD, opened.opened_at_s + 60)
    assert (closed.pace.opened, closed.pace.failures, closed.breaker_s) == (0, 0, 0.0)
    again = one_after_another([FAILED] * 5, pace=closed.pace, now_s=START_S + 9999)
    assert [decision.breaker_s for decision in again] == [0.0, 0.0, 0.0, 0.0, 60.0]


def test_a_probe_that_is_throttled_opens_the_breaker_again(opened: Pace) -> None:
    """Half open, every bad answer is a failed probe; one with Retry-After says itself how long,
    and the breaker stays half open."""
    plain = answer(opened, THROTTLED, opened.opened_at_s + 60)
    assert (plain.breaker_s, plain.pace.opened) == (120.0, 2)
    asked = answer(opened, THROTTLED, opened.opened_at_s + 60, retry_after_s=7.0)
    assert (asked.block_s, asked.breaker_s, asked.pace.opened) == (7.0, 0.0, 1)


def test_a_refusal_as_the_first_answer_stops_the_host() -> None:
    """A host that lets us see nothing at all does not want us."""
    assert answer(Pace(), REFUSED, START_S).refused_us


@pytest.mark.parametrize("first", [GOOD, THROTTLED, FAILED])
@pytest.mark.parametrize("row", [1, 2, 3, 7])
def test_a_row_of_refusals_stops_the_host(first: Says, row: int) -> None:
    """At the n-th in a row and not one sooner, whatever the host answered before."""
    limits = replace(EXACT, refusals_in_a_row=row)
    decisions = one_after_another([first, *[REFUSED] * row], limits)
    assert [decision.refused_us for decision in decisions] == [*[False] * row, True]
    assert [decision.block_s for decision in decisions[1:]] == [0.0] * row


@pytest.mark.parametrize("between", [GOOD, THROTTLED, FAILED])
def test_lone_refusals_are_of_pages_not_of_us(between: Says) -> None:
    """One or two forbidden pages among other answers change nothing, however many there are."""
    decisions = one_after_another([between, REFUSED, REFUSED] * 20, replace(EXACT, quiet_s=1e9))
    assert not any(decision.refused_us for decision in decisions)


def test_a_slow_answer_makes_a_pause_of_its_own_length() -> None:
    """With the factor set, a host that needs long is given as long to recover; else nothing."""
    slow = Seen(GOOD, START_S, START_S + 9, elapsed_s=8.0)
    assert observe(Pace(), slow, EXACT, 0.0).block_s == 0.0
    decision = observe(Pace(), slow, replace(EXACT, slow_factor=2.0), 0.0)
    assert (decision.block_s, decision.blocked_by) == (16.0, BlockedBy.SLOW_ANSWER)


def test_good_answers_forgive_step_by_step() -> None:
    """One broken page in five hundred costs a pause now and then, and never the whole crawl."""
    pace, now_s, paused_s = Pace(), 1e6, 0.0
    for number in range(1, 20_001):
        says = Says.FAILED if number % 500 == 0 else Says.GOOD
        decision = observe(pace, Seen(says, now_s, now_s + 0.1), Limits(), 0.0)
        pace, paused_s = decision.pace, paused_s + decision.block_s
        now_s += 2.0 + decision.block_s
    assert pace.level == 1
    assert paused_s == 40 * 10.0


def test_a_robots_txt_matters_to_an_open_breaker_only() -> None:
    """It closes a half-open breaker or opens it anew; otherwise it changes nothing."""
    closed = Pace(answered=True)
    for says in (Says.ALIVE, Says.SILENT):
        assert observe(closed, Seen(says, 10.0, 11.0), Limits(), 0.0) == Decision(closed)
    half_open = Pace(answered=True, opened=2, opened_at_s=5.0, stepped_at_s=5.0, failures=5)
    alive = observe(half_open, Seen(Says.ALIVE, 200.0, 201.0), Limits(), 0.0)
    assert (alive.pace.opened, alive.pace.failures) == (0, 0)
    silent = observe(half_open, Seen(Says.SILENT, 200.0, 201.0), Limits(), 0.0)
    assert silent.pace.opened == 3
    assert silent.breaker_s == 240.0
