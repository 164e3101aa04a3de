"""Commands for cases: what a person should look at, and how each was closed."""

import getpass
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from throttle.cli.parameters import host_key_of, json_option
from throttle.cli.render import console, facts, print_json, table
from throttle.errors import FrontierError, UsageError
from throttle.frontier.bundle import Frontier
from throttle.frontier.cases import REFUSED, ClosedCase
from throttle.settings import load

_LONGEST_WHY = 2000


@click.group("cases")
def cases() -> None:
    """What a person should look at: one case is open per host and kind.

    \b
    refused              the host refuses us, and is stopped
    crawl_delay_capped   its robots.txt asks for more than the cap
    retry_after_capped   its Retry-After asks for more than the cap
    address_refused      its address is private: THROTTLE_ALLOW_NETS, then refused retry
    """


@cases.command("list")
@click.option("--closed", is_flag=True, help="Those that were closed, instead of the open ones.")
@json_option
def list_cases(closed: bool, as_json: bool) -> None:
    """List the open cases, the oldest first; with --json one line per case, as it is found."""
    found = Frontier(load()).cases
    rows = map(_closed_fields, found.closed()) if closed else map(asdict, found.open())
    if as_json:
        for row in rows:
            print_json(row)
        return
    when = "closed_at" if closed else "opened_at"
    columns = ("host", "kind", when, *(("closed_by", "why") if closed else ("reason",)))
    listed = sorted(rows, key=lambda row: (row[when], row["host"]))
    if not listed:
        click.echo("no closed cases" if closed else "no open cases", err=True)
        return
    heads = [name.replace("_", " ") for name in columns]
    console().print(table(heads, [[row[name] for name in columns] for row in listed]))


@cases.command("show")
@click.argument("host", type=host_key_of)
@click.argument("kind", required=False)
@json_option
def show(host: str, kind: str | None, as_json: bool) -> None:
    """Show the cases of HOST, open and closed, all or those of KIND.

    The exit code is 1 when there are none.
    """
    frontier = Frontier(load())
    opened = [case for case in frontier.cases.open(host) if kind in {None, case.kind}]
    closed = [one for one in frontier.cases.closed(host) if kind in {None, one.case.kind}]
    if not (opened or closed):
        raise FrontierError(
            f"{host} has no such case; throttlectl cases list shows those there are"
        )
    if as_json:
        found = {"open": [*map(asdict, opened)], "closed": [*map(_closed_fields, closed)]}
        print_json({"host": host, **found})
        return
    told: list[Mapping[str, object]] = [
        *({"state": "closed", **_closed_fields(one)} for one in closed),
        *({"state": "open", **asdict(case)} for case in opened),
    ]
    out = console()
    for number, fields in enumerate(told):
        if number:
            out.print()
        out.print(facts({name.replace("_", " "): value for name, value in fields.items()}))


@cases.command("close")
@click.argument("host", type=host_key_of)
@click.argument("kind", required=False)
@click.option("--why", required=True, help="What was found out or agreed; kept with the case.")
@click.option("--who", default="", help="Who closes it.  [default: the login name]")
@click.option("--resume", is_flag=True, help="Let a host that refused us go on, with a clean pace.")
@json_option
def close(host: str, kind: str | None, *, why: str, who: str, resume: bool, as_json: bool) -> None:
    """Close the case of HOST of that KIND, or all its open ones; who, when and why are kept.

    Without --resume a host that refused us stays stopped. With --resume the case of the refusal is
    closed, even for a second time, and the host goes on.
    """
    if not why.strip() or len(why) > _LONGEST_WHY:
        raise UsageError(f"--why takes a reason of 1 to {_LONGEST_WHY:,} characters")
    frontier = Frontier(load())
    kinds = [kind] if kind else _kinds(frontier, host, resume=resume)
    done = [
        frontier.cases.close(
            host,
            one,
            who=who.strip() or _login_name(),
            why=why.strip(),
            closed_at=datetime.now(UTC).isoformat(timespec="seconds"),
            resume=resume,
        )
        for one in kinds
    ]
    if as_json:
        print_json({"host": host, "closed": [_closed_fields(one) for one in done]})
        return
    for one in done:
        click.echo(f"closed {one.case.kind} of {host}{_what_follows(one)}")


def _kinds(frontier: Frontier, host: str, *, resume: bool) -> list[str]:
    """What to close where no kind is named: all open cases, or the refusal to be resumed."""
    kinds = sorted(case.kind for case in frontier.cases.open(host))
    (view,) = frontier.hosts.show([host])
    if resume and not (view.refuses_us or REFUSED in kinds):
        raise FrontierError(
            f"{host} is not stopped by a refusal; throttlectl show-host {host} tells why it waits"
        )
    if not (resume or kinds):
        raise FrontierError(
            f"{host} has no open case; throttlectl cases list shows those there are"
        )
    return [REFUSED] if resume else kinds


def _what_follows(one: ClosedCase) -> str:
    if one.case.kind != REFUSED:
        return ""
    if one.resumed:
        return "; it goes on with a clean pace"
    return (
        f"; it stays stopped: throttlectl cases close {one.case.host} --resume --why TEXT ends it"
    )


def _closed_fields(one: ClosedCase) -> dict[str, Any]:
    closing = {"closed_by": one.closed_by, "closed_at": one.closed_at, "why": one.why}
    return {**asdict(one.case), **closing, "resumed": one.resumed}


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError) as error:
        raise UsageError("this machine does not tell your login name; give --who NAME") from error


COMMANDS = (cases,)
