"""demo: crawls a sample site on this machine, and judges the promises by the site's own log."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from throttle.cli.interrupts import Interrupts
from throttle.cli.parameters import json_option
from throttle.cli.private import running, workplace
from throttle.cli.progress import CrawlProgress
from throttle.cli.render import print_json
from throttle.durations import format_duration
from throttle.frontier.census import Count
from throttle.local.child import Child
from throttle.local.directory import LOOPBACK
from throttle.local.origin import Arrival, Origin
from throttle.local.sample import HOSTS, SampleSite, sample_site
from throttle.model import Candidate, HostPolicy
from throttle.ops.draining import readings
from throttle.ops.service import Service, without_settings
from throttle.ops.verdict import HostSeen, Promise, hosts_seen, promises
from throttle.settings import Settings

_SEEDS = 3
_FASTEST_S, _SLOWEST_S = 0.5, 1.1
_WORKERS = 2
_FORBIDDEN = ("/private/",)
_EVERY_S = 0.2
_LONGEST_S = 120.0
_SITE_S = 120.0


@click.command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the pages, the logs and the WARC files in this new directory.",
)
@json_option
def demo(keep: Path | None, as_json: bool) -> None:
    """Crawl a sample site on this machine politely, and prove it by the site's own log.

    The site is the documentation of Python's library on twelve host names with a pace each. Some
    of its start pages are given, the rest is discovered. The exit code is 0 only if every promise
    held. Nothing of it leaves this machine.
    """
    if keep is not None and keep.exists() and any(keep.iterdir()):
        raise click.BadParameter(f"{keep} is not empty", param_hint="--keep")
    started_s = time.monotonic()
    with (
        Interrupts() as interrupts,
        workplace(keep, interrupts) as directory,
        CrawlProgress() as progress,
    ):
        arrivals, intervals_s, count = _crawl(directory.absolute(), interrupts, progress)
    hosts = hosts_seen(arrivals, intervals_s, _FORBIDDEN)
    found = promises(arrivals, hosts, count)
    held = all(promise.held for promise in found)
    seconds = time.monotonic() - started_s
    if as_json:
        print_json(
            {
                "held": held,
                "seconds": round(seconds, 3),
                "promises": [asdict(promise) for promise in found],
                "hosts": [{**asdict(host), "slack_s": host.slack_s} for host in hosts],
            }
        )
    else:
        _print(hosts, found, seconds)
    sys.exit(0 if held else 1)


def _crawl(
    directory: Path, interrupts: Interrupts, progress: CrawlProgress
) -> tuple[list[Arrival], dict[str, float], Count]:
    """What the site saw, the intervals it was to be asked at, and the audit at the end."""
    environ = _without_proxies(os.environ)
    pages = directory / "site"
    making = Child(
        "sample",
        [sys.executable, "-W", "ignore", "-m", "throttle.local.sample", str(pages)],
        log=directory / "sample.log",
        env=without_settings(environ),
    )
    origin = Origin(directory / "origin", pages=pages)
    service = Service(
        directory / "service", _settings(directory), workers=_WORKERS, environ=environ
    )
    try:
        making.start()
        with running(service, interrupts, progress.stage, in_order=False):
            progress.stage("writing the sample site")
            making.wait(_SITE_S)
            sample = sample_site(pages)
            origin.start()
            intervals_s = _intervals_s(sample)
            _add(service, intervals_s, sample.seeds(origin.port))
            _until_drained(service, progress)
            return origin.arrivals(), intervals_s, service.frontier.census.count()
    finally:
        with interrupts.ignored():
            making.kill()
            origin.stop()


def _settings(directory: Path) -> Settings:
    """The settings of the demo alone, whatever the user has set."""
    directory.mkdir(parents=True, exist_ok=True)
    hosts_file = directory / "hosts"
    hosts_file.write_text("".join(f"{LOOPBACK} {host}\n" for host in HOSTS), encoding="utf-8")
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    return Settings(
        **{
            **defaults,
            "product": "throttle-demo",
            "contact": "http://localhost/",
            "hosts_file": str(hosts_file),
            "allow_nets": ("127.0.0.0/8",),
            "archive": str(directory / "warc"),
            "follow_hosts": True,
            "fetch_timeout": 10.0,
        }
    )


def _intervals_s(sample: SampleSite) -> dict[str, float]:
    """A pace for each host, the quicker the more pages it has, so that all end together."""
    by_size = sorted(
        sample.hosts, key=lambda host: -sum(1 for _ in (sample.folder / host).glob("*.html"))
    )
    step_s = (_SLOWEST_S - _FASTEST_S) / (len(by_size) - 1)
    paces = {host: round(_FASTEST_S + step_s * n, 2) for n, host in enumerate(by_size)}
    return dict(sorted(paces.items()))


def _add(service: Service, intervals_s: Mapping[str, float], seeds: Sequence[str]) -> None:
    frontier = service.frontier
    for host, interval_s in intervals_s.items():
        frontier.hosts.set_policy(host, HostPolicy(interval_s=interval_s))
    frontier.intake.add([Candidate(url) for url in seeds[:: len(seeds) // _SEEDS]])


def _until_drained(service: Service, progress: CrawlProgress) -> None:
    end_s = time.monotonic() + _LONGEST_S

    def check() -> None:
        service.check()
        time.sleep(_EVERY_S)

    for totals, is_drained in readings(service.frontier.census, pause=check):
        progress.show(totals)
        if is_drained or time.monotonic() > end_s:
            return


def _without_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environ.items() if not name.lower().endswith("_proxy")}


def _print(hosts: Sequence[HostSeen], found: Sequence[Promise], seconds: float) -> None:
    out = Console(width=None if sys.stdout.isatty() else 100, highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for number, name in enumerate(
        ("host", "pages", "interval", "smallest gap", "rate used", "open", "forbidden")
    ):
        table.add_column(name, justify="right" if number else "left")
    for host in hosts:
        table.add_row(
            host.host,
            str(host.pages),
            format_duration(host.interval_s),
            "-" if host.smallest_gap_s is None else f"{host.smallest_gap_s:.3f}s",
            "-" if host.share is None else f"{host.share:.1%}",
            str(host.most_open),
            str(host.forbidden),
        )
    out.print(Text("\nAs the site's own log saw the crawl:\n"))
    out.print(table)
    out.print()
    for promise in found:
        mark = Text("✓ ", "bold green") if promise.held else Text("✗ ", "bold red")
        out.print(Text.assemble(mark, (f"{promise.name:<16}", "bold"), promise.figure))
    kept = all(promise.held for promise in found)
    verdict = "Every promise held." if kept else "A promise was broken."
    pages = sum(host.pages for host in hosts)
    out.print(Text(f"\n{verdict} {pages} pages of {len(hosts)} hosts, {seconds:.0f} s in all."))


COMMANDS = (demo,)
