"""Properties of a host's pace that hold for any answers, any limits and any times."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from throttle.frontier.paces import decode_pace, encode_pace
from throttle.model import Says
from throttle.pace import Limits, Pace, Seen, forgiven_at_s, interval_in_force, observe
from throttle.retry_after import LONGEST_S

DAY_S = 86_400.0

seconds = st.floats(0.001, 366 * DAY_S)
moments = st.floats(0, 1e10)
chances = st.floats(0, 1, exclude_max=True)
waits = st.one_of(st.none(), st.floats(0.001, LONGEST_S))
limits = st.builds(
    Limits,
    backoff_first_s=st.floats(0.001, DAY_S),
    backoff_cap_s=seconds,
    quiet_s=st.floats(0, 366 * DAY_S),
    retry_after_cap_s=seconds,
    jitter=st.floats(0, 1),
    breaker_failures=st.integers(1, 1000),
    breaker_first_s=st.floats(0.001, DAY_S),
    breaker_cap_s=seconds,
    refusals_in_a_row=st.integers(1, 1000),
    slow_factor=st.floats(0, 1000),
)
paces = st.builds(
    Pace,
    level=st.integers(0, 10**6),
    stepped_at_s=moments,
    paused_until_s=moments,
    failures=st.integers(0, 10**6),
    refusals=st.integers(0, 10**6),
    opened=st.integers(0, 10**6),
    opened_at_s=moments,
    answered=st.booleans(),
)
any_word = st.sampled_from(Says)


@st.composite
def answers(draw: st.DrawFn, says: st.SearchStrategy[Says] = any_word) -> Seen:
    """An answer of any kind that came after its request was made."""
    started_s, took_s = draw(moments), draw(st.floats(0, 7200))
    kind = draw(says)
    return Seen(kind, started_s, started_s + took_s, draw(waits), took_s)


@given(paces, answers(), limits, chances)
def test_pauses_are_finite_and_never_negative(
    pace: Pace, seen: Seen, bounds: Limits, chance: float
) -> None:
    """Whatever a host answers, it is neither parked for ever nor asked before its time, and no
    pause is longer than its cap and the spread of its end."""
    decision = observe(pace, seen, bounds, chance)
    spread = 1 + bounds.jitter
    slow_s = bounds.slow_factor * seen.elapsed_s
    cap_s = max(bounds.backoff_cap_s, bounds.retry_after_cap_s) * spread
    assert 0 <= decision.block_s <= max(cap_s, slow_s)
    assert 0 <= decision.breaker_s <= bounds.breaker_cap_s * spread
    assert all(math.isfinite(pause_s) for pause_s in (decision.block_s, decision.breaker_s))
    assert (decision.block_s > 0) == (decision.blocked_by is not None)
    assert min(decision.pace.level, decision.pace.failures, decision.pace.opened) >= 0


@given(paces, answers(), limits, chances)
def test_the_remembered_end_of_a_pause_only_moves_out(
    pace: Pace, seen: Seen, bounds: Limits, chance: float
) -> None:
    """No answer brings the end of a pause nearer, nor the moment when it is forgiven."""
    after = observe(pace, seen, bounds, chance).pace
    assert after.paused_until_s >= pace.paused_until_s
    assert forgiven_at_s(after, bounds) >= forgiven_at_s(pace, bounds)


asked_twice = st.tuples(st.floats(0.001, LONGEST_S), st.floats(0, LONGEST_S))


@given(paces, answers(), limits, chances, asked_twice)
def test_who_asks_for_more_gets_no_less(
    pace: Pace, seen: Seen, bounds: Limits, chance: float, asked: tuple[float, float]
) -> None:
    """The block is monotone in Retry-After, exact up to the cap, and flagged above it alone."""
    asked_s, more_s = asked
    short, long = (
        observe(pace, replace(seen, says=Says.THROTTLED, retry_after_s=s), bounds, chance)
        for s in (asked_s, asked_s + more_s)
    )
    assert short.block_s <= long.block_s
    assert short.block_s >= min(asked_s, bounds.retry_after_cap_s)
    assert short.capped == (asked_s > bounds.retry_after_cap_s)
    assert short.pace.level == pace.level


@given(
    paces,
    limits,
    moments,
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=20),
    st.sampled_from([Says.THROTTLED, Says.FAILED]),
)
def test_one_incident_is_one_step(
    pace: Pace,
    bounds: Limits,
    at_s: float,
    spans: list[tuple[float, float]],
    says: Says,
) -> None:
    """However many requests were in flight, and in whatever order they come back, those that
    started before the first bad answer came make one step and at most one opening."""
    first_s = at_s + 100
    after = pace
    for before_s, late_s in [(0.0, 0.0), *spans]:
        seen = Seen(says, first_s - 0.001 - before_s, first_s + late_s)
        after = observe(after, seen, bounds, 0.5).pace
    assert after.level <= max(pace.level + 1, 1)
    assert after.failures <= pace.failures + 1
    assert after.opened <= pace.opened + 1


@given(limits, chances, st.integers(1, 60))
def test_a_host_that_never_relents_is_asked_ever_more_rarely(
    bounds: Limits, chance: float, number: int
) -> None:
    """429 without a usable Retry-After to everything: no pause is shorter than the one before."""
    pace, now_s, last_s = Pace(), 1e6, 0.0
    bounds = replace(bounds, quiet_s=max(bounds.quiet_s, 10.0))
    for _ in range(number):
        seen = Seen(Says.THROTTLED, now_s, now_s + 1)
        decision = observe(pace, seen, bounds, chance)
        assert decision.block_s >= last_s
        pace, last_s = decision.pace, decision.block_s
        now_s += 1 + decision.block_s


@given(paces, answers(st.just(Says.GOOD)), limits, chances)
def test_a_late_good_answer_resets_nothing(
    pace: Pace, seen: Seen, bounds: Limits, chance: float
) -> None:
    """Back-off and breaker are as they were when its request is older than they are."""
    after = observe(pace, seen, bounds, chance).pace
    if seen.started_at_s < max(pace.stepped_at_s, pace.opened_at_s):
        assert after == replace(pace, answered=True, refusals=0)
    else:
        good = replace(pace, answered=True, refusals=0, failures=0, opened=0)
        assert after == replace(good, goods=pace.goods + 1)


@given(paces, answers(), limits, chances)
def test_only_refusals_stop_a_host(pace: Pace, seen: Seen, bounds: Limits, chance: float) -> None:
    """A host is given up on its own word alone: a first refusal, or the n-th in a row."""
    decision = observe(pace, seen, bounds, chance)
    if seen.says is Says.REFUSED:
        row = pace.refusals + 1 >= bounds.refusals_in_a_row
        assert decision.refused_us == (row or not pace.answered)
        assert decision.pace == replace(pace, refusals=pace.refusals + 1)
    elif seen.says is Says.ALIVE or (seen.says is Says.SILENT and not pace.opened):
        assert not decision.refused_us
        assert decision.pace.answered == pace.answered  # a robots.txt is no answer of a page
    else:
        assert not decision.refused_us
        assert (decision.pace.refusals, decision.pace.answered) == (0, True)


layers = st.one_of(st.none(), seconds)


@given(seconds, layers, layers)
def test_no_layer_makes_a_host_faster_than_it_may(
    default_s: float, operator_s: float | None, crawl_delay_s: float | None
) -> None:
    """Never faster than the operator (or, without one, the default) nor than robots.txt asks."""
    interval_s, source = interval_in_force(default_s, operator_s, crawl_delay_s)
    named = {"default": default_s, "operator": operator_s, "robots.txt": crawl_delay_s}
    assert interval_s == named[source]
    assert interval_s >= (default_s if operator_s is None else operator_s)
    assert crawl_delay_s is None or interval_s >= crawl_delay_s


@given(seconds, seconds, seconds)
def test_a_layer_that_is_taken_away_uncovers_the_one_beneath(
    default_s: float, operator_s: float, crawl_delay_s: float
) -> None:
    """Nothing of a layer stays behind once it is gone."""
    beneath = interval_in_force(default_s, None, None)
    assert beneath == (default_s, "default")
    assert interval_in_force(default_s, operator_s, None) == (operator_s, "operator")
    with_both = interval_in_force(default_s, operator_s, crawl_delay_s)
    assert with_both[0] == max(operator_s, crawl_delay_s)
    without = interval_in_force(default_s, None, crawl_delay_s)
    assert without[0] == max(default_s, crawl_delay_s)


@given(paces)
def test_a_stored_pace_comes_back_as_it_was(pace: Pace) -> None:
    """What Redis holds is the pace to the last digit, and nothing stored is a fresh one."""
    assert decode_pace(encode_pace(pace).encode()) == pace
    assert decode_pace(b"") == Pace()
