"""What a worker makes of a page's answer: store it, discover its links, judge its outcome."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from throttle.crawl.archive import WarcArchive
from throttle.crawl.fetcher import Fetcher
from throttle.crawl.page import Found, OnPage, Page, checked
from throttle.errors import AddressRefused, FetchError, InvalidURL
from throttle.frontier.startgate import Started
from throttle.model import Candidate, End, Observation, Outcome, Response
from throttle.outcome import ADDRESS_REFUSED, judge
from throttle.urls import canonical

_log = logging.getLogger("throttle.reading")

ON_PAGE_FAILED = "on_page failed"
"""The outcome of a page for which the user's code failed."""

MAX_HOPS = 10
"""Redirects in a row that are followed, each at its own host's token."""


class Reading:
    """Reads answers. Thread-safe. `add` takes candidates into the frontier.

    Links go to the frontier before the visit is finished: a worker that dies in between leaves
    its page to be fetched again, never a page done whose links are lost.
    """

    def __init__(
        self,
        add: Callable[[list[Candidate]], object],
        fetcher: Fetcher,
        on_page: OnPage,
        archive: WarcArchive | None,
        *,
        follow_hosts: bool,
        max_tries: int,
        now: Callable[[], datetime],
    ) -> None:
        self._add = add
        self._fetcher = fetcher
        self._on_page = on_page
        self._archive = archive
        self._follow_hosts = follow_hosts
        self._max_tries = max_tries
        self._now = now

    def failed(self, started: Started, error: FetchError) -> Outcome:
        """No answer came."""
        if isinstance(error, AddressRefused):
            return Outcome(End.REFUSED, ADDRESS_REFUSED, error.told)
        return self._judged(Observation(error=error.reason, tries=started.entry.tries))

    def answered(self, started: Started, response: Response) -> Outcome:
        """An answer came; its page is stored and its links are in the frontier on return."""
        location = response.header("location")
        outcome = self._judged(
            Observation(
                status=response.status,
                location=location,
                retry_after=response.all_headers("retry-after"),
                tries=started.entry.tries,
            )
        )
        if outcome.name == "redirect":
            self._store(response, Found())
            return self._redirected(started, location or "", outcome)
        if outcome.end is not End.DONE or not 200 <= response.status < 300:
            self._store(response, Found())
            return outcome
        return self._handled(started, response, outcome)

    def _handled(self, started: Started, response: Response, outcome: Outcome) -> Outcome:
        entry = started.entry
        try:
            found = checked(self._on_page(Page(entry.url, entry.depth, response)), entry.url)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - user code may raise anything
            # It ends its page, with the reason, and no other.
            _log.exception("on_page failed for %s", entry.url)
            reason = f"{type(error).__name__}: {error}"[:300]
            return replace(outcome, end=End.DEAD, name=ON_PAGE_FAILED, reason=reason)
        self._store(response, found)
        self._discover([self._candidate(url, entry.depth + 1, 0) for url in found.links])
        return outcome

    def _redirected(self, started: Started, location: str, outcome: Outcome) -> Outcome:
        entry = started.entry
        if entry.hops >= MAX_HOPS:
            reason = f"more than {MAX_HOPS} redirects in a row"
            return replace(outcome, end=End.DEAD, name="redirect loop", reason=reason)
        try:
            target = canonical(location, entry.url)
        except InvalidURL as error:
            return replace(outcome, end=End.DEAD, name="redirect invalid", reason=error.reason)
        self._discover([self._candidate(target, entry.depth, entry.hops + 1)])
        return outcome

    def _discover(self, candidates: list[Candidate]) -> None:
        if candidates:
            self._add(candidates)

    def _candidate(self, url: str, depth: int, hops: int) -> Candidate:
        return Candidate(url, depth, hops, only_known_hosts=not self._follow_hosts)

    def _store(self, response: Response, found: Found) -> None:
        if self._archive is not None:
            self._archive.write(
                response, self._fetcher.request_headers(response.url), records=found.records
            )

    def _judged(self, observation: Observation) -> Outcome:
        return judge(observation, max_tries=self._max_tries, now=self._now())
