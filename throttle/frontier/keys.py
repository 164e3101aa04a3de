"""Names in Redis: partitions, their hash tags, and the keys under them."""

import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Keys:
    """Every key of one namespace; all keys of a partition share a hash tag, so one slot."""

    namespace: str
    partitions: int

    def partition_of(self, key: str) -> int:
        """The partition that the politeness key `key` belongs to."""
        return zlib.crc32(key.encode()) % self.partitions

    def prefix(self, partition: int) -> str:
        """What the names of all keys of `partition` begin with."""
        return f"{self.namespace}:{{{partition}}}:"

    def named(self, partition: int, *names: str) -> list[str]:
        """The keys of `partition` called `names`, in that order."""
        prefix = self.prefix(partition)
        return [prefix + name for name in names]

    def of_host(self, key: str, name: str) -> str:
        """The key `<prefix><name>:<key>` in the partition of `key`."""
        return f"{self.prefix(self.partition_of(key))}{name}:{key}"

    def shared(self, name: str) -> str:
        """A key that belongs to no partition."""
        return f"{self.namespace}:{name}"

    def wake_pattern(self, role: str) -> str:
        """The pub/sub pattern on which all partitions wake the role `dispatch` or `issue`."""
        return f"{self.namespace}:{{*}}:wake:{role}"

    def partition_in(self, channel: str) -> int:
        """The partition whose wake channel `channel` is."""
        return int(channel[len(self.namespace) + 2 :].split("}", 1)[0])
