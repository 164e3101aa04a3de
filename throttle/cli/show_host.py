"""show-host: one host, each layer of its pace with its source and end, and why it waits."""

from collections.abc import Sequence
from dataclasses import asdict

import click

from throttle.cli.host_report import host_fields, is_capped
from throttle.cli.known import knowing
from throttle.cli.parameters import host_key_of, json_option
from throttle.cli.render import console, facts, print_json, table, utc
from throttle.durations import format_duration
from throttle.frontier.cases import REFUSED
from throttle.frontier.hosts import HostView
from throttle.model import BlockedBy, Case
from throttle.ops.waiting import waits_for
from throttle.pace import Limits, forgiven_at_s

_Row = tuple[str, str, str, str]


@click.command("show-host")
@click.argument("host", type=host_key_of)
@json_option
def show_host(host: str, as_json: bool) -> None:
    """Show HOST: each layer of its pace, where it comes from, its URLs, and why it waits."""
    frontier = knowing(host)
    (view,) = frontier.hosts.show([host])
    ages, cases = frontier.census.ages(), list(frontier.cases.open(host))
    limits = frontier.limits
    if as_json:
        fields = host_fields(view, ages)
        back_off = fields["back_off"]
        back_off["forgiven_at"] = utc(forgiven_at_s(view.pace, limits)) if view.pace.level else None
        print_json({**fields, "cases": [asdict(case) for case in cases]})
        return
    out = console()
    out.print(facts(_about(view, waits_for(view, ages))))
    out.print()
    columns = ("what holds it", "set by", "asked, applied", "ends")
    out.print(table(columns, [*_layers(view), *_clocks(view, limits, cases)]))
    if view.robots:
        out.print()
        out.print(_origins(view))
    if view.robots_fault:
        out.print()
        out.print(facts({"robots.txt": view.robots_fault}))
    if cases:
        out.print()
        rows = [(case.kind, case.opened_at, case.reason) for case in cases]
        out.print(table(("open case", "since", "reason"), rows))


def _about(view: HostView, waits: str) -> dict[str, object]:
    return {
        "host": view.key,
        "interval": f"{format_duration(view.interval_s)} ({view.interval_source})",
        "burst": view.burst,
        "concurrency": f"{view.concurrency} (a probe at a time)"
        if view.breaker != "closed"
        else view.concurrency,
        "tokens": view.tokens,
        "depth": f"{view.depth:,} ({view.waiting:,} waiting, {view.delayed:,} delayed)",
        "in flight": view.in_flight,
        "done": view.done,
        "refused": view.refused,
        "dead": view.dead,
        "turned away": f"{view.full:,} (depth bound)",
        "next start": _next_start(view),
        "waits for": waits,
    }


def _layers(view: HostView) -> list[_Row]:
    """The layers of the interval, each with what it asks for and whether it is in force."""

    def row(name: str, set_by: str, words: str) -> _Row:
        return name, set_by, words, "in force" if name == view.interval_source else "beneath"

    rows = [row("default", "settings of beat", format_duration(view.default_s))]
    if view.operator_s is not None:
        rows.append(row("operator", "add-host, set-host", format_duration(view.operator_s)))
    if view.crawl_delay_s is not None:
        asked, applied = (
            format_duration(view.crawl_delay_asked_s or 0.0),
            format_duration(view.crawl_delay_s),
        )
        words = f"{asked} asked, {applied} applied (capped)" if is_capped(view) else applied
        rows.append(row("robots.txt", "Crawl-delay", words))
    return rows


def _clocks(view: HostView, limits: Limits, cases: Sequence[Case]) -> list[_Row]:
    """What else holds the host up; what does not stand is left out, save for the breaker."""
    rows: list[_Row] = []
    if view.blocked_until_s > view.now_s:
        by = "" if view.blocked_by is None else str(view.blocked_by)
        rows.append(("block", by, "", _ends(view, view.blocked_until_s)))
    if view.pace.level:
        forgiven_s = forgiven_at_s(view.pace, limits)
        end = "forgiven" if forgiven_s <= view.now_s else f"forgiven {_ends(view, forgiven_s)}"
        last = f"step {view.pace.level}, taken {utc(view.pace.stepped_at_s)}"
        rows.append((BlockedBy.BACK_OFF, "answers without a usable Retry-After", last, end))
    rows.append(_breaker(view))
    if view.refuses_us:
        since = next((f"since {case.opened_at}" for case in cases if case.kind == REFUSED), "")
        rows.append(("refused", "the site", since, "by cases close --resume"))
    if view.paused:
        rows.append(("paused", "operator", "", "by resume"))
    return rows


def _breaker(view: HostView) -> _Row:
    failures = f"{view.pace.failures} failures in a row" if view.pace.failures else ""
    ends = {
        "open": f"half-open {_ends(view, view.breaker_until_s)}",
        "half-open": "by a good answer to its one probe",
    }
    return f"breaker {view.breaker}", "failures", failures, ends.get(view.breaker, "")


def _origins(view: HostView) -> object:
    return table(
        ("origin", "robots.txt", "until", "failures", "crawl delay"),
        [
            (
                origin,
                "address refused" if record.is_undialled else record.state,
                utc(record.until_s) if record.until_s else "-",
                record.failures,
                format_duration(record.crawl_delay_s) if record.crawl_delay_s else "-",
            )
            for origin, record in sorted(view.robots.items())
        ],
    )


def _ends(view: HostView, at_s: float) -> str:
    return f"in {format_duration(at_s - view.now_s)} ({utc(at_s)})"


def _next_start(view: HostView) -> str:
    if view.ready_at_s is None:
        return "—, see waits for"
    left_s = view.ready_at_s - view.now_s
    return f"in {format_duration(left_s)}" if left_s > 0 else "now"


COMMANDS = (show_host,)
