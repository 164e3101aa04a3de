"""Tells when waiting is over: nothing that is left can come to an end before long."""

import math
from collections.abc import Iterable

from throttle.frontier.hosts import HostView

HOPELESS = 3
"""Failures in a row after which a robots.txt that cannot be reached is not waited for."""


def worth_waiting(views: Iterable[HostView], patience_s: float) -> bool:
    """Whether any of the hosts with URLs left may go on within `patience_s` seconds."""
    return any(
        standstill_s(view) <= patience_s
        for view in views
        if view.waiting + view.delayed + view.in_flight
    )


def standstill_s(view: HostView) -> float:
    """Seconds in which nothing of the host can happen; infinite where a person must act first.

    What counts is what holds the host up: a block, a breaker, a delay of its URLs, a robots.txt.
    Its own pace does not: a slow host goes on. A robots.txt that was unreachable three times in a
    row counts as infinite.
    """
    if view.in_flight:
        return 0.0
    if view.paused or view.refuses_us:
        return math.inf
    lanes_s = _lanes_s(view) if view.waiting else math.inf
    delayed_s = math.inf if view.next_delayed_s is None else view.next_delayed_s
    until_s = max(min(lanes_s, delayed_s), view.blocked_until_s, view.breaker_until_s)
    return max(0.0, until_s - view.now_s)


def _lanes_s(view: HostView) -> float:
    """When the first of its waiting URLs may be taken (Redis time)."""
    if view.held_until_s <= view.now_s:
        return 0.0
    held = [one for one in view.robots.values() if one.state != "ok" and one.until_s > view.now_s]
    if any(one.state == "asked" for one in held):
        # Its answer may come at any moment, wherever a redirect has led.
        return 0.0
    if held and all(one.failures >= HOPELESS for one in held):
        return math.inf
    return view.held_until_s
