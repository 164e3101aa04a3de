"""Cases: what a person should look at, one open per host and kind, and how each was closed."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from throttle.errors import FrontierError, UsageError
from throttle.frontier.keys import Keys
from throttle.frontier.paces import encode_case
from throttle.frontier.scripts import Scripts
from throttle.model import Case

REFUSED = "refused"
"""The kind of case that stops its host."""

ADDRESS = "address_refused"
"""The kind of case of a host whose address may not be dialled."""

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ClosedCase:
    """A case that a person closed: `resumed` tells whether its host was let go by that."""

    case: Case
    closed_by: str
    closed_at: str
    why: str
    resumed: bool


class Cases:
    """Reads and closes cases. Those of one host lie in its partition."""

    def __init__(self, scripts: Scripts, keys: Keys) -> None:
        self._scripts = scripts
        self._keys = keys

    def open(self, host: str | None = None) -> Iterator[Case]:
        """The open cases, of all hosts or of `host`, in no order, in constant memory."""
        for partition in self._partitions(host):
            (name,) = self._keys.named(partition, "cases")
            cursor = b"0"
            while True:
                cursor, pairs = self._scripts.read([("HSCAN", name, cursor, "COUNT", _AT_ONCE)])[0]
                texts = pairs.values() if isinstance(pairs, dict) else pairs[1::2]
                found = (Case(**json.loads(text)) for text in texts)
                yield from (case for case in found if host in {None, case.host})
                if int(cursor) == 0:
                    break

    def closed(self, host: str | None = None) -> Iterator[ClosedCase]:
        """The closed cases, of all hosts or of `host`; within a partition the oldest first."""
        for partition in self._partitions(host):
            (name,) = self._keys.named(partition, "closed")
            start = 0
            while texts := self._scripts.read([("LRANGE", name, start, start + _AT_ONCE - 1)])[0]:
                found = (_closed(text) for text in texts)
                yield from (one for one in found if host in {None, one.case.host})
                start += len(texts)

    def count_by_kind(self) -> dict[str, int]:
        """How many cases of each kind are open, by name."""
        names = [self._keys.named(p, "cases")[0] for p in range(self._keys.partitions)]
        kinds: Counter[str] = Counter()
        for fields in self._scripts.read([("HKEYS", name) for name in names]):
            kinds.update(field.decode().partition(" ")[0] for field in fields)
        return dict(sorted(kinds.items()))

    def close(
        self, host: str, kind: str, *, who: str, why: str, closed_at: str, resume: bool
    ) -> ClosedCase:
        """Closes the case of `kind`; with `resume` a host that refused us may go again.

        `closed_at` is the time of day (ISO 8601). A refusal that was closed without `resume` can
        be closed once more with it. Raises `FrontierError` where there is nothing to close, and
        `UsageError` for a `resume` of a kind that stops no host.
        """
        if resume and kind != REFUSED:
            raise UsageError(f"a case of kind {kind} stops no host; close it without --resume")
        partition = self._keys.partition_of(host)
        (text,) = self._scripts.read(
            [("HGET", *self._keys.named(partition, "cases"), _field(kind, host))]
        )
        case = Case(**json.loads(text)) if text else self._last_closed(host, kind)
        if case is None:
            raise _nothing(host, kind)
        closing = {"closed_by": who, "closed_at": closed_at, "why": why}
        done = self._scripts.run(
            "close",
            self._keys.named(partition, "ready", "cases", "closed"),
            [
                self._keys.prefix(partition),
                host,
                kind,
                encode_case(case, **closing, resumed="yes" if resume else "no"),
                "1" if resume else "0",
            ],
        )
        if not done:
            raise _nothing(host, kind)
        return ClosedCase(case, who, closed_at, why, resume)

    def _last_closed(self, host: str, kind: str) -> Case | None:
        last = None
        for one in self.closed(host):
            if one.case.kind == kind:
                last = one.case
        return last

    def _partitions(self, host: str | None) -> range:
        if host is None:
            return range(self._keys.partitions)
        partition = self._keys.partition_of(host)
        return range(partition, partition + 1)


def _field(kind: str, host: str) -> str:
    return f"{kind} {host}"


def _nothing(host: str, kind: str) -> FrontierError:
    return FrontierError(
        f"{host} has no open case of kind {kind}; throttlectl cases show {host} tells what it has"
    )


def _closed(text: bytes) -> ClosedCase:
    fields = json.loads(text)
    closing = {name: fields.pop(name, "") for name in ("closed_by", "closed_at", "why", "resumed")}
    resumed = closing.pop("resumed") == "yes"
    return ClosedCase(Case(**fields), **closing, resumed=resumed)
