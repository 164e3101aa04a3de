"""Commands that look at the whole service: status, audit, doctor."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from throttle.cli.parameters import duration, json_option
from throttle.cli.render import age, console, facts, print_json, table
from throttle.frontier.bundle import Frontier
from throttle.frontier.census import Count
from throttle.ops.health import Check, State, examine
from throttle.settings import load

_PIPED = 100
"""Columns of doctor's table where no terminal says: a person reads it there, too."""
_STATE_STYLES = {State.OK: "green", State.WARN: "yellow", State.FAULT: "red"}


@click.command("status")
@json_option
@click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
@click.option(
    "--every", type=duration, default="1s", show_default=True, help="How often --watch looks."
)
def status(as_json: bool, watch: bool, every: float) -> None:
    """Show what waits, what is under way, how URLs ended and who is alive."""
    frontier = Frontier(load())
    if not watch:
        _show_status(_status(frontier), as_json=as_json)
        return
    try:
        _watch(frontier, every, as_json=as_json)
    except KeyboardInterrupt:
        return


@click.command("audit")
@json_option
@click.pass_context
def audit(ctx: click.Context, as_json: bool) -> None:
    """Count every URL where it lies: each accepted one must lie in exactly one place.

    The exit code is 1 when one is missing or a counter disagrees with what was counted.
    """
    count = Frontier(load()).census.count()
    holds = count.missing == 0 and not count.faults
    if as_json:
        print_json({**asdict(count), "missing": count.missing, "holds": holds})
    else:
        console().print(Text(_equation(count)))
        console().print(table(("fault",), ((fault,) for fault in count.faults), header=False))
    if not holds:
        ctx.exit(1)


@click.command("doctor")
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check both servers, the settings and the processes; each failure comes with its remedy.

    The exit code is 3 when a server cannot be reached, else 1 when there is a fault.
    """
    checks = examine(load())
    faults = [check for check in checks if check.state is State.FAULT]
    if as_json:
        print_json({"holds": not faults, "checks": [asdict(check) for check in checks]})
    else:
        _print_checks(checks)
    if any(check.unreachable for check in checks):
        ctx.exit(3)
    if faults:
        ctx.exit(1)


def _status(frontier: Frontier) -> dict[str, Any]:
    totals, ages = frontier.census.totals(), frontier.census.ages()
    kinds = frontier.cases.count_by_kind()
    return {
        **asdict(totals),
        "open_cases": sum(kinds.values()),
        "open_case_kinds": kinds,
        "generation": frontier.generations.number(),
        "generations": [asdict(one) for one in frontier.generations.ended()],
        "last_issue_age": ages.get("issuer"),
        "last_dispatch_age": ages.get("dispatcher"),
        "last_worker_age": ages.get("worker"),
    }


def _show_status(now: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(now)
    else:
        console().print(_status_table(now))


def _status_table(now: dict[str, Any]) -> Group:
    ages = {
        "beat": age(now["last_issue_age"]),
        "dispatcher": age(now["last_dispatch_age"]),
        "workers": age(now["last_worker_age"]),
    }
    counts = {
        "hosts": f"{now['hosts']:,} ({now['ready']:,} ready or waiting for their clock)",
        "accepted": now["accepted"],
        "waiting": now["waiting"],
        "delayed": now["delayed"],
        "in flight": now["in_flight"],
        "done": now["done"],
        "refused": now["refused"],
        "dead": now["dead"],
        "turned away": f"{now['full']:,} (a bound of their host)",
        "open cases": _open_cases(now["open_case_kinds"]),
        "too early": f"{now['early']:,} (given back by the start gate)",
    }
    outcomes = [
        *now["outcomes"].items(),
        *((f"robots.txt {k}", n) for k, n in now["robots"].items()),
        *((f"turned away: {k}", n) for k, n in now["turned_away"].items()),
    ]
    parts: list[Table | Text] = [facts({**counts, **ages})]
    if outcomes:
        parts += [Text(), table(("outcome", "times"), outcomes)]
    return Group(*parts)


def _open_cases(kinds: Mapping[str, int]) -> str:
    found = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    return f"{found} (throttlectl cases list)" if found else "0"


def _watch(frontier: Frontier, every_s: float, *, as_json: bool) -> None:
    moments = _moments(frontier, every_s)
    out = console()
    if as_json or not out.is_terminal:
        for now in moments:
            _show_status(now, as_json=as_json)
        return
    with Live(console=out, auto_refresh=False) as live:
        for now in moments:
            live.update(_status_table(now), refresh=True)


def _moments(frontier: Frontier, every_s: float) -> Iterator[dict[str, Any]]:
    while True:
        yield _status(frontier)
        time.sleep(every_s)


def _equation(count: Count) -> str:
    places = ("done", "refused", "dead", "waiting", "delayed", "in_flight")
    total = " + ".join(f"{getattr(count, name):,} {name.replace('_', ' ')}" for name in places)
    missing = f"; missing: {count.missing:,}" if count.missing else ""
    sign = "is not" if count.missing else "="
    return f"{count.accepted:,} accepted {sign} {total}{missing}"


def _print_checks(checks: list[Check]) -> None:
    made = table(
        ("check", "", "found", "remedy"),
        ((check.name, check.state, check.found, check.remedy) for check in checks),
    )
    for row, check in zip(made.rows, checks, strict=True):
        row.style = "" if check.state is State.OK else _STATE_STYLES[check.state]
    console(piped=_PIPED).print(made)


COMMANDS = (status, audit, doctor)
