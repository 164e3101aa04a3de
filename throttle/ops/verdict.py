"""Judges the promises of a crawl by the log of the site that was crawled."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from throttle.frontier.census import Count
from throttle.local.origin import Arrival

TOLERANCE_S = 0.005
"""How much shorter than its interval a gap may look at the site: it stamps what it has read."""

_ROBOTS = "/robots.txt"


@dataclass(frozen=True, slots=True)
class HostSeen:
    """One host as the site's log shows it. Times are seconds; `share` is 1 at the allowed rate.

    `smallest_gap_s` and `share` are None where there were fewer than two requests.
    """

    host: str
    pages: int
    requests: int
    interval_s: float
    smallest_gap_s: float | None
    share: float | None
    most_open: int
    forbidden: int
    robots_first: bool

    @property
    def slack_s(self) -> float:
        """By how much the smallest gap is longer than the interval."""
        return 0.0 if self.smallest_gap_s is None else self.smallest_gap_s - self.interval_s


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise, whether it held, and the figure that shows it."""

    name: str
    held: bool
    figure: str


def hosts_seen(
    arrivals: Iterable[Arrival], intervals_s: Mapping[str, float], forbidden: Sequence[str]
) -> list[HostSeen]:
    """The hosts of `intervals_s` as the site saw them; `forbidden` are prefixes of paths."""
    by_host: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in sorted(arrivals, key=lambda arrival: arrival.at_s):
        by_host[arrival.host].append(arrival)
    return [
        _host_seen(host, by_host[host], interval_s, tuple(forbidden))
        for host, interval_s in intervals_s.items()
    ]


def promises(arrivals: Sequence[Arrival], hosts: Sequence[HostSeen], count: Count) -> list[Promise]:
    """What was promised (burst 1, concurrency 1), held against the site's log and the audit."""
    return [
        _gap(hosts),
        _concurrency(hosts),
        _nothing_lost(count),
        _every_page_once(arrivals, count),
        _all_pay(arrivals, hosts),
        _robots(hosts),
    ]


def _host_seen(
    host: str, arrivals: list[Arrival], interval_s: float, forbidden: tuple[str, ...]
) -> HostSeen:
    gaps = [after.at_s - before.at_s for before, after in pairwise(arrivals)]
    return HostSeen(
        host=host,
        pages=sum(arrival.path != _ROBOTS for arrival in arrivals),
        requests=len(arrivals),
        interval_s=interval_s,
        smallest_gap_s=min(gaps, default=None),
        share=interval_s * len(gaps) / sum(gaps) if sum(gaps) > 0 else None,
        most_open=max((arrival.open_now for arrival in arrivals), default=0),
        forbidden=sum(arrival.path.startswith(forbidden) for arrival in arrivals),
        robots_first=not arrivals or arrivals[0].path == _ROBOTS,
    )


def _gap(hosts: Sequence[HostSeen]) -> Promise:
    slacks_s = [host.slack_s for host in hosts if host.smallest_gap_s is not None]
    gaps = sum(host.requests - 1 for host in hosts if host.requests)
    worst_s = min(slacks_s, default=0.0)
    return Promise(
        "gap",
        bool(slacks_s) and worst_s >= -TOLERANCE_S,
        f"{gaps} gaps, the least: its interval {worst_s * 1000:+.1f} ms"
        f" (-{TOLERANCE_S * 1000:g} ms would pass)",
    )


def _concurrency(hosts: Sequence[HostSeen]) -> Promise:
    most = max((host.most_open for host in hosts), default=0)
    return Promise("concurrency", most == 1, f"at most {most} open at once at a host")


def _nothing_lost(count: Count) -> Promise:
    ended = count.done + count.refused + count.dead
    held = count.accepted == ended and count.missing == 0 and not count.faults
    found = f"; {count.faults[0]}" if count.faults else ""
    return Promise(
        "nothing lost",
        held,
        f"{count.accepted} accepted = {count.done} done + {count.refused} refused"
        f" + {count.dead} dead{found}",
    )


def _every_page_once(arrivals: Sequence[Arrival], count: Count) -> Promise:
    pages = [(arrival.host, arrival.path) for arrival in arrivals if arrival.path != _ROBOTS]
    fetched = len(set(pages))
    again = len(pages) - fetched
    return Promise(
        "every page once",
        fetched == count.done + count.dead and fetched > 0 and again == 0,
        f"{fetched} of {count.done + count.dead} pages seen by the site, {again} of them twice",
    )


def _all_pay(arrivals: Sequence[Arrival], hosts: Sequence[HostSeen]) -> Promise:
    robots = sum(arrival.path == _ROBOTS for arrival in arrivals)
    known = sum(host.requests for host in hosts)
    most = max((host.share for host in hosts if host.share is not None), default=0.0)
    return Promise(
        "all pay",
        known == len(arrivals) and 0 < most <= 1.005,
        f"{len(arrivals)} requests, {robots} of them robots.txt; at most {most:.1%} of a rate",
    )


def _robots(hosts: Sequence[HostSeen]) -> Promise:
    forbidden = sum(host.forbidden for host in hosts)
    first = sum(host.robots_first for host in hosts)
    return Promise(
        "robots",
        forbidden == 0 and first == len(hosts),
        f"{forbidden} forbidden fetches; robots.txt first at {first} of {len(hosts)} hosts",
    )
