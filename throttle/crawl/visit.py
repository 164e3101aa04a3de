"""One execution of a crawl message: start, fetch, store, discover, finish."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from throttle.crawl.archive import WarcArchive
from throttle.crawl.fetcher import Fetcher
from throttle.crawl.page import Found, OnPage, Page
from throttle.crawl.robots_visit import RobotsVisit
from throttle.errors import AddressRefused, FetchError, InvalidURL, ServerUnreachable
from throttle.frontier.intake import Intake
from throttle.frontier.rules import RobotsBook
from throttle.frontier.startgate import Reply, Started, StartGate
from throttle.model import Candidate, End, GrantKind, Observation, Outcome, Response
from throttle.outcome import judge
from throttle.urls import canonical, origin_of, politeness_key

_log = logging.getLogger("throttle.visit")

T = TypeVar("T")

MAX_HOPS = 10
_RETRY_PAUSE_S = 0.25
_RETRY_S = 20.0

_NOT_NOW = Outcome(End.BACK, "robots unknown", "its robots.txt is not known any more", delay_s=1.0)
_TOO_LATE = Outcome(End.BACK, "too late", "the permission was too old when the request was ready")
_DISALLOWED = Outcome(End.REFUSED, "disallowed", "robots.txt disallows it")


class PermissionTooOld(Exception):
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
    sent, `new_request` names one execution.
    """

    def __init__(
        self,
        gate: StartGate,
        book: RobotsBook,
        intake: Intake,
        fetcher: Fetcher,
        on_page: OnPage,
        robots: RobotsVisit,
        archive: WarcArchive | None,
        *,
        follow_hosts: bool,
        max_tries: int,
        valid_s: float,
        clock: Callable[[], float],
        new_request: Callable[[], str],
    ) -> None:
        self._gate = gate
        self._book = book
        self._intake = intake
        self._fetcher = fetcher
        self._on_page = on_page
        self._robots = robots
        self._archive = archive
        self._follow_hosts = follow_hosts
        self._max_tries = max_tries
        self._valid_s = valid_s
        self._clock = clock
        self._new_request = new_request

    def run(self, grant_id: str, key: str, *, redelivered: bool) -> str:
        """Visits the URL of a grant, and says in a word what became of it."""
        request = self._new_request()

        def show() -> tuple[float, Reply, Started | None]:
            asked_at_s = self._clock()
            reply, started = self._gate.start(
                grant_id, key, request=request, redelivered=redelivered
            )
            return asked_at_s, reply, started

        asked_at_s, reply, started = self._persist(show)
        if started is None:
            return reply.value
        permission = Permission(started, asked_at_s)
        outcome, sent_at_s = self._fetch(permission)
        wire_s = None if sent_at_s is None else permission.wire_s(sent_at_s)
        self._persist(lambda: self._gate.finish(started, outcome, wire_s))
        return outcome.name

    def _fetch(self, permission: Permission) -> tuple[Outcome, float | None]:
        """The outcome, and when the request reached the wire (boot clock), None for never."""
        started = permission.started
        refusal = self._refusal(started)
        if refusal is not None:
            return refusal, None
        try:
            response = self._fetcher.fetch(
                started.entry.url,
                may_send=lambda: self._still_valid(permission),
                on_sent=lambda sent_at_s: self._sent(permission, sent_at_s),
            )
        except PermissionTooOld:
            return _TOO_LATE, None
        except FetchError as error:
            return self._failed(started, error), error.sent_at_s
        if started.kind is GrantKind.ROBOTS:
            return self._robots.answered(started, response), response.sent_at_s
        return self._answered(started, response), response.sent_at_s

    def _refusal(self, started: Started) -> Outcome | None:
        """Why this page must not be fetched, judged by the robots.txt in force now."""
        if politeness_key(started.entry.url) != started.key:
            return Outcome(End.REFUSED, "foreign", "the URL is not of the grant's host")
        if started.kind is GrantKind.ROBOTS:
            return None
        record = started.robots
        if record.version == "0" or record.state == "unreachable":
            return _NOT_NOW
        rules = self._book.rules(origin_of(started.entry.url), record)
        return None if rules.allows(started.entry.url) else _DISALLOWED

    def _still_valid(self, permission: Permission) -> None:
        if self._clock() - permission.asked_at_s > self._valid_s:
            raise PermissionTooOld

    def _sent(self, permission: Permission, sent_at_s: float) -> None:
        """With a concurrency above 1 the next start waits for this request's wire time."""
        if permission.started.concurrency > 1:
            try:
                self._gate.sent(permission.started, permission.wire_s(sent_at_s))
            except ServerUnreachable as error:
                _log.warning("wire time of %s goes with its finish: %s", permission.started.key, error)

    def _failed(self, started: Started, error: FetchError) -> Outcome:
        if started.kind is GrantKind.ROBOTS:
            return self._robots.failed(started, error)
        if isinstance(error, AddressRefused):
            return Outcome(End.REFUSED, "address refused", error.reason)
        return self._judged(Observation(error=error.reason, tries=started.entry.tries))

    def _answered(self, started: Started, response: Response) -> Outcome:
        location = response.header("location")
        outcome = self._judged(
            Observation(
                status=response.status,
                location=location,
                retry_after=response.header("retry-after"),
                tries=started.entry.tries,
            )
        )
        if outcome.name == "redirect":
            return self._redirected(started, location or "", outcome)
        if outcome.end is not End.DONE or not 200 <= response.status < 300:
            self._store(response, Found())
            return outcome
        return self._handled(started, response, outcome)

    def _handled(self, started: Started, response: Response, outcome: Outcome) -> Outcome:
        entry = started.entry
        try:
            found = self._on_page(Page(entry.url, entry.depth, response))
        except Exception as error:  # noqa: BLE001 - user code may raise anything; it ends its page only
            _log.exception("on_page failed for %s", entry.url)
            return Outcome(End.DEAD, "on_page failed", f"{type(error).__name__}: {error}"[:300])
        self._store(response, found)
        self._discover([self._candidate(url, entry.depth + 1, 0) for url in found.links])
        return outcome

    def _redirected(self, started: Started, location: str, outcome: Outcome) -> Outcome:
        entry = started.entry
        if entry.hops >= MAX_HOPS:
            return Outcome(End.DEAD, "redirect loop", f"more than {MAX_HOPS} redirects in a row")
        try:
            target = canonical(location, entry.url)
        except InvalidURL as error:
            return Outcome(End.DEAD, "redirect invalid", error.reason)
        self._discover([self._candidate(target, entry.depth, entry.hops + 1)])
        return outcome

    def _discover(self, candidates: list[Candidate]) -> None:
        if candidates:
            self._persist(lambda: self._intake.add(candidates))

    def _candidate(self, url: str, depth: int, hops: int) -> Candidate:
        return Candidate(url, depth, hops, only_known_hosts=not self._follow_hosts)

    def _store(self, response: Response, found: Found) -> None:
        if self._archive is not None:
            self._archive.write(
                response, self._fetcher.request_headers(response.url), records=found.records
            )

    def _judged(self, observation: Observation) -> Outcome:
        return judge(observation, max_tries=self._max_tries, now=datetime.now(UTC))

    def _persist(self, call: Callable[[], T]) -> T:
        """Asks again while Redis is away for a moment; every verb used here may be repeated."""
        until = time.monotonic() + _RETRY_S
        while True:
            try:
                return call()
            except ServerUnreachable:
                if time.monotonic() > until:
                    raise
                time.sleep(_RETRY_PAUSE_S)
