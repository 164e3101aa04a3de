"""Generations of a crawl: what each came to, and the clean start of the next."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from throttle.errors import FrontierError
from throttle.frontier.census import Totals
from throttle.frontier.keys import Keys
from throttle.frontier.scripts import Call, Scripts

_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Generation:
    """What generation `number` came to: its totals at `ended_at` (ISO 8601, UTC)."""

    number: int
    ended_at: str
    totals: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begun:
    """A new generation began: what the one before came to, and what was dropped with it."""

    ended: Generation
    hosts: int
    dropped: int


class Generations:
    """Keeps the record of generations, and begins new ones. The first has the number 1."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys
        self._name = keys.shared("generations")

    def number(self) -> int:
        """The number of the generation under way."""
        return int(self._scripts.read([("HGET", self._name, "number")])[0] or 1)

    def ended(self) -> list[Generation]:
        """The generations that came to an end, the last one last; a drained one is among them."""
        fields = self._scripts.read([("HGETALL", self._name)])[0]
        pairs = (
            fields.items() if isinstance(fields, dict) else zip(*[iter(fields)] * 2, strict=True)
        )
        found = [_decode(text) for name, text in pairs if name.startswith(b"ended:")]
        return sorted(found, key=lambda one: one.number)

    def record(self, totals: Totals, ended_at: str) -> Generation:
        """Keeps what the generation under way came to; again, in place of what was kept."""
        one = Generation(self.number(), ended_at, asdict(totals))
        self._scripts.read([("HSET", self._name, f"ended:{one.number}", _encode(one))])
        return one

    def begin(
        self,
        totals: Totals,
        ended_at: str,
        keys: Iterator[str],
        *,
        keep_policies: bool,
        between: Callable[[], object],
    ) -> Begun:
        """Drops URLs, seen sets and counters of the hosts `keys`, a few hundred at a time.

        `totals` are those of the ending generation; `between` is called between two steps. Cut
        off, it goes on when called again. Raises `FrontierError` while anything is in flight.
        """
        self._refuse_busy([[b"busy", open_] for open_ in self._grants_open()])
        ending = self._ending(totals, ended_at)
        self._recount()
        hosts = dropped = 0
        while batch := list(islice(keys, _AT_ONCE)):
            between()
            hosts += len(batch)
            dropped += self._reset(batch, keep_policies=keep_policies)
        self._scripts.read(
            [
                ("DEL", self._keys.shared("budget")),
                (
                    "HSET", self._name,
                    f"ended:{ending.number}", _encode(ending),
                    "number", ending.number + 1,
                ),
                ("HDEL", self._name, "ending"),
            ]
        )  # fmt: skip
        return Begun(ending, hosts, dropped)

    def _grants_open(self) -> list[int]:
        return self._scripts.read(
            [("ZCARD", self._keys.named(n, "grants")[0]) for n in range(self._keys.partitions)]
        )

    def _ending(self, totals: Totals, ended_at: str) -> Generation:
        """What is kept of the ending generation: a begin that was cut off has its totals."""
        new = Generation(self.number(), ended_at, asdict(totals))
        stored = self._scripts.read([("HGET", self._name, "ending")])[0]
        begun = _decode(stored) if stored else new
        if begun.number == new.number:
            new = begun
        self._scripts.read([("HSET", self._name, "ending", _encode(new))])
        return new

    def _recount(self) -> None:
        calls = [
            Call(
                "recount",
                self._keys.named(partition, "totals", "grants"),
                [self._keys.prefix(partition)],
            )
            for partition in range(self._keys.partitions)
        ]
        self._refuse_busy(self._scripts.run_many(calls))

    def _reset(self, keys: list[str], *, keep_policies: bool) -> int:
        kept = "1" if keep_policies else "0"
        calls = []
        for key in keys:
            partition = self._keys.partition_of(key)
            names = self._keys.named(partition, "ready", "refill", "totals")
            calls.append(Call("reset", names, [self._keys.prefix(partition), key, kept]))
        replies = self._scripts.run_many(calls)
        self._refuse_busy(replies)
        return sum(count for _, count in replies)

    def _refuse_busy(self, replies: list[list[Any]]) -> None:
        open_ = sum(reply[1] for reply in replies if reply[0] == b"busy")
        if open_:
            raise FrontierError(
                f"{open_} fetches are in flight; wait with throttlectl drain, or stop the"
                " dispatcher and wait until status shows none in flight"
            )


def _encode(one: Generation) -> str:
    return json.dumps(asdict(one), separators=(",", ":"))


def _decode(text: bytes) -> Generation:
    return Generation(**json.loads(text))
