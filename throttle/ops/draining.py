"""Tells when a crawl has come to its end: nothing waits, is delayed or is in flight."""

import time
from collections.abc import Callable, Iterator

from throttle.errors import ServerUnreachable
from throttle.frontier.census import Census, Totals


def readings(
    census: Census, *, pause: Callable[[], object], patience_s: float = 30.0
) -> Iterator[tuple[Totals, bool]]:
    """The totals again and again, with True as soon as they are those of a drained crawl.

    `pause` is called between two of them. While Redis is away for less than `patience_s`
    seconds nothing is yielded. Raises `ServerUnreachable` after that.
    """
    before: Totals | None = None
    heard_s = time.monotonic()
    while True:
        try:
            totals = census.totals()
        except ServerUnreachable:
            if time.monotonic() - heard_s > patience_s:
                raise
        else:
            heard_s = time.monotonic()
            yield totals, drained(before, totals)
            before = totals
        pause()


def drained(before: Totals | None, now: Totals) -> bool:
    """Whether nothing is left, by two readings in a row.

    The partitions are read one after the other, so one reading may miss a URL that a page of a
    later partition adds to an earlier one. Its acceptance or that page's end shows as a
    difference between the two, since these counters only grow.
    """
    return before is not None and _is_quiet(now) and _grown(before) == _grown(now)


def _is_quiet(totals: Totals) -> bool:
    return totals.waiting == totals.delayed == totals.in_flight == 0


def _grown(totals: Totals) -> tuple[int, ...]:
    return totals.accepted, totals.done, totals.refused, totals.dead
