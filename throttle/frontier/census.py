"""Counting: totals of the crawl, the audit of where each URL lies, and who is alive."""

from dataclasses import dataclass, field

from throttle.frontier.keys import Keys
from throttle.frontier.scripts import Call, Scripts

_COUNTED = ("accepted", "done", "refused", "dead", "waiting", "delayed", "in_flight")


@dataclass(frozen=True, slots=True)
class Totals:
    """The counters of all partitions. `outcomes`, `robots` and `turned_away` break down by name.

    `turned_away` counts answers to candidates that were neither added nor seen, by reason.
    """

    accepted: int
    done: int
    refused: int
    dead: int
    waiting: int
    delayed: int
    in_flight: int
    full: int
    early: int
    hosts: int
    ready: int
    outcomes: dict[str, int]
    robots: dict[str, int]
    turned_away: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Count:
    """URLs counted where they lie, beside the counters of ends, and each disagreement found."""

    accepted: int
    done: int
    refused: int
    dead: int
    waiting: int
    delayed: int
    in_flight: int
    faults: tuple[str, ...]

    @property
    def missing(self) -> int:
        """Accepted URLs that lie nowhere (negative: URLs in two places)."""
        ended = self.done + self.refused + self.dead
        return self.accepted - ended - self.waiting - self.delayed - self.in_flight


class Census:
    """Reads counts; changes nothing but the pulse."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def totals(self) -> Totals:
        """The counters as kept along the way, in one round trip."""
        sums: dict[str, int] = {}
        hosts = ready = 0
        commands: list[tuple[str | bytes | int, ...]] = []
        for partition in range(self._keys.partitions):
            totals, members, going = self._keys.named(partition, "totals", "hosts", "ready")
            commands += (("HGETALL", totals), ("SCARD", members), ("ZCARD", going))
        replies = self._scripts.read(commands)
        for i in range(0, len(replies), 3):
            for name, number in _pairs(replies[i]).items():
                sums[name] = sums.get(name, 0) + int(number)
            hosts += int(replies[i + 1])
            ready += int(replies[i + 2])
        return Totals(
            **{name: sums.get(name, 0) for name in (*_COUNTED, "full", "early")},
            hosts=hosts,
            ready=ready,
            outcomes=_named(sums, "out:"),
            robots=_named(sums, "robots:"),
            turned_away=_named(sums, "away:"),
        )

    def count(self) -> Count:
        """Counts every URL where it lies; each partition at one moment of its own."""
        replies = self._scripts.run_many(
            [
                Call(
                    "audit",
                    self._keys.named(partition, "grants", "totals", "hosts"),
                    [self._keys.prefix(partition)],
                )
                for partition in range(self._keys.partitions)
            ]
        )
        sums = dict.fromkeys(_COUNTED, 0)
        faults: list[str] = []
        for rows, lines in replies:
            for name, number in zip(rows[::2], rows[1::2], strict=True):
                sums[name.decode()] += number
            faults += (line.decode() for line in lines)
        return Count(**sums, faults=tuple(faults))

    def pulse(self, role: str) -> None:
        """Says that `role` just did its round."""
        self._scripts.run("pulse", [self._keys.shared("pulse")], [role])

    def ages(self) -> dict[str, float]:
        """Seconds since each role last did its round; a role never seen is left out."""
        replies = self._scripts.read([("TIME",), ("HGETALL", self._keys.shared("pulse"))])
        seconds, us = replies[0]
        now_us = int(seconds) * 1_000_000 + int(us)
        pulses = _pairs(replies[1])
        return {role: max(0, now_us - int(at)) / 1e6 for role, at in pulses.items()}


def _pairs(reply: dict[bytes, bytes] | list[bytes]) -> dict[str, bytes]:
    items = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {name.decode(): value for name, value in items}


def _named(sums: dict[str, int], prefix: str) -> dict[str, int]:
    return {name[len(prefix) :]: n for name, n in sorted(sums.items()) if name.startswith(prefix)}
