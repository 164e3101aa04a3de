"""start, sent, finish: the worker's verbs on the frontier. Here alone a fetch is allowed."""

from dataclasses import dataclass
from enum import StrEnum

from throttle.frontier.entries import decode, one_line
from throttle.frontier.keys import Keys
from throttle.frontier.paces import encode_case, encode_pace
from throttle.frontier.rules import RobotsRecord
from throttle.frontier.scripts import Scripts
from throttle.frontier.units import us_up
from throttle.model import Case, Entry, GrantKind, Outcome
from throttle.pace import Decision


class Reply(StrEnum):
    """What the start gate answers; only `GO` allows a fetch, every other drops the message."""

    GO = "go"
    EARLY = "early"
    STALE = "stale"
    DUPLICATE = "duplicate"
    HELD = "held"


@dataclass(frozen=True, slots=True)
class Started:
    """A grant that may be fetched now. `now_s` is Redis time at the gate."""

    grant_id: str
    key: str
    request: str
    now_s: float
    entry: Entry
    kind: GrantKind
    concurrency: int
    robots: RobotsRecord
    pace: bytes = b""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message to drop, and why; for `HELD`, the worker that started the grant."""

    reply: Reply
    worker: str = ""


@dataclass(frozen=True, slots=True)
class PaceChange:
    """What an answer changes of its host's pace; made from the pace stored as `made_from`."""

    made_from: bytes
    decision: Decision
    case: Case | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """Whether a grant was closed; `conflict` holds the pace to decide from anew, or is None."""

    closed: bool
    conflict: bytes | None = None


class StartGate:
    """The gate of one worker. Thread-safe. `start_ttl_s` bounds a started grant's life."""

    def __init__(
        self, scripts: Scripts, keys: Keys, *, worker: str, start_ttl_s: float, max_tries: int = 5
    ) -> None:
        self._scripts = scripts
        self._keys = keys
        self._worker = worker
        self._start_ttl_us = us_up(start_ttl_s)
        self._max_tries = max_tries

    def start(
        self, grant_id: str, key: str, *, request: str, redelivered: bool
    ) -> Started | Dropped:
        """Shows a grant. `request` names this execution: asking again with it is harmless."""
        partition = self._keys.partition_of(key)
        word, *rest = self._scripts.run(
            "start",
            self._keys.named(partition, "ready", "refill", "grants", "totals"),
            [
                self._keys.prefix(partition),
                grant_id,
                request,
                self._worker,
                "1" if redelivered else "0",
                self._start_ttl_us,
                key,
            ],
        )
        reply = Reply(word.decode())
        if reply is not Reply.GO:
            return Dropped(reply, rest[0].decode() if rest else "")
        now_us, entry, kind, concurrency, record, pace = rest
        return Started(
            grant_id,
            key,
            request,
            now_us / 1e6,
            decode(entry),
            GrantKind(kind.decode()),
            concurrency,
            RobotsRecord.decode(record),
            pace,
        )

    def sent(self, started: Started, wire_s: float) -> bool:
        """Says that the request reached the wire at `wire_s` (Redis time, at the latest)."""
        partition = self._keys.partition_of(started.key)
        return bool(
            self._scripts.run(
                "sent",
                self._keys.named(partition, "ready", "grants"),
                [self._keys.prefix(partition), started.grant_id, started.request, us_up(wire_s)],
            )
        )

    def finish(
        self,
        started: Started,
        outcome: Outcome,
        wire_s: float | None,
        change: PaceChange | None = None,
        case: Case | None = None,
    ) -> Finished:
        """Closes the grant; `wire_s` is None when nothing was sent, `change` when nothing was said.

        `case` is one to open without a change of the pace.

        Not closed without a conflict means that it was over already.
        """
        partition = self._keys.partition_of(started.key)
        word, *rest = self._scripts.run(
            "finish",
            self._keys.named(partition, "ready", "refill", "grants", "totals"),
            [
                self._keys.prefix(partition),
                started.grant_id,
                started.request,
                "" if wire_s is None else us_up(wire_s),
                outcome.end,
                outcome.name,
                one_line(outcome.reason),
                us_up(outcome.delay_s),
                *_pace_arguments(change, case),
            ],
        )
        return Finished(word == b"finished", rest[0] if word == b"conflict" else None)

    def bury(self, grant_id: str, key: str, *, worker: str) -> bool:
        """Gives back the URL of a started grant whose `worker` is dead for certain."""
        partition = self._keys.partition_of(key)
        return bool(
            self._scripts.run(
                "bury",
                self._keys.named(partition, "ready", "grants", "totals"),
                [self._keys.prefix(partition), grant_id, worker, self._max_tries],
            )
        )


def _pace_arguments(change: PaceChange | None, case: Case | None) -> list[str | bytes | int]:
    opened = change.case if change is not None and change.case is not None else case
    kind, text = (opened.kind, encode_case(opened)) if opened is not None else ("", "")
    if change is None:
        return ["", "", 0, 0, 0, "0", kind, text, ""]
    decision = change.decision
    return [
        change.made_from,
        encode_pace(decision.pace),
        us_up(decision.block_s),
        us_up(decision.breaker_s),
        decision.pace.opened,
        "1" if decision.refused_us else "0",
        kind,
        text,
        decision.blocked_by or "",
    ]
