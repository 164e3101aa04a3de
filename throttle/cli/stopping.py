"""Commands that stop a host, let it go again, or have its robots.txt asked for anew."""

import click

from throttle.cli.known import knowing
from throttle.cli.parameters import duration, host_key_of, json_option, moment
from throttle.cli.render import print_json, utc
from throttle.durations import LONGEST_S, format_duration
from throttle.errors import FrontierError, UsageError
from throttle.frontier.bundle import Frontier

_CALL_S = 10.0


@click.command("pause")
@click.argument("host", type=host_key_of)
@json_option
def pause(host: str, as_json: bool) -> None:
    """Let nothing new of HOST start; what is under way ends by itself."""
    frontier = knowing(host)
    frontier.hosts.pause(host, paused=True)
    _say(frontier, host, f"paused {host}; throttlectl resume lets it go on", as_json=as_json)


@click.command("block")
@click.argument("host", type=host_key_of)
@click.option("--for", "for_s", type=duration, help="From now on: 1h, 30m.")
@click.option("--until", "until_s", type=moment, help="ISO 8601; UTC where no zone is named.")
@json_option
def block(host: str, for_s: float | None, until_s: float | None, as_json: bool) -> None:
    """Let nothing new of HOST start --for a time or --until a moment; then it goes on by itself.

    A block is only extended: a longer one stays. throttlectl resume HOST --unblock ends it.
    """
    if (for_s is None) == (until_s is None):
        raise UsageError("give one of --for 1h and --until 2030-01-31T18:00:00Z")
    frontier = knowing(host)
    now_s = frontier.hosts.show([host])[0].now_s
    asked_s = until_s if until_s is not None else now_s + (for_s or 0.0)
    if asked_s <= now_s:
        raise UsageError(f"the block would be over already; it is {utc(now_s)} now")
    if asked_s - now_s > LONGEST_S:
        raise UsageError("too long a block; at most 366 days, or throttlectl pause")
    end_s = frontier.hosts.block(host, for_s=for_s, until_s=until_s)
    if end_s is None:
        raise FrontierError(f"{host} was removed meanwhile; nothing of it is left to block")
    # What passed between the two calls makes no longer block.
    is_longer = end_s > asked_s + _CALL_S
    left = format_duration((end_s if is_longer else asked_s) - now_s)
    longer = ", as before: it was blocked for longer already" if is_longer else ""
    _say(frontier, host, f"blocked {host} until {utc(end_s)} ({left}){longer}", as_json=as_json)


@click.command("resume")
@click.argument("host", type=host_key_of)
@click.option("--unblock", is_flag=True, help="End its block, back-off and breaker, too.")
@json_option
def resume(host: str, unblock: bool, as_json: bool) -> None:
    """Let the paused HOST go on, at its pace; with --unblock at once.

    A host that refused us stays stopped until its case is closed with --resume.
    """
    frontier = knowing(host)
    frontier.hosts.pause(host, paused=False)
    if unblock:
        frontier.hosts.unblock(host)
    (view,) = frontier.hosts.show([host])
    if view.refuses_us:
        more = f"; it refused us: throttlectl cases close {host} --resume --why TEXT lets it go on"
    elif max(view.blocked_until_s, view.breaker_until_s) > view.now_s:
        more = "; it is blocked still: --unblock ends that, throttlectl show-host tells why"
    else:
        more = ""
    _say(frontier, host, f"resumed {host}{more}", as_json=as_json)


@click.command("refresh-robots")
@click.argument("host", type=host_key_of)
@json_option
def refresh_robots(host: str, as_json: bool) -> None:
    """Have every robots.txt of HOST asked for again, before its next page."""
    count = knowing(host).hosts.refresh_robots(host)
    if as_json:
        print_json({"host": host, "origins": count})
    elif count:
        files = "1 robots.txt" if count == 1 else f"{count} robots.txt files"
        click.echo(f"{files} of {host} will be asked for again before its next page")
    else:
        click.echo(f"{host} has no robots.txt yet; it is asked for before the first page anyway")


def _say(frontier: Frontier, host: str, words: str, *, as_json: bool) -> None:
    if not as_json:
        click.echo(words)
        return
    (view,) = frontier.hosts.show([host])
    blocked_s = view.blocked_until_s if view.blocked_until_s > view.now_s else None
    state = {"paused": view.paused, "blocked_until": utc(blocked_s), "breaker": view.breaker}
    print_json({"host": host, **state, "refuses_us": view.refuses_us})


COMMANDS = (pause, block, resume, refresh_robots)
