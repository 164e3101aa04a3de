"""Begins the next generation of a crawl, once nothing of this one is under way."""

from collections.abc import Callable
from datetime import datetime

from throttle.errors import FrontierError
from throttle.frontier.bundle import Frontier
from throttle.frontier.generations import Begun


def begin_generation(
    frontier: Frontier, *, keep_policies: bool, now: Callable[[], datetime]
) -> Begun:
    """Drops URLs, seen sets and counters of all hosts.

    Where URLs wait it holds the dispatcher's leases meanwhile, so that none of them is fetched.
    Raises `FrontierError` while something is in flight, or a dispatcher could fetch one.
    """
    totals = frontier.census.totals()
    leases = frontier.leases("dispatch")

    def hold() -> None:
        if len(leases.renew()) < frontier.keys.partitions:
            raise FrontierError(
                "URLs wait and a dispatcher is at work; wait with throttlectl drain, or stop the"
                " dispatcher first (one that was killed counts as gone after THROTTLE_LEASE_TTL)"
            )

    ended_at = now().isoformat(timespec="seconds")
    holds = totals.waiting + totals.delayed > 0
    try:
        if holds:
            hold()
        return frontier.generations.begin(
            totals,
            ended_at,
            frontier.hosts.keys(),
            keep_policies=keep_policies,
            between=hold if holds else lambda: None,
        )
    finally:
        if holds:
            leases.leave()
