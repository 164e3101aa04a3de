"""The pace of one host: what each answer does to its back-off, its breaker and its block.

Pure: state and one observation in, the next state and what to store out. Redis keeps the state; the
start gate and the schedule obey what was stored.
"""

from dataclasses import dataclass, replace

from throttle.model import BlockedBy, Says

_MOST_DOUBLINGS = 40


@dataclass(frozen=True, slots=True)
class Limits:
    """The crawl's own bounds; times are seconds, `jitter` a share of 1.

    Each `forgiving_answers` good answers since the last step take one step back.
    `slow_factor` times the response time is the least pause after a slow answer (0: off).
    """

    backoff_first_s: float = 10.0
    backoff_cap_s: float = 86_400.0
    quiet_s: float = 1800.0
    forgiving_answers: int = 10
    retry_after_cap_s: float = 86_400.0
    jitter: float = 0.1
    breaker_failures: int = 5
    breaker_first_s: float = 60.0
    breaker_cap_s: float = 86_400.0
    refusals_in_a_row: int = 3
    slow_factor: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """What is remembered of a host's answers. Moments are Redis time in seconds.

    `level` counts back-off steps, the last taken at `stepped_at_s`; `paused_until_s` is when the
    last pause ends, from where quiet time counts; `failures` and `refusals` are in a row; `opened`
    counts openings of the breaker since it was last closed, the last at `opened_at_s`; `answered`
    is set by the first answer that was no refusal, `goods` counts good answers since the last step,
    `throttled` answers in a row that turned us away, each of an incident of its own.
    """

    level: int = 0
    stepped_at_s: float = 0.0
    paused_until_s: float = 0.0
    failures: int = 0
    refusals: int = 0
    opened: int = 0
    opened_at_s: float = 0.0
    answered: bool = False
    goods: int = 0
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer: what it says, and when its request started and ended (Redis time, seconds).

    `retry_after_s` is a usable Retry-After, None without one; `elapsed_s` is from the request's
    last byte to the answer's.
    """

    says: Says
    started_at_s: float
    ended_at_s: float
    retry_after_s: float | None = None
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """The next state, and what to store: pauses in seconds from the answer's end, 0 for none.

    `block_s` only ever extends what stands, and `blocked_by` is its cause. `breaker_s` opens the
    breaker for so long. `refused_us` stops the host until a person says otherwise. `capped` tells
    that the site asked for more than the cap.
    """

    pace: Pace
    block_s: float = 0.0
    blocked_by: BlockedBy | None = None
    breaker_s: float = 0.0
    refused_us: bool = False
    capped: bool = False


def interval_in_force(
    default_s: float, operator_s: float | None, crawl_delay_s: float | None
) -> tuple[float, str]:
    """The interval of a host and the layer it comes from.

    The operator's replaces the default, slower or faster; robots.txt can only slow the result.
    """
    interval_s, source = (default_s, "default") if operator_s is None else (operator_s, "operator")
    if crawl_delay_s is not None and crawl_delay_s > interval_s:
        return crawl_delay_s, "robots.txt"
    return interval_s, source


def capped(asked_s: float, cap_s: float) -> tuple[float, bool]:
    """What of `asked_s` is applied, and whether that is less; a value at the cap is not capped."""
    return min(asked_s, cap_s), asked_s > cap_s


def forgiven_at_s(pace: Pace, limits: Limits) -> float:
    """When the back-off starts anew at its first step: the last pause and a quiet time later."""
    return pace.paused_until_s + limits.quiet_s


def observe(pace: Pace, seen: Seen, limits: Limits, chance: float) -> Decision:
    """What one answer changes. `chance` in [0, 1) spreads the ends of pauses.

    An answer to a request that was under way when the host was slowed down before belongs to that
    same incident: it takes no further step.
    """
    if seen.says is Says.REFUSED:
        return _refused(pace, limits)
    if seen.says is Says.GOOD:
        return _good(pace, seen, limits)
    if seen.says is Says.ALIVE:
        return Decision(_recovered(pace, seen))
    if seen.says is Says.SILENT and not pace.opened:
        return Decision(pace)
    answered = replace(pace, answered=True, refusals=0)
    if seen.says is Says.THROTTLED and not _is_late(pace, seen):
        answered = replace(answered, throttled=pace.throttled + 1)
    if seen.says is Says.THROTTLED and seen.retry_after_s is not None:
        asked_s, is_capped = capped(seen.retry_after_s, limits.retry_after_cap_s)
        pause_s = asked_s * (1 + limits.jitter * chance)
        paused = _paused(answered, seen, pause_s)
        return Decision(paused, pause_s, BlockedBy.RETRY_AFTER, capped=is_capped)
    return _slowed(answered, seen, limits, chance)


def _refused(pace: Pace, limits: Limits) -> Decision:
    """A run of refusals, or one as the host's first answer, is a refusal of us."""
    refusals = pace.refusals + 1
    of_us = refusals >= limits.refusals_in_a_row or not pace.answered
    return Decision(replace(pace, refusals=refusals), refused_us=of_us)


def _good(pace: Pace, seen: Seen, limits: Limits) -> Decision:
    """Closes the breaker only if the request was made after it opened: it was the probe.

    Nor does a request from before the last failure end the row of failures.
    """
    pause_s = limits.slow_factor * seen.elapsed_s
    closed = _recovered(replace(pace, answered=True, refusals=0), seen)
    if not _is_late(pace, seen):
        closed = replace(closed, goods=pace.goods + 1, throttled=0)
    return Decision(closed, pause_s, BlockedBy.SLOW_ANSWER if pause_s > 0 else None)


def _recovered(pace: Pace, seen: Seen) -> Pace:
    return pace if _is_late(pace, seen) else replace(pace, failures=0, opened=0)


def _is_late(pace: Pace, seen: Seen) -> bool:
    """Whether the request was under way when the host was last slowed down."""
    return seen.started_at_s < max(pace.stepped_at_s, pace.opened_at_s)


def _slowed(pace: Pace, seen: Seen, limits: Limits, chance: float) -> Decision:
    if _is_late(pace, seen):
        return Decision(pace)
    is_forgiven = seen.ended_at_s > forgiven_at_s(pace, limits)
    level = 1 if is_forgiven else max(0, pace.level - pace.goods // limits.forgiving_answers) + 1
    failures = pace.failures + (seen.says is not Says.THROTTLED)
    slowed = replace(pace, level=level, stepped_at_s=seen.ended_at_s, failures=failures, goods=0)
    spread = 1 + limits.jitter * chance
    block_s = _doubled(limits.backoff_first_s, level - 1, limits.backoff_cap_s) * spread
    is_probe = pace.opened > 0
    if not is_probe and failures < limits.breaker_failures:
        return Decision(_paused(slowed, seen, block_s), block_s, BlockedBy.BACK_OFF)
    open_s = _doubled(limits.breaker_first_s, pace.opened, limits.breaker_cap_s) * spread
    opened = replace(slowed, opened=pace.opened + 1, opened_at_s=seen.ended_at_s)
    paused = _paused(opened, seen, max(block_s, open_s))
    return Decision(paused, block_s, BlockedBy.BACK_OFF, breaker_s=open_s)


def _paused(pace: Pace, seen: Seen, pause_s: float) -> Pace:
    until_s = max(pace.paused_until_s, seen.ended_at_s + pause_s)
    return replace(pace, paused_until_s=until_s)


def _doubled(first_s: float, times: int, cap_s: float) -> float:
    return min(first_s * 2.0 ** min(times, _MOST_DOUBLINGS), cap_s)
