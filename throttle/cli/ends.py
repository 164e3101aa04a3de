"""Commands for URLs that came to a bad end: list them, try them again."""

from collections.abc import Iterator
from itertools import islice

import click

from throttle.cli.known import knowing
from throttle.cli.parameters import host_key_of, json_option
from throttle.cli.render import console, print_json, table
from throttle.cli.text import counted
from throttle.errors import UsageError
from throttle.frontier.bundle import Frontier
from throttle.frontier.ends import Ended, EndList
from throttle.settings import load

_SHOWN = 1000
"""Rows of a table: one of a million URLs helps nobody."""


@click.group("dead")
def dead() -> None:
    """URLs that were given up after too many tries, or that could not be handled."""


@dead.command("list")
@click.argument("host", type=host_key_of, required=False)
@json_option
def list_dead(host: str | None, as_json: bool) -> None:
    """List dead URLs, of HOST or of all hosts, each with its last reason."""
    _list("dead", host, as_json=as_json)


@dead.command("retry")
@click.argument("host", type=host_key_of, required=False)
@click.option("--all", "of_all", is_flag=True, help="The dead URLs of all hosts.")
@click.option("--most", type=click.IntRange(min=1), help="At most so many URLs.")
@json_option
def retry(host: str | None, of_all: bool, most: int | None, as_json: bool) -> None:
    """Let the dead URLs of HOST, or of all hosts, wait again; their tries are forgotten.

    They are fetched at their host's pace, as any other.
    """
    _retry("dead", host, most, of_all=of_all, as_json=as_json)


@click.group("refused")
def refused() -> None:
    """URLs that were refused, or that robots.txt forbids."""


@refused.command("list")
@click.argument("host", type=host_key_of, required=False)
@json_option
def list_refused(host: str | None, as_json: bool) -> None:
    """List refused URLs, of HOST or of all hosts, each with the reason."""
    _list("refused", host, as_json=as_json)


@refused.command("retry")
@click.argument("host", type=host_key_of, required=False)
@click.option("--all", "of_all", is_flag=True, help="The refused URLs of all hosts.")
@click.option("--most", type=click.IntRange(min=1), help="At most so many URLs.")
@json_option
def retry_refused(host: str | None, of_all: bool, most: int | None, as_json: bool) -> None:
    """Let the refused URLs of HOST, or of all hosts, wait again, after what refused them changed.

    Each is judged anew by the robots.txt in force and by THROTTLE_ALLOW_NETS of the workers. A
    host that refused us stays stopped until its case is closed with --resume.
    """
    _retry("refused", host, most, of_all=of_all, as_json=as_json)


def _retry(
    end: EndList, host: str | None, most: int | None, *, of_all: bool, as_json: bool
) -> None:
    if (host is None) != of_all:
        raise UsageError("name a HOST, or give --all")
    frontier, hosts = _hosts(host)
    count = frontier.ends.retry(end, hosts, most)
    if as_json:
        print_json({"host": host, "retried": count})
    elif count:
        click.echo(f"{counted(count, f'{end} URL')} {'waits' if count == 1 else 'wait'} again")
    else:
        click.echo(f"no {end} URLs")


def _list(end: EndList, host: str | None, *, as_json: bool) -> None:
    """With --json one line per URL, as it is found, in constant memory."""
    frontier, hosts = _hosts(host)
    found = frontier.ends.listed(end, hosts)
    if as_json:
        for one in found:
            fields = {"url": one.entry.url, "reason": one.reason, "tries": one.entry.tries}
            print_json({"host": one.key, **fields, "depth": one.entry.depth})
        return
    rows = [_row(one) for one in islice(found, _SHOWN)]
    if not rows:
        click.echo(f"no {end} URLs", err=True)
        return
    console().print(table(("host", "url", "tries", "reason"), rows))
    if next(found, None) is not None:
        click.echo(f"there are more than {_SHOWN:,}; --json lists all", err=True)


def _row(one: Ended) -> tuple[str, str, int, str]:
    return one.key, one.entry.url, one.entry.tries, one.reason


def _hosts(host: str | None) -> tuple[Frontier, Iterator[str]]:
    if host is not None:
        return knowing(host), iter([host])
    frontier = Frontier(load())
    return frontier, frontier.hosts.keys()


COMMANDS = (dead, refused)
