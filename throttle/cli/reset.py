"""reset: begins the next generation of a crawl with nothing seen."""

from dataclasses import asdict
from datetime import UTC, datetime

import click

from throttle.cli.parameters import json_option
from throttle.cli.render import print_json
from throttle.errors import UsageError
from throttle.frontier.bundle import Frontier
from throttle.ops.resetting import begin_generation
from throttle.settings import load


@click.command()
@click.option("--keep-policies", is_flag=True, help="Keep the pace that was set for hosts.")
@click.option("--yes", is_flag=True, help="Do it: the seen set and waiting URLs can't be restored.")
@json_option
def reset(keep_policies: bool, yes: bool, as_json: bool) -> None:
    """Begin the next generation: drop all URLs, what was seen, and the counters.

    What sites asked for stays: robots.txt, clocks, blocks, refusals and cases; so does a pause.
    What the generation came to is kept, and shown by status. It is refused while anything is in
    flight.
    """
    frontier = Frontier(load())
    if not yes:
        totals = frontier.census.totals()
        raise UsageError(
            f"reset would drop {totals.waiting + totals.delayed} waiting URLs and forget"
            f" {totals.accepted} accepted ones; say --yes to do it"
        )
    begun = begin_generation(frontier, keep_policies=keep_policies, now=lambda: datetime.now(UTC))
    ended = begun.ended
    if as_json:
        print_json(
            {"ended": asdict(ended), "hosts": begun.hosts, "dropped": begun.dropped,
             "generation": ended.number + 1}
        )  # fmt: skip
        return
    totals_ = ended.totals
    click.echo(
        f"generation {ended.number} ended with {totals_['accepted']} accepted: {totals_['done']}"
        f" done, {totals_['refused']} refused, {totals_['dead']} dead, {begun.dropped} dropped;"
        f" generation {ended.number + 1} begins with {begun.hosts} hosts known from before"
    )


COMMANDS = (reset,)
