"""The summary of a crawl: counts per outcome and per host, for people and as JSON."""

from dataclasses import asdict, dataclass

from throttle.cli.left import Left
from throttle.cli.output import NOTHING, Written
from throttle.cli.render import console, table
from throttle.cli.text import counted, safe
from throttle.crawl.reading import ON_PAGE_FAILED
from throttle.durations import format_duration
from throttle.frontier.bundle import Frontier
from throttle.frontier.census import Count, Totals
from throttle.frontier.ends import EndList
from throttle.frontier.hosts import HostView

_SHOWN = 20
_BAD_ENDS: tuple[EndList, ...] = ("dead", "refused")


@dataclass(frozen=True)
class Report:
    """What a crawl came to. `seconds` counts from the first URL added.

    `gave_up` are the hosts whose URLs were not waited for; `first_fault` is the first URL that was
    given up or refused, with the reason.
    """

    count: Count
    totals: Totals
    hosts: list[HostView]
    seconds: float
    interrupted: bool
    output: Written = NOTHING
    gave_up: tuple[Left, ...] = ()
    first_fault: str = ""

    @property
    def left(self) -> int:
        """URLs that did not come to an end."""
        return self.count.waiting + self.count.delayed + self.count.in_flight

    @property
    def audit_is_good(self) -> bool:
        """Whether every accepted URL lies in exactly one place."""
        return self.count.missing == 0 and not self.count.faults

    @property
    def is_good(self) -> bool:
        """Whether pages came out, every URL came to an end and the audit is good."""
        return self.left == 0 and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether nothing came out, the user's code failed, or the audit is not good."""
        return self.count.done == 0 or self.on_page_failed or not self.audit_is_good

    @property
    def on_page_failed(self) -> bool:
        """Whether the user's code failed for a page that is still given up."""
        return self.count.dead > 0 and ON_PAGE_FAILED in self.totals.outcomes


def first_fault(frontier: Frontier) -> str:
    """The first URL that was given up, or else refused, and why; empty where there is none."""
    for end in _BAD_ENDS:
        for one in frontier.ends.listed(end, frontier.hosts.keys()):
            return f"{one.entry.url}: {one.reason}"
    return ""


def report_json(report: Report) -> dict[str, object]:
    """What `--json` prints."""
    count = report.count
    return {
        "accepted": count.accepted,
        "done": count.done,
        "refused": count.refused,
        "dead": count.dead,
        "waiting": count.waiting,
        "delayed": count.delayed,
        "in_flight": count.in_flight,
        "missing": count.missing,
        "faults": list(count.faults),
        "outcomes": report.totals.outcomes,
        "hosts": [
            {
                "host": view.key,
                "interval": view.interval_s,
                "done": view.done,
                "refused": view.refused,
                "dead": view.dead,
                "left": _left(view),
            }
            for view in report.hosts
        ],
        "seconds": round(report.seconds, 3),
        "interrupted": report.interrupted,
        "gave_up": [asdict(one) for one in report.gave_up],
        "first_fault": report.first_fault,
        "output": None if report.output.path is None else str(report.output.path),
        "records": report.output.records,
    }


def print_report(report: Report) -> None:
    """The tables and the verdict."""
    out = console()
    hosts = sorted(report.hosts, key=lambda view: (-view.done, view.key))
    rows = [
        (v.key, format_duration(v.interval_s), v.done, v.refused, v.dead, _left(v))
        for v in hosts[:_SHOWN]
    ]
    out.print(table(("host", "interval", "done", "refused", "dead", "left"), rows))
    if len(hosts) > _SHOWN:
        out.print(f"and {counted(len(hosts) - _SHOWN, 'more host')}")
    if report.totals.outcomes:
        out.print()
        out.print(table(("outcome", "fetches"), report.totals.outcomes.items()))
    out.print()
    count = report.count
    out.print(
        f"{counted(count.accepted, 'URL')} accepted in {format_duration(report.seconds)}:"
        f" {count.done} done, {count.refused} refused, {count.dead} dead, {report.left} left"
    )
    faults = (f"{count.missing} missing", *count.faults)
    out.print("audit: " + ("good" if report.audit_is_good else "; ".join(faults)))
    if report.first_fault and report.has_failed:
        what = "on_page failed" if report.on_page_failed else "nothing came out"
        out.print(f"{what}; the first reason: {safe(report.first_fault)}")
    out.print(str(report.output))
    if report.output.left_out_bytes:
        out.print(f"{report.output.left_out_bytes} bytes of a cut record were left out")


def _left(view: HostView) -> int:
    return view.waiting + view.delayed + view.in_flight
