"""due, issued, postpone: the issuer's verbs on the frontier."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from throttle.errors import Fenced
from throttle.frontier.keys import Keys
from throttle.frontier.leases import Leases, Owned
from throttle.frontier.scripts import Call, Scripts
from throttle.frontier.units import from_now, us_up
from throttle.model import DueToken


@dataclass(frozen=True, slots=True)
class Due:
    """The buckets of one partition whose next token is due.

    `next_due_s` is when the next one will be (seconds from now; 0 when the batch was full).
    """

    owned: Owned
    tokens: tuple[DueToken, ...]
    next_due_s: float | None


class Refill:
    """The issuer's side of the frontier; every verb is fenced by the issuer's lease."""

    def __init__(self, scripts: Scripts, keys: Keys, leases: Leases) -> None:
        self._scripts = scripts
        self._keys = keys
        self._leases = leases

    def due(self, owned: Sequence[Owned], most: int) -> list[Due]:
        """What is due in each partition, at most `most` each, in one round trip."""
        replies = self._scripts.run_many(
            [self._call("due", one, ("refill",), [most]) for one in owned]
        )
        return [_due(one, reply) for one, reply in zip(owned, replies, strict=True)]

    def issued(self, marks: Sequence[tuple[Owned, Sequence[tuple[str, str]]]]) -> None:
        """Marks published tokens: per partition, pairs of key and queue shape."""
        self._checked(
            [
                self._call(
                    "issued", owned, ("ready", "refill"), [x for pair in pairs for x in pair]
                )
                for owned, pairs in marks
                if pairs
            ]
        )

    def postpone(self, owned: Owned, keys: Sequence[str], delay_s: float, reason: str) -> None:
        """Puts off the buckets whose tokens could not be published."""
        self._checked(
            [
                self._call(
                    "postpone",
                    owned,
                    ("refill",),
                    [us_up(delay_s), " ".join(reason.split()), *keys],
                )
            ]
        )

    def _checked(self, calls: list[Call]) -> None:
        if calls and -1 in self._scripts.run_many(calls):
            raise Fenced("the issuer's lease has another holder now")

    def _call(
        self, verb: str, owned: Owned, names: Sequence[str], args: Sequence[str | int]
    ) -> Call:
        return Call(
            verb,
            [*self._keys.named(owned.partition, *names), self._leases.key(owned.partition)],
            [self._keys.prefix(owned.partition), self._leases.holder, owned.epoch, *args],
        )


def _due(owned: Owned, reply: list[Any]) -> Due:
    if reply[0] == b"fenced":
        raise Fenced(f"the issuer's lease of partition {owned.partition} has another holder now")
    _, next_due, now, rows = reply
    tokens = tuple(
        DueToken(rows[i].decode(), rows[i + 1], rows[i + 2] / 1e6, rows[i + 3].decode())
        for i in range(0, len(rows), 4)
    )
    return Due(owned, tokens, 0.0 if next_due == 0 else from_now(next_due, now))
