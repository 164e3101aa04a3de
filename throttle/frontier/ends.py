"""URLs that came to a bad end: listed with the reason, and tried again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from throttle.frontier.entries import decode
from throttle.frontier.keys import Keys
from throttle.frontier.scripts import Scripts
from throttle.model import Entry

_HOSTS_AT_ONCE = 500
_URLS_AT_ONCE = 500

EndList = Literal["dead", "refused"]


@dataclass(frozen=True, slots=True)
class Ended:
    """One URL that ended without being fetched, and why; `key` is its host's."""

    key: str
    entry: Entry
    reason: str


class Ends:
    """Reads the lists of ended URLs, a piece at a time."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def listed(self, end: EndList, hosts: Iterable[str]) -> Iterator[Ended]:
        """The URLs of `hosts` that ended so, per host the oldest first, in constant memory.

        Each piece is one moment: URLs that end or come back meanwhile may be missed or told twice.
        """
        for key, length in self._lengths(end, hosts):
            name = self._keys.of_host(key, end)
            for start in range(0, length, _URLS_AT_ONCE):
                (lines,) = self._scripts.read(
                    [("LRANGE", name, start, min(start + _URLS_AT_ONCE, length) - 1)]
                )
                yield from (_ended(key, line) for line in lines)

    def retry_dead(self, hosts: Iterable[str], most: int | None = None) -> int:
        """Lets dead URLs of `hosts` wait again, as `retry` does."""
        return self.retry("dead", hosts, most)

    def retry(self, end: EndList, hosts: Iterable[str], most: int | None = None) -> int:
        """Lets URLs of `hosts` that ended so wait again, the oldest first, their tries forgotten.

        At most `most` in all; one that ends so again meanwhile is not tried twice. How many there
        were.
        """
        revived = 0
        for key, length in self._lengths(end, hosts):
            wanted = length if most is None else min(length, most - revived)
            while wanted > 0:
                number = self._revive(end, key, min(wanted, _URLS_AT_ONCE))
                if number == 0:
                    break
                revived += number
                wanted -= number
        return revived

    def _revive(self, end: EndList, key: str, most: int) -> int:
        partition = self._keys.partition_of(key)
        return int(
            self._scripts.run(
                "revive",
                self._keys.named(partition, "ready", "refill", "totals"),
                [self._keys.prefix(partition), key, most, end],
            )
        )

    def _lengths(self, end: EndList, hosts: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Those of `hosts` that have such URLs, and how many."""
        waiting = iter(hosts)
        while keys := list(islice(waiting, _HOSTS_AT_ONCE)):
            lengths = self._scripts.read([("LLEN", self._keys.of_host(k, end)) for k in keys])
            yield from ((k, int(n)) for k, n in zip(keys, lengths, strict=True) if n)


def _ended(key: str, line: bytes) -> Ended:
    reason, _, entry = line.rpartition(b"\n")
    return Ended(key, decode(entry), reason.decode(errors="backslashreplace"))
