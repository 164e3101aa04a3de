"""When waiting is over: what holds a host up counts, its own pace does not."""

import math
from dataclasses import replace
from typing import Any

import pytest

from throttle.frontier.hosts import HostView
from throttle.frontier.rules import RobotsRecord
from throttle.ops.patience import standstill_s, worth_waiting
from throttle.pace import Pace

NOW_S = 1000.0
PATIENCE_S = 60.0

SLOW = HostView(
    key="a.example",
    now_s=NOW_S,
    interval_s=3600.0,
    interval_source="robots.txt",
    default_s=2.0,
    operator_s=None,
    crawl_delay_asked_s=3600.0,
    crawl_delay_s=3600.0,
    burst=1,
    concurrency=1,
    tokens=0,
    waiting=1,
    delayed=0,
    in_flight=0,
    done=1,
    refused=0,
    dead=0,
    full=0,
    clock_opens_s=NOW_S + 3600,
    blocked_until_s=0.0,
    breaker_until_s=0.0,
    pace=Pace(),
    refuses_us=False,
    paused=False,
    ready_at_s=None,
    refill_at_s=NOW_S + 3600,
    next_delayed_s=None,
    issue_fault="",
    robots={},
)


def unreachable(failures: int, *, in_s: float = 30.0, state: str = "unreachable") -> dict[str, Any]:
    """A host that is held by its only robots.txt."""
    record = RobotsRecord(state, NOW_S + in_s, failures)
    return {"robots": {"http://a.example": record}, "held_until_s": NOW_S + in_s}


@pytest.mark.parametrize(
    ("changes", "standstill"),
    [
        ({}, 0.0),
        ({"in_flight": 1, "paused": True}, 0.0),
        ({"paused": True}, math.inf),
        ({"refuses_us": True}, math.inf),
        ({"blocked_until_s": NOW_S + 61}, 61.0),
        ({"breaker_until_s": NOW_S + 10, "blocked_until_s": NOW_S + 5}, 10.0),
        ({"waiting": 0, "delayed": 1, "next_delayed_s": NOW_S + 90}, 90.0),
        ({"delayed": 1, "next_delayed_s": NOW_S + 90}, 0.0),
        (unreachable(2), 30.0),
        (unreachable(2, in_s=-1), 0.0),
        (unreachable(3), math.inf),
        (unreachable(3, in_s=600, state="asked"), 0.0),
        ({**unreachable(3), "delayed": 1, "next_delayed_s": NOW_S + 90}, 90.0),
        ({**unreachable(3), "held_until_s": 0.0}, 0.0),
    ],
)
def test_how_long_nothing_of_a_host_can_happen(changes: dict[str, Any], standstill: float) -> None:
    """An hour from page to page is a pace; a block, a delay or a silent robots.txt is a wait."""
    assert standstill_s(replace(SLOW, **changes)) == standstill


def test_one_host_that_goes_on_is_worth_waiting_for() -> None:
    """Hosts without URLs don't count, and a wait as long as the patience is still waited for."""
    stopped = replace(SLOW, paused=True)
    empty = replace(SLOW, waiting=0)
    assert worth_waiting([stopped, SLOW], PATIENCE_S)
    assert worth_waiting([replace(SLOW, blocked_until_s=NOW_S + PATIENCE_S)], PATIENCE_S)
    assert not worth_waiting([replace(SLOW, blocked_until_s=NOW_S + 61)], PATIENCE_S)
    assert not worth_waiting([stopped, empty], PATIENCE_S)
