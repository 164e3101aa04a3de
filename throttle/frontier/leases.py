"""Leases: which process works on which partitions, in the role `dispatch` or `issue`."""

from dataclasses import dataclass

from throttle.frontier.keys import Keys
from throttle.frontier.scripts import Call, Scripts
from throttle.frontier.units import us_down


@dataclass(frozen=True, slots=True)
class Owned:
    """A partition held under `epoch`; `is_new` right after it was taken over."""

    partition: int
    epoch: str
    is_new: bool = False


class Leases:
    """Takes and renews the leases of all partitions for one holder in one role."""

    def __init__(
        self, scripts: Scripts, keys: Keys, *, role: str, holder: str, ttl_s: float
    ) -> None:
        self._scripts = scripts
        self._keys = keys
        self._role = role
        self._ttl_us = us_down(ttl_s)
        self.holder = holder
        self.others: tuple[str, ...] = ()

    def renew(self) -> list[Owned]:
        """The partitions held now; those of a silent holder are taken over. One round trip.

        Who holds the rest is in `others` then.
        """
        replies = self._run("take")
        names = {holder.decode() for epoch, _, holder in replies if epoch == b"0"}
        self.others = tuple(sorted(names))
        return [
            Owned(partition, epoch.decode(), new == b"1")
            for partition, (epoch, new, _) in enumerate(replies)
            if epoch != b"0"
        ]

    def leave(self) -> None:
        """Gives all leases up, so that a successor need not wait for their end."""
        self._run("leave")

    def key(self, partition: int) -> str:
        """The lease's key, which every script of a holder checks."""
        return self._keys.named(partition, f"lease:{self._role}")[0]

    def _run(self, verb: str) -> list[list[bytes]]:
        return self._scripts.run_many(
            [
                Call("lease", [self.key(partition)], [self.holder, self._ttl_us, verb])
                for partition in range(self._keys.partitions)
            ]
        )
