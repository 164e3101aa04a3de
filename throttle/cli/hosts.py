"""Commands for hosts: make them known, set their pace, look at them, stop and remove them."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import click

from throttle.cli.parameters import duration, host_key_of, json_option
from throttle.cli.render import console, facts, print_json, table, utc
from throttle.durations import format_duration
from throttle.errors import FrontierError, UsageError
from throttle.frontier.bundle import Frontier
from throttle.frontier.hosts import HostView
from throttle.model import HostPolicy
from throttle.ops.waiting import waits_for
from throttle.settings import load

_AT_ONCE = 500
_POLL_S = 0.2
_MANY = click.IntRange(max=10_000)
"""As the settings have it; what is below 1 is refused in better words than click's."""


def _pace(command: Callable[..., None]) -> Callable[..., None]:
    """The options that make a policy."""
    for option in (
        click.option("--concurrency", type=_MANY, help="Requests open at once."),
        click.option("--burst", type=_MANY, help="Requests that may go in a row after a pause."),
        click.option("--interval", type=duration, help="From request to request: 2s, 500ms, 30/m."),
    ):
        command = option(command)
    return command


@click.command("add-host")
@click.argument("host", type=host_key_of)
@_pace
def add_host(host: str, interval: float | None, burst: int | None, concurrency: int | None) -> None:
    """Make HOST known and set its pace; what is not given stays, or is the default.

    Adding a known host again changes it and is no error.
    """
    frontier = Frontier(load())
    word = "changed" if frontier.hosts.exists(host) else "added"
    _set(frontier, host, HostPolicy(interval, burst, concurrency), word)


@click.command("set-host")
@click.argument("host", type=host_key_of)
@_pace
def set_host(host: str, interval: float | None, burst: int | None, concurrency: int | None) -> None:
    """Change the pace of the known HOST, from now on; what is not given stays."""
    policy = HostPolicy(interval, burst, concurrency)
    if policy == HostPolicy():
        raise UsageError("nothing to set; give --interval, --burst or --concurrency")
    frontier = _knowing(host)
    _set(frontier, host, policy, "changed")


def _set(frontier: Frontier, host: str, policy: HostPolicy, word: str) -> None:
    frontier.hosts.set_policy(host, policy)
    (view,) = frontier.hosts.show([host])
    click.echo(f"{word} {host}: {_in_words(view)}")


@click.command("show-host")
@click.argument("host", type=host_key_of)
@json_option
def show_host(host: str, as_json: bool) -> None:
    """Show HOST: its pace and where it comes from, its URLs, and why it waits."""
    frontier = _knowing(host)
    (view,) = frontier.hosts.show([host])
    fields = _fields(view, frontier.census.ages())
    if as_json:
        print_json(fields)
        return
    out = console()
    out.print(
        facts(
            {
                "host": view.key,
                "interval": f"{format_duration(view.interval_s)} ({view.interval_source})",
                "burst": view.burst,
                "concurrency": view.concurrency,
                "tokens": view.tokens,
                "depth": f"{_depth(view):,} ({view.waiting:,} waiting, {view.delayed:,} delayed)",
                "in flight": view.in_flight,
                "done": view.done,
                "refused": view.refused,
                "dead": view.dead,
                "turned away": f"{view.full:,} (depth bound)",
                "next start": _next_start(view),
                "waits for": fields["waits_for"],
            }
        )
    )
    if view.robots:
        out.print()
        out.print(
            table(
                ("origin", "robots.txt", "until", "failures", "crawl delay"),
                (
                    (
                        origin,
                        record.state,
                        utc(record.until_s) if record.until_s else "-",
                        record.failures,
                        format_duration(record.crawl_delay_s) if record.crawl_delay_s else "-",
                    )
                    for origin, record in sorted(view.robots.items())
                ),
            )
        )


@click.command("list-hosts")
@click.argument("pattern", default="*")
@json_option
def list_hosts(pattern: str, as_json: bool) -> None:
    """List the hosts that match PATTERN, a shell pattern such as '*.example'.

    With --json one line per host, as it is found, in constant memory; else sorted by name.
    """
    frontier = Frontier(load())
    ages = frontier.census.ages()
    # Matched here: Redis would match a pattern of its own, at the cost of the whole server.
    wanted = pattern.lower()
    matching = (key for key in frontier.hosts.keys() if fnmatchcase(key, wanted))  # noqa: SIM118 - not a mapping
    if as_json:
        for view in _views(frontier, matching):
            print_json(_fields(view, ages))
        return
    rows = [
        (
            view.key,
            f"{format_duration(view.interval_s)} ({view.interval_source})",
            view.waiting,
            view.delayed,
            view.in_flight,
            view.done,
            view.refused,
            view.dead,
            waits_for(view, ages),
        )
        for view in _views(frontier, iter(sorted(matching)))
    ]
    if not rows:
        click.echo("no host matches", err=True)
        return
    columns = ("host", "interval", "waiting", "delayed", "in flight", "done", "refused", "dead")
    console().print(table((*columns, "waits for"), rows))


@click.command("pause")
@click.argument("host", type=host_key_of)
def pause(host: str) -> None:
    """Let nothing new of HOST start; what is under way ends by itself."""
    _knowing(host).hosts.pause(host, paused=True)
    click.echo(f"paused {host}; throttlectl resume lets it go on")


@click.command("resume")
@click.argument("host", type=host_key_of)
def resume(host: str) -> None:
    """Let the paused HOST go on, at its pace."""
    _knowing(host).hosts.pause(host, paused=False)
    click.echo(f"resumed {host}")


@click.command("remove-host")
@click.argument("host", type=host_key_of)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--timeout",
    type=duration,
    default="1m",
    show_default=True,
    help="How long to wait for fetches under way.",
)
def remove_host(host: str, yes: bool, timeout: float) -> None:
    """Take HOST out with its URLs and what it has seen; its clock still runs out.

    It is paused first. When fetches are still under way after --timeout, it stays paused.
    """
    frontier = _knowing(host)
    (view,) = frontier.hosts.show([host])
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"removing {host} drops {_depth(view)} URLs; give --yes")
        click.confirm(f"Remove {host} and the {_depth(view)} URLs that wait?", abort=True)
    frontier.hosts.pause(host, paused=True)
    word, number = frontier.hosts.remove(host)
    end_s = time.monotonic() + timeout
    while word == "busy" and time.monotonic() < end_s:
        time.sleep(_POLL_S)
        word, number = frontier.hosts.remove(host)
    if word == "busy":
        raise FrontierError(
            f"{host} has {number} fetches under way after {format_duration(timeout)}; it stays"
            f" paused: remove it again later, or throttlectl resume {host}"
        )
    click.echo(f"removed {host}; {number} URLs dropped")


def _knowing(host: str) -> Frontier:
    """The frontier, if it knows `host`; raises `FrontierError`."""
    frontier = Frontier(load())
    if not frontier.hosts.exists(host):
        raise FrontierError(
            f"{host} is not known; throttlectl add-host {host} makes it known, throttlectl"
            " list-hosts shows those that are"
        )
    return frontier


def _views(frontier: Frontier, keys: Iterator[str]) -> Iterator[HostView]:
    while batch := list(islice(keys, _AT_ONCE)):
        yield from frontier.hosts.show(batch)


def _depth(view: HostView) -> int:
    return view.waiting + view.delayed


def _in_words(view: HostView) -> str:
    return (
        f"a request every {format_duration(view.interval_s)} ({view.interval_source}),"
        f" burst {view.burst}, concurrency {view.concurrency}"
    )


def _next_start(view: HostView) -> str:
    if view.ready_at_s is None:
        return "not set: something else must come first"
    left_s = view.ready_at_s - view.now_s
    return f"in {format_duration(left_s)}" if left_s > 0 else "now"


def _fields(view: HostView, ages: Mapping[str, float]) -> dict[str, Any]:
    """What `--json` says of a host."""
    next_at_s = None if view.ready_at_s is None else max(view.ready_at_s, view.now_s)
    return {
        "host": view.key,
        "interval": view.interval_s,
        "interval_source": view.interval_source,
        "burst": view.burst,
        "concurrency": view.concurrency,
        "paused": view.paused,
        "tokens": view.tokens,
        "depth": _depth(view),
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
        "blocked_until": utc(view.blocked_until_s) if view.blocked_until_s > view.now_s else None,
        "issue_fault": view.issue_fault,
        "waits_for": waits_for(view, ages),
        "robots": {
            origin: {
                "state": record.state,
                "until": utc(record.until_s) if record.until_s else None,
                "failures": record.failures,
                "crawl_delay": record.crawl_delay_s,
            }
            for origin, record in sorted(view.robots.items())
        },
    }


COMMANDS = (add_host, set_host, show_host, list_hosts, pause, resume, remove_host)
