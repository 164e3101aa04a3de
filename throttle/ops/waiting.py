"""Why a host waits, in plain words, from what is known of it at one moment."""

from collections.abc import Mapping

from throttle.durations import format_duration
from throttle.frontier.hosts import HostView
from throttle.model import BlockedBy

SILENT_S = 10.0
"""Seconds without a round after which beat, the dispatcher or the workers count as not running."""

_PROCESSES = (
    ("issuer", "beat, which issues the tokens (celery -A throttle beat)"),
    ("dispatcher", "a dispatcher (throttlectl dispatch)"),
)


def waits_for(view: HostView, ages: Mapping[str, float]) -> str:
    """What must happen before the host's next fetch, the first obstacle that a person can act on.

    `ages` are the seconds since each role's last round (`Census.ages`).
    """
    if view.paused:
        return "the operator, who paused it (throttlectl resume)"
    if view.refuses_us:
        return (
            f"a person, since it refuses us (throttlectl cases show {view.key}; cases close"
            f" {view.key} --resume --why TEXT lets it go on)"
        )
    if view.waiting + view.delayed == 0:
        return "nothing: no URLs wait"
    for role, process in _PROCESSES:
        if role not in ages:
            return f"{process}, never seen yet"
        if ages[role] > SILENT_S:
            return f"{process}, silent for {format_duration(ages[role])}"
    if view.issue_fault:
        return f"its token queue, which RabbitMQ refused: {view.issue_fault}"
    return (
        _only_later(view)
        or _breaker(view)
        or _robots(view)
        or _block(view)
        or _slot(view)
        or _token(view)
        or _clock(view)
        or "the dispatcher"
    )


def _only_later(view: HostView) -> str:
    """Delayed URLs, where they are all there is and nothing else holds the host longer."""
    due_s = view.next_delayed_s
    if view.waiting or due_s is None:
        return ""
    held_s = max(view.blocked_until_s, view.breaker_until_s, view.clock_opens_s)
    if due_s <= max(view.now_s, held_s):
        return ""
    return f"its delayed URLs ({_in(view, due_s, 'the first is due')})"


def _robots(view: HostView) -> str:
    """robots.txt, where no origin of the host may be fetched from without it."""
    held = {
        origin: record
        for origin, record in view.robots.items()
        if record.state != "ok" and record.until_s > view.now_s
    }
    if not view.waiting or not held or len(held) < len(view.robots):
        return ""
    origin, record = min(held.items(), key=lambda pair: pair[1].until_s)
    if record.state == "unreachable":
        again = _in(view, record.until_s, "asked for again")
        why = f": {view.robots_fault}" if view.robots_fault else ""
        return f"{origin}/robots.txt, which cannot be had{why} ({again})"
    return f"the answer to {origin}/robots.txt"


def _breaker(view: HostView) -> str:
    """An open breaker, unless a block outlasts it."""
    if view.breaker != "open" or view.breaker_until_s < view.blocked_until_s:
        return ""
    probe = _in(view, view.breaker_until_s, "one probe goes")
    return f"its breaker, open after {view.pace.failures} failures in a row ({probe})"


def _block(view: HostView) -> str:
    if view.blocked_until_s <= view.now_s:
        return ""
    over = _in(view, view.blocked_until_s, "over")
    match view.blocked_by:
        case BlockedBy.OPERATOR:
            return f"the end of the operator's block ({over}; throttlectl resume --unblock)"
        case BlockedBy.RETRY_AFTER:
            return f"the end of the Retry-After that it sent ({over})"
        case BlockedBy.BACK_OFF:
            return f"the end of its back-off, step {view.pace.level} ({over})"
        case BlockedBy.SLOW_ANSWER:
            return f"the end of the pause after a slow answer ({over})"
        case None:
            return f"the end of its block ({over})"


def _slot(view: HostView) -> str:
    if view.in_flight < view.concurrency:
        return ""
    if view.breaker == "half-open":
        return "the answer to the one probe of its half-open breaker"
    return f"a fetch under way to end ({view.in_flight} of {view.concurrency})"


def _token(view: HostView) -> str:
    if view.tokens >= 1:
        return ""
    due_s = view.refill_at_s
    if due_s is None:
        return "a token"
    return f"a token ({_in(view, due_s, 'due')})"


def _clock(view: HostView) -> str:
    if view.clock_opens_s <= view.now_s:
        return ""
    return f"its clock ({_in(view, view.clock_opens_s, 'opens')})"


def _in(view: HostView, at_s: float, what: str) -> str:
    left_s = at_s - view.now_s
    return f"{what} in {format_duration(left_s)}" if left_s > 0 else f"{what} now"
