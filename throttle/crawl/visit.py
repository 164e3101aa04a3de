"""One execution of a crawl message: start, fetch, discover, finish."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from throttle.crawl.closing import Closing
from throttle.crawl.fetcher import Fetcher
from throttle.crawl.reading import Reading
from throttle.crawl.robots_visit import RobotsVisit
from throttle.errors import FetchError, FrontierError, ServerUnreachable
from throttle.frontier.rules import RobotsBook
from throttle.frontier.startgate import Dropped, Reply, Started, StartGate
from throttle.model import End, GrantKind, Outcome
from throttle.outcome import ADDRESS_REFUSED
from throttle.urls import origin_of, politeness_key

_log = logging.getLogger("throttle.visit")

T = TypeVar("T")

_RETRY_PAUSE_S = 0.25
_RETRY_S = 20.0
_FAULT_DELAY_S = 30.0

_NOT_NOW = Outcome(End.BACK, "robots unknown", "its robots.txt is not known any more", delay_s=1.0)
_TOO_LATE = Outcome(End.BACK, "too late", "the permission was too old when the request was ready")
_DISALLOWED = Outcome(End.REFUSED, "disallowed", "robots.txt disallows it")
_UNDIALLED = Outcome(
    End.REFUSED,
    ADDRESS_REFUSED,
    "its host's address may not be dialled; throttlectl show-host tells why",
)
_FOREIGN = Outcome(End.REFUSED, "foreign", "the URL is not of the grant's host")


class PermissionTooOldError(Exception):
    """The worker was held up between the start gate and the wire: the request is not sent."""


@dataclass(frozen=True, slots=True)
class Permission:
    """When the gate said go, on both clocks: Redis time, and this machine's boot clock before it.

    Redis answered after `asked_at_s`, so a wire time computed from it is never too early.
    """

    started: Started
    asked_at_s: float

    def wire_s(self, sent_at_s: float) -> float:
        """Redis time of a moment on the boot clock, at the latest."""
        return self.started.now_s + (sent_at_s - self.asked_at_s)


class Visit:
    """Runs crawl messages. Thread-safe; holds nothing between two of them.

    `clock` counts seconds since boot, `valid_s` is how long after the gate a request may still be
    sent, `is_dead` whether a worker has ended for certain, `new_request` names one execution.
    """

    def __init__(
        self,
        gate: StartGate,
        book: RobotsBook,
        fetcher: Fetcher,
        reading: Reading,
        robots: RobotsVisit,
        *,
        closing: Closing,
        valid_s: float,
        max_tries: int,
        clock: Callable[[], float],
        is_dead: Callable[[str], bool],
        new_request: Callable[[], str],
    ) -> None:
        self._gate = gate
        self._book = book
        self._fetcher = fetcher
        self._reading = reading
        self._robots = robots
        self._closing = closing
        self._valid_s = valid_s
        self._max_tries = max_tries
        self._clock = clock
        self._is_dead = is_dead
        self._new_request = new_request

    def run(self, grant_id: str, key: str, *, redelivered: bool) -> str:
        """Visits the URL of a grant, and says in a word what became of it."""
        request = self._new_request()

        def show() -> tuple[float, Started | Dropped]:
            asked_at_s = self._clock()
            return asked_at_s, self._gate.start(
                grant_id, key, request=request, redelivered=redelivered
            )

        asked_at_s, started = persist(show)
        if isinstance(started, Dropped):
            return self._drop(grant_id, key, started)
        permission = Permission(started, asked_at_s)
        outcome, sent_at_s = self._fetch(permission)
        wire_s = None if sent_at_s is None else permission.wire_s(sent_at_s)
        ended_s = permission.wire_s(self._clock())
        persist(lambda: self._closing.close(started, outcome, wire_s=wire_s, ended_s=ended_s))
        return outcome.name

    def _drop(self, grant_id: str, key: str, dropped: Dropped) -> str:
        """A worker that was only cut off may still be fetching: its grant's expiry decides then."""
        if dropped.reply is Reply.HELD and self._is_dead(dropped.worker):
            persist(lambda: self._gate.bury(grant_id, key, worker=dropped.worker))
            return "buried"
        return dropped.reply.value

    def _fetch(self, permission: Permission) -> tuple[Outcome, float | None]:
        """The outcome, and when the request reached the wire (boot clock), None for never."""
        started = permission.started
        refusal = self._refusal(started)
        if refusal is not None:
            return refusal, None
        read = self._robots if started.kind is GrantKind.ROBOTS else self._reading
        try:
            response = self._fetcher.fetch(
                started.entry.url,
                may_send=lambda: self._still_valid(permission),
                on_sent=lambda sent_at_s: self._sent(permission, sent_at_s),
            )
        except PermissionTooOldError:
            return _TOO_LATE, None
        except FetchError as error:
            fault, sent_at_s = error, error.sent_at_s
            return persist(lambda: read.failed(started, fault)), sent_at_s
        return self._read(started, lambda: read.answered(started, response)), response.sent_at_s

    def _read(self, started: Started, answered: Callable[[], Outcome]) -> Outcome:
        """A fault of ours (a full disk, a bug) costs the URL a try, and says so; no grant waits."""
        try:
            return persist(answered)
        except ServerUnreachable:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the grant must be closed
            _log.exception("cannot read the answer of %s", started.entry.url)
            reason = f"{type(error).__name__}: {error}"[:300]
            if started.kind is GrantKind.ROBOTS:
                return Outcome(End.DONE, "robots", reason)
            if started.entry.tries + 1 >= self._max_tries:
                return Outcome(End.DEAD, "worker fault", reason)
            return Outcome(End.AGAIN, "worker fault", reason, _FAULT_DELAY_S)

    def _refusal(self, started: Started) -> Outcome | None:
        """Why this URL must not be fetched, judged by the robots.txt in force now."""
        if politeness_key(started.entry.url) != started.key:
            return _FOREIGN
        if started.kind is GrantKind.ROBOTS:
            return None
        record = started.robots
        if record.version == "0" or record.state == "unreachable":
            return _NOT_NOW
        if record.is_undialled:
            return _UNDIALLED
        rules = persist(lambda: self._book.rules(origin_of(started.entry.url), record))
        return None if rules.allows(started.entry.url) else _DISALLOWED

    def _still_valid(self, permission: Permission) -> None:
        if self._clock() - permission.asked_at_s > self._valid_s:
            raise PermissionTooOldError

    def _sent(self, permission: Permission, sent_at_s: float) -> None:
        """With a concurrency above 1 the next start waits for this request's wire time."""
        started = permission.started
        if started.concurrency > 1:
            try:
                self._gate.sent(started, permission.wire_s(sent_at_s))
            except (ServerUnreachable, FrontierError) as fault:
                _log.warning("the wire time of %s goes with its finish: %s", started.key, fault)


def persist(call: Callable[[], T]) -> T:
    """Calls again while Redis is away for a moment: every verb of a worker may be repeated."""
    until = time.monotonic() + _RETRY_S
    while True:
        try:
            return call()
        except ServerUnreachable:
            if time.monotonic() > until:
                raise
            time.sleep(_RETRY_PAUSE_S)
