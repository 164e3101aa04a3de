"""Names the hosts that still have URLs, and what each of them waits for."""

from dataclasses import dataclass
from itertools import islice

from throttle.cli.text import counted, safe
from throttle.frontier.bundle import Frontier
from throttle.frontier.hosts import HostView
from throttle.ops.waiting import waits_for

_AT_ONCE = 500
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Left:
    """A host with URLs that have not come to an end."""

    host: str
    waiting: int
    delayed: int
    in_flight: int
    waits_for: str

    def __str__(self) -> str:
        urls = self.waiting + self.delayed
        places = f"{urls} {'waits' if urls == 1 else 'wait'}, {self.in_flight} in flight"
        return f"{safe(self.host)}: {places}; {safe(self.waits_for)}"


def views(frontier: Frontier) -> list[HostView]:
    """All hosts as they stand, by name."""
    keys = iter(sorted(frontier.hosts.keys()))
    found: list[HostView] = []
    while batch := list(islice(keys, _AT_ONCE)):
        found += frontier.hosts.show(batch)
    return found


def left(frontier: Frontier) -> list[Left]:
    """The hosts that still have URLs, those with the most first."""
    ages = frontier.census.ages()
    found = [
        Left(view.key, view.waiting, view.delayed, view.in_flight, waits_for(view, ages))
        for view in views(frontier)
        if view.waiting + view.delayed + view.in_flight
    ]
    return sorted(found, key=lambda one: (-one.waiting - one.delayed, one.host))


def lines(found: list[Left]) -> list[str]:
    """The first of them for people, and how many more there are."""
    shown = [f"  {one}" for one in found[:_SHOWN]]
    more = len(found) - len(shown)
    return [*shown, f"  and {counted(more, 'more host')}"] if more else shown
