"""What is said of one host: its layers of pace, its clocks, its URLs."""

from collections.abc import Mapping
from typing import Any

from throttle.cli.render import utc
from throttle.frontier.hosts import HostView
from throttle.ops.waiting import waits_for


def host_fields(view: HostView, ages: Mapping[str, float]) -> dict[str, Any]:
    """What `--json` says of a host; durations in seconds, moments in ISO 8601."""
    next_at_s = None if view.ready_at_s is None else max(view.ready_at_s, view.now_s)
    is_blocked = view.blocked_until_s > view.now_s
    return {
        "host": view.key,
        "interval": view.interval_s,
        "interval_source": view.interval_source,
        "layers": {
            "default": view.default_s,
            "operator": view.operator_s,
            "robots_asked": view.crawl_delay_asked_s,
            "robots_applied": view.crawl_delay_s,
            "robots_capped": is_capped(view),
        },
        "burst": view.burst,
        "concurrency": view.concurrency,
        "paused": view.paused,
        "refuses_us": view.refuses_us,
        "tokens": view.tokens,
        "depth": view.depth,
        "waiting": view.waiting,
        "delayed": view.delayed,
        "in_flight": view.in_flight,
        "done": view.done,
        "refused": view.refused,
        "dead": view.dead,
        "full": view.full,
        "next_at": utc(next_at_s),
        "next_token_at": utc(view.refill_at_s),
        "next_delayed_at": utc(view.next_delayed_s),
        "blocked_until": utc(view.blocked_until_s) if is_blocked else None,
        "blocked_by": view.blocked_by if is_blocked else None,
        "back_off": {
            "level": view.pace.level,
            "last_step": utc(view.pace.stepped_at_s) if view.pace.level else None,
        },
        "breaker": {
            "state": view.breaker,
            "until": utc(view.breaker_until_s) if view.breaker == "open" else None,
            "failures": view.pace.failures,
            "opened": view.pace.opened,
        },
        "refusals_in_a_row": view.pace.refusals,
        "issue_fault": view.issue_fault,
        "robots_fault": view.robots_fault,
        "waits_for": waits_for(view, ages),
        "robots": {
            origin: {
                "state": "address refused" if record.is_undialled else record.state,
                "until": utc(record.until_s) if record.until_s else None,
                "failures": record.failures,
                "crawl_delay": record.crawl_delay_s,
            }
            for origin, record in sorted(view.robots.items())
        },
    }


def is_capped(view: HostView) -> bool:
    """Whether robots.txt asks for more than is applied."""
    asked_s, applied_s = view.crawl_delay_asked_s, view.crawl_delay_s
    return asked_s is not None and applied_s is not None and asked_s > applied_s
