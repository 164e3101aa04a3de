"""Commands for hosts: make them known, set their pace, list and remove them."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import click

from throttle.cli.host_report import host_fields
from throttle.cli.known import knowing
from throttle.cli.parameters import DEFAULT, duration, host_key_of, json_option, or_default
from throttle.cli.render import console, ledger, print_json, table
from throttle.cli.text import counted
from throttle.durations import format_duration
from throttle.errors import FrontierError, UsageError
from throttle.frontier.bundle import Frontier
from throttle.frontier.hosts import HostView
from throttle.model import HostPolicy
from throttle.ops.waiting import waits_for
from throttle.settings import load

_AT_ONCE = 500
_POLL_S = 0.2
_ROOMY = 160
"""Columns of a terminal that has room for the reason beside the figures."""
_MANY = click.IntRange(max=10_000)
"""As the settings have it; what is below 1 is refused in better words than click's."""


def _pace(command: Callable[..., None]) -> Callable[..., None]:
    """The options that make a policy."""
    for name, kind, line in (
        ("--concurrency", _MANY, "Requests open at once: 1 to 10000."),
        ("--burst", _MANY, "Requests that may go in a row after a pause: 1 to 10000."),
        ("--interval", duration, "From request to request, above 0: 2s, 500ms, 30/m."),
    ):
        option = click.option(name, type=or_default(kind), help=line)
        command = option(command)
    return command


@click.command("add-host")
@click.argument("host", type=host_key_of)
@_pace
@json_option
def add_host(host: str, as_json: bool, **pace: Any) -> None:
    """Make HOST known and set its pace; what is not given stays, or is the default.

    Adding a known host again changes it and is no error.
    """
    frontier = Frontier(load())
    word = "changed" if frontier.hosts.exists(host) else "added"
    _set(frontier, host, _policy(pace), word, as_json=as_json)


@click.command("set-host")
@click.argument("host", type=host_key_of)
@_pace
@json_option
def set_host(host: str, as_json: bool, **pace: Any) -> None:
    """Change the pace of the known HOST, from now on; what is not given stays.

    `--interval default` takes away what was set for HOST alone; so with --burst, --concurrency.
    """
    policy = _policy(pace)
    if policy == HostPolicy():
        raise UsageError("nothing to set; give --interval, --burst or --concurrency")
    _set(knowing(host), host, policy, "changed", as_json=as_json)


def _policy(pace: Mapping[str, Any]) -> HostPolicy:
    fields = {"interval": "interval_s", "burst": "burst", "concurrency": "concurrency"}
    given = {fields[name]: value for name, value in pace.items()}
    cleared = frozenset(name for name, value in given.items() if value == DEFAULT)
    return HostPolicy(**{n: v for n, v in given.items() if n not in cleared}, cleared=cleared)


def _set(frontier: Frontier, host: str, policy: HostPolicy, word: str, *, as_json: bool) -> None:
    frontier.hosts.set_policy(host, policy)
    (view,) = frontier.hosts.show([host])
    if as_json:
        pace = {"interval": view.interval_s, "interval_source": view.interval_source}
        counts = {"burst": view.burst, "concurrency": view.concurrency}
        print_json({"host": host, "did": word, **pace, **counts})
    else:
        click.echo(f"{word} {host}: {_in_words(view)}")


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
            print_json(host_fields(view, ages))
        return
    rows = [
        ((view.key, *_figures(view)), waits_for(view, ages))
        for view in _views(frontier, iter(sorted(matching)))
    ]
    if not rows:
        click.echo("no host matches", err=True)
        return
    columns = ("host", "interval", "waiting", "delayed", "in flight", "done", "refused", "dead")
    out = console()
    if out.width < _ROOMY:
        # Where the interval comes from is told by show-host.
        narrow = [((row[0], str(row[1]).split(" ")[0], *row[2:]), waits) for row, waits in rows]
        out.print(ledger(columns, narrow, "waits for", out.width))
    else:
        out.print(table((*columns, "waits for"), [(*row, waits) for row, waits in rows]))


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
    """Take HOST out with its URLs and what it has seen; its clock and its refusal of us stay.

    It is paused first. When fetches are still under way after --timeout, it stays paused.
    """
    frontier = knowing(host)
    (view,) = frontier.hosts.show([host])
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"removing {host} drops {counted(view.depth, 'URL')}; give --yes")
        click.confirm(f"Remove {host} and {counted(view.depth, 'waiting URL')}?", abort=True)
    frontier.hosts.pause(host, paused=True)
    word, number = frontier.hosts.remove(host)
    end_s = time.monotonic() + timeout
    while word == "busy" and time.monotonic() < end_s:
        time.sleep(_POLL_S)
        word, number = frontier.hosts.remove(host)
    if word == "busy":
        fetches = counted(number, "open fetch", "open fetches")
        raise FrontierError(
            f"{host} has {fetches} after {format_duration(timeout)}; it stays paused: remove it"
            f" again later, or throttlectl resume {host}"
        )
    more = (
        f"; it refused us: added again, it stays stopped until throttlectl cases close {host}"
        " --resume --why TEXT"
        if view.refuses_us
        else ""
    )
    click.echo(f"removed {host}; {counted(number, 'URL')} dropped{more}")


def _figures(view: HostView) -> tuple[object, ...]:
    interval = f"{format_duration(view.interval_s)} ({view.interval_source})"
    places = (view.waiting, view.delayed, view.in_flight)
    return (interval, *places, view.done, view.refused, view.dead)


def _views(frontier: Frontier, keys: Iterator[str]) -> Iterator[HostView]:
    while batch := list(islice(keys, _AT_ONCE)):
        yield from frontier.hosts.show(batch)


def _in_words(view: HostView) -> str:
    return (
        f"a request every {format_duration(view.interval_s)} ({view.interval_source}),"
        f" burst {view.burst}, concurrency {view.concurrency}"
    )


COMMANDS = (add_host, set_host, list_hosts, remove_host)
