"""claim, release, recover, expire: the dispatcher's verbs on the frontier."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from throttle.errors import Fenced
from throttle.frontier.entries import decode
from throttle.frontier.keys import Keys
from throttle.frontier.leases import Leases, Owned
from throttle.frontier.scripts import Call, Scripts
from throttle.frontier.units import from_now, us_up
from throttle.model import Grant, GrantKind

_EXPIRED_PER_CALL = 1000


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one partition gave: grants, and when it wants to be asked again (seconds from now).

    `next_ready_s` and `next_expiry_s` are None where nothing is scheduled; the former is negative
    by how long a host that may go has been waiting for room. `open_grants` counts
    all grants of the partition, these included.
    """

    partition: int
    grants: tuple[Grant, ...]
    next_ready_s: float | None
    next_expiry_s: float | None
    open_grants: int


@dataclass(frozen=True, slots=True)
class Expired:
    """How many grants of a partition were closed, and the next expiry (seconds from now)."""

    partition: int
    closed: int
    next_expiry_s: float | None


class Claims:
    """The dispatcher's side of the frontier; every verb of a holder is fenced by its lease."""

    def __init__(
        self, scripts: Scripts, keys: Keys, leases: Leases, *, grant_ttl_s: float, max_tries: int
    ) -> None:
        self._scripts = scripts
        self._keys = keys
        self._leases = leases
        self._grant_ttl_us = us_up(grant_ttl_s)
        self._max_tries = max_tries

    def claim(self, shares: Sequence[tuple[Owned, int]], nonce: str) -> list[Claimed]:
        """Takes from each partition at most its share of hosts, one URL each, in one round trip.

        Raises `Fenced` when a lease was lost; grants made in other partitions then expire.
        """
        replies = self._scripts.run_many(
            [
                self._fenced(
                    "claim",
                    owned,
                    ("ready", "refill", "grants", "totals"),
                    [f"{nonce}{owned.partition:x}", share, self._grant_ttl_us],
                )
                for owned, share in shares
            ]
        )
        return [
            _claimed(owned.partition, _unfenced(reply, owned))
            for (owned, _), reply in zip(shares, replies, strict=True)
        ]

    def release(self, grants: Sequence[tuple[Grant, bool]]) -> int:
        """Gives grants back; the flag says whether the host's token was spent. How many were."""
        by_partition: dict[int, list[str]] = defaultdict(list)
        for grant, token_spent in grants:
            by_partition[self._keys.partition_of(grant.key)] += (
                grant.id,
                "token" if token_spent else "empty",
            )
        if not by_partition:
            return 0
        replies = self._scripts.run_many(
            [
                Call(
                    "release",
                    self._keys.named(partition, "ready", "refill", "grants", "totals"),
                    [self._keys.prefix(partition), *args],
                )
                for partition, args in by_partition.items()
            ]
        )
        return sum(replies)

    def recover(self, owned: Sequence[Owned], *, own_too: bool) -> int:
        """Gives back unstarted grants of former holders (`own_too`: of this one, as well)."""
        if not owned:
            return 0
        replies = self._scripts.run_many(
            [
                self._fenced(
                    "recover",
                    one,
                    ("ready", "refill", "grants", "totals"),
                    ["1" if own_too else "0"],
                )
                for one in owned
            ]
        )
        return sum(max(0, reply) for reply in replies)

    def expire(self, owned: Sequence[Owned]) -> list[Expired]:
        """Closes the grants whose time is up, in one round trip. Raises `Fenced`."""
        replies = self._scripts.run_many(
            [
                Call(
                    "expire",
                    [
                        *self._keys.named(one.partition, "ready", "refill", "grants", "totals"),
                        self._leases.key(one.partition),
                    ],
                    [
                        self._keys.prefix(one.partition),
                        self._leases.holder,
                        one.epoch,
                        self._max_tries,
                        _EXPIRED_PER_CALL,
                    ],
                )
                for one in owned
            ]
        )
        return [
            _expired(one.partition, _unfenced(reply, one))
            for one, reply in zip(owned, replies, strict=True)
        ]

    def _fenced(
        self, verb: str, owned: Owned, names: Sequence[str], args: Sequence[str | int]
    ) -> Call:
        return Call(
            verb,
            [*self._keys.named(owned.partition, *names), self._leases.key(owned.partition)],
            [self._keys.prefix(owned.partition), self._leases.holder, owned.epoch, *args],
        )


def _unfenced(reply: list[Any], owned: Owned) -> list[Any]:
    if reply[0] == b"fenced":
        raise Fenced(f"the lease of partition {owned.partition} has another holder now")
    return reply


def _claimed(partition: int, reply: list[Any]) -> Claimed:
    _, next_ready, next_expiry, open_grants, now, rows = reply
    return Claimed(
        partition,
        tuple(_grants(rows)),
        _overdue(next_ready, now),
        from_now(next_expiry, now),
        open_grants,
    )


def _expired(partition: int, reply: list[Any]) -> Expired:
    _, closed, next_expiry, now = reply
    return Expired(partition, closed, from_now(next_expiry, now))


def _grants(rows: list[bytes]) -> list[Grant]:
    return [
        Grant(
            rows[i].decode(),
            rows[i + 1].decode(),
            GrantKind(rows[i + 2].decode()),
            decode(rows[i + 3]).url,
        )
        for i in range(0, len(rows), 4)
    ]


def _overdue(at_us: int, now_us: int) -> float | None:
    return None if at_us < 0 else (at_us - now_us) / 1e6
