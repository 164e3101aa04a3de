"""Why a host waits: the first obstacle is named, in words and with the time it takes."""

from dataclasses import replace

import pytest

from throttle.frontier.hosts import HostView
from throttle.frontier.rules import RobotsRecord
from throttle.model import BlockedBy
from throttle.ops.waiting import waits_for
from throttle.pace import Pace

NOW_S = 1_000_000.0
ALIVE = {"issuer": 0.5, "dispatcher": 0.5, "worker": 0.5}
OK = RobotsRecord("ok", NOW_S + 3600, version="1")
ASKED = RobotsRecord("asked", NOW_S + 60)
UNREACHABLE = RobotsRecord("unreachable", NOW_S + 90, failures=1)

READY = HostView(
    key="a.example",
    now_s=NOW_S,
    interval_s=2.0,
    interval_source="operator",
    default_s=1.0,
    operator_s=2.0,
    crawl_delay_asked_s=None,
    crawl_delay_s=None,
    burst=1,
    concurrency=1,
    tokens=1,
    waiting=5,
    delayed=0,
    in_flight=0,
    done=0,
    refused=0,
    dead=0,
    full=0,
    clock_opens_s=0.0,
    blocked_until_s=0.0,
    breaker_until_s=0.0,
    pace=Pace(),
    refuses_us=False,
    paused=False,
    ready_at_s=NOW_S,
    refill_at_s=None,
    next_delayed_s=None,
    issue_fault="",
    robots={"https://a.example": OK},
)

BLOCKED = {"blocked_until_s": NOW_S + 120}
OPEN = {"breaker_until_s": NOW_S + 60, "pace": Pace(failures=5, opened=1), "concurrency": 1}
HALF_OPEN = {**OPEN, "breaker_until_s": NOW_S - 1}
REFUSES = (
    "a person, since it refuses us (throttlectl cases show a.example; cases close a.example"
    " --resume --why TEXT lets it go on)"
)
LATER = {"waiting": 0, "delayed": 2, "next_delayed_s": NOW_S + 30}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "the dispatcher"),
        ({"paused": True}, "the operator, who paused it (throttlectl resume)"),
        ({"waiting": 0}, "nothing: no URLs wait"),
        ({"issue_fault": "403"}, "its token queue, which RabbitMQ refused: 403"),
        (
            {"robots": {"https://a.example": ASKED}},
            "the answer to https://a.example/robots.txt",
        ),
        (
            {"robots": {"https://a.example": UNREACHABLE}},
            "https://a.example/robots.txt, which cannot be had (asked for again in 1m30s)",
        ),
        (
            {"robots": {"https://a.example": UNREACHABLE}, "robots_fault": "connection refused"},
            (
                "https://a.example/robots.txt, which cannot be had: connection refused"
                " (asked for again in 1m30s)"
            ),
        ),
        ({"robots": {"https://a.example": UNREACHABLE, "http://a.example": OK}}, "the dispatcher"),
        ({"robots": {"https://a.example": replace(ASKED, until_s=NOW_S - 1)}}, "the dispatcher"),
        (BLOCKED, "the end of its block (over in 2m)"),
        (
            {**BLOCKED, "blocked_by": BlockedBy.OPERATOR},
            "the end of the operator's block (over in 2m; throttlectl resume --unblock)",
        ),
        (
            {**BLOCKED, "blocked_by": BlockedBy.RETRY_AFTER},
            "the end of the Retry-After that it sent (over in 2m)",
        ),
        (
            {**BLOCKED, "blocked_by": BlockedBy.BACK_OFF, "pace": Pace(level=3)},
            "the end of its back-off, step 3 (over in 2m)",
        ),
        (
            {**BLOCKED, "blocked_by": BlockedBy.SLOW_ANSWER},
            "the end of the pause after a slow answer (over in 2m)",
        ),
        ({"refuses_us": True}, REFUSES),
        ({"refuses_us": True, "waiting": 0}, REFUSES),
        (OPEN, "its breaker, open after 5 failures in a row (one probe goes in 1m)"),
        ({**OPEN, **BLOCKED}, "the end of its block (over in 2m)"),
        (HALF_OPEN, "the dispatcher"),
        (
            {**HALF_OPEN, "in_flight": 1},
            "the answer to the one probe of its half-open breaker",
        ),
        ({"in_flight": 1}, "a fetch under way to end (1 of 1)"),
        ({"in_flight": 1, "concurrency": 2}, "the dispatcher"),
        ({"tokens": 0}, "a token"),
        ({"tokens": 0, "refill_at_s": NOW_S + 1.5}, "a token (due in 1.5s)"),
        ({"tokens": 0, "refill_at_s": NOW_S - 1}, "a token (due now)"),
        ({"clock_opens_s": NOW_S + 0.25}, "its clock (opens in 250ms)"),
        (LATER, "its delayed URLs (the first is due in 30s)"),
        ({**LATER, "waiting": 1}, "the dispatcher"),
        ({**LATER, "next_delayed_s": NOW_S - 1}, "the dispatcher"),
        ({**LATER, "blocked_until_s": NOW_S + 60}, "the end of its block (over in 1m)"),
        (
            {**LATER, **OPEN},
            "its breaker, open after 5 failures in a row (one probe goes in 1m)",
        ),
        ({**LATER, "clock_opens_s": NOW_S + 1}, "its delayed URLs (the first is due in 30s)"),
    ],
)
def test_the_obstacle_is_named(change: dict[str, object], words: str) -> None:
    """A person reads what the host waits for, and for how long."""
    assert waits_for(replace(READY, **change), ALIVE) == words  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ages", "words"),
    [
        ({"dispatcher": 0.5}, "beat, which issues the tokens (celery -A throttle beat), never"),
        ({"issuer": 0.5}, "a dispatcher (throttlectl dispatch), never seen yet"),
        ({**ALIVE, "issuer": 75.0}, "celery -A throttle beat), silent for 1m15s"),
        ({**ALIVE, "dispatcher": 11.0}, "a dispatcher (throttlectl dispatch), silent for 11s"),
        ({**ALIVE, "dispatcher": 9.0}, "a token"),
    ],
)
def test_a_process_that_does_not_run_is_named(ages: dict[str, float], words: str) -> None:
    """A stopped beat or dispatcher is the reason, whatever else is missing."""
    assert words in waits_for(replace(READY, tokens=0), ages)


def test_obstacles_are_named_in_the_order_a_person_clears_them() -> None:
    """With everything in the way at once, clearing what is named shows the next."""
    view = replace(
        READY,
        paused=True,
        refuses_us=True,
        breaker_until_s=NOW_S + 90,
        issue_fault="403",
        robots={"https://a.example": ASKED},
        blocked_until_s=NOW_S + 60,
        in_flight=1,
        tokens=0,
        clock_opens_s=NOW_S + 1,
    )
    steps: list[tuple[str, dict[str, object]]] = [
        ("operator", {"paused": False}),
        ("refuses us", {"refuses_us": False}),
        ("RabbitMQ refused", {"issue_fault": ""}),
        ("breaker", {"breaker_until_s": 0.0}),
        ("robots.txt", {"robots": {"https://a.example": OK}}),
        ("block", {"blocked_until_s": 0.0}),
        ("under way", {"in_flight": 0}),
        ("token", {"tokens": 1}),
        ("clock", {"clock_opens_s": 0.0}),
    ]
    for words, cleared in steps:
        assert words in waits_for(view, ALIVE)
        view = replace(view, **cleared)  # type: ignore[arg-type]
    assert waits_for(view, ALIVE) == "the dispatcher"
