"""What a worker does with the answer to a robots.txt: store the verdict, or follow its redirect."""

from throttle.errors import FetchError, InvalidURL
from throttle.frontier.rules import RobotsBook, RobotsRecord
from throttle.frontier.startgate import Started
from throttle.model import End, Entry, Outcome, Response
from throttle.robots import judge
from throttle.urls import canonical

MAX_HOPS = 5
"""RFC 9309 section 2.3.1.2: at least five redirects in a row are followed, also to other hosts."""
CHASE_S = 600.0
"""Seconds that a followed redirect may take before the origin is asked anew."""


class RobotsVisit:
    """Turns answers into what is in force of an origin. `ttl_s` is how long a file is trusted."""

    def __init__(self, book: RobotsBook, *, product: str, ttl_s: float) -> None:
        self._book = book
        self._product = product
        self._ttl_s = ttl_s

    def answered(self, started: Started, response: Response) -> Outcome:
        """A response came: its rules are in force, or its redirect is queued at its own host."""
        if 300 <= response.status < 400 and response.status != 304:
            return self._redirected(started, response.header("location") or "")
        self._store(started, response.status, response.body)
        return Outcome(End.DONE, "robots", f"status {response.status}")

    def failed(self, started: Started, error: FetchError) -> Outcome:
        """No response: nothing of the origin is fetched until it answers."""
        self._store(started, None, b"")
        return Outcome(End.DONE, "robots", error.reason)

    def _redirected(self, started: Started, location: str) -> Outcome:
        entry = started.entry
        if entry.hops >= MAX_HOPS:
            # Section 2.3.1.2: more redirects may count as unavailable, as a missing file does.
            self._store(started, 404, b"")
            return Outcome(End.DONE, "robots", f"more than {MAX_HOPS} redirects")
        try:
            target = canonical(location, entry.url)
        except InvalidURL as error:
            # Nowhere to go is no answer: nothing of the origin is fetched until there is one.
            self._store(started, None, b"")
            return Outcome(End.DONE, "robots", f"redirect: {error.reason}")
        record = self._record(entry.origin)
        self._book.store(
            entry.origin, "asked", CHASE_S, failures=record.failures, version=record.version
        )
        self._book.chase(Entry(target, hops=entry.hops + 1, origin=entry.origin))
        return Outcome(End.DONE, "robots", "redirect")

    def _store(self, started: Started, status: int | None, body: bytes) -> None:
        origin = started.entry.origin
        record = self._record(origin)
        verdict = judge(status, body, self._product, record.failures, ttl_s=self._ttl_s)
        is_ok = verdict.state == "ok"
        self._book.store(
            origin,
            verdict.state,
            verdict.until_s,
            failures=0 if is_ok else record.failures + 1,
            crawl_delay_s=verdict.crawl_delay_s,
            version=f"{started.now_s * 1e6:.0f}" if is_ok else record.version,
            body=verdict.body,
        )

    def _record(self, origin: str) -> RobotsRecord:
        return self._book.records([origin])[origin]
