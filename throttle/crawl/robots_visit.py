"""What a worker does with the answer to a robots.txt: store the verdict, or follow its redirect."""

from collections.abc import Callable
from datetime import datetime

from throttle.durations import format_duration
from throttle.errors import AddressRefused, FetchError, InvalidURL
from throttle.frontier.rules import RobotsBook, RobotsRecord
from throttle.frontier.startgate import Started
from throttle.model import Case, End, Entry, Outcome, Response, Says
from throttle.retry_after import parse_retry_after
from throttle.robots import judge
from throttle.urls import canonical, politeness_key

MAX_HOPS = 5
"""RFC 9309 section 2.3.1.2: at least five redirects in a row are followed, also to other hosts."""
CHASE_S = 600.0
"""Seconds that a followed redirect may take before the origin is asked anew."""

UNDIALLED_S = 300.0
"""Seconds after which an address that may not be dialled is looked up anew."""

_THROTTLED = {429, 503}


class RobotsVisit:
    """Turns answers into what is in force of an origin. `ttl_s` is how long a file is trusted."""

    def __init__(
        self,
        book: RobotsBook,
        *,
        product: str,
        ttl_s: float,
        now: Callable[[], datetime],
        retry_after_cap_s: float = 86_400.0,
    ) -> None:
        self._book = book
        self._product = product
        self._ttl_s = ttl_s
        self._now = now
        self._retry_after_cap_s = retry_after_cap_s

    def answered(self, started: Started, response: Response) -> Outcome:
        """A response came: its rules are in force, or its redirect is queued at its own host."""
        if 300 <= response.status < 400 and response.status != 304:
            return self._redirected(started, response.header("location") or "")
        named = f"HTTP {response.status}"
        if response.status in _THROTTLED:
            wait_s = parse_retry_after(response.all_headers("retry-after"), self._now())
            at_least_s = min(wait_s or 0.0, self._retry_after_cap_s)
            self._store(started, response.status, b"", at_least_s, fault=named)
            return Outcome(End.DONE, "robots", named, says=Says.THROTTLED, retry_after_s=wait_s)
        self._store(started, response.status, response.body, fault=named)
        says = Says.ALIVE if response.status < 500 else Says.SILENT
        return Outcome(End.DONE, "robots", named, says=says)

    def failed(self, started: Started, error: FetchError) -> Outcome:
        """No response: nothing of the origin is fetched until it answers.

        Where its address may not be dialled, its pages come to their end as refused.
        """
        if isinstance(error, AddressRefused) and not started.entry.hops:
            version = f"{started.now_s * 1e6:.0f}"
            fault = error.told
            self._book.store_undialled(started.entry.origin, UNDIALLED_S, version, fault)
            return Outcome(End.DONE, "robots", error.told)
        self._store(started, None, b"", fault=error.told)
        return Outcome(End.DONE, "robots", error.told, says=Says.SILENT)

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
            reason = f"redirect: {error.reason}"
            self._store(started, None, b"", fault=reason)
            return Outcome(End.DONE, "robots", reason)
        record = self._record(entry.origin)
        self._book.store(
            entry.origin,
            "asked",
            CHASE_S,
            failures=record.failures,
            crawl_delay_s=record.crawl_delay_s,
            version=record.version,
        )
        self._book.chase(Entry(target, hops=entry.hops + 1, origin=entry.origin))
        return Outcome(End.DONE, "robots", "redirect")

    def _store(
        self,
        started: Started,
        status: int | None,
        body: bytes,
        at_least_s: float = 0.0,
        *,
        fault: str = "",
    ) -> None:
        """An unreachable file keeps the crawl delay that was known: silence is no faster pace.

        `fault` is why, where it turns out that it cannot be had.
        """
        origin = started.entry.origin
        record = self._record(origin)
        verdict = judge(status, body, self._product, record.failures, ttl_s=self._ttl_s)
        is_ok = verdict.state == "ok"
        if started.entry.hops:
            fault = f"redirect to {started.entry.url[:100]}: {fault}"
        delay_s = verdict.crawl_delay_s if is_ok else record.crawl_delay_s
        self._book.store(
            origin,
            verdict.state,
            max(verdict.until_s, at_least_s),
            failures=0 if is_ok else record.failures + 1,
            crawl_delay_s=delay_s,
            version=f"{started.now_s * 1e6:.0f}" if is_ok else record.version,
            body=verdict.body,
            case=self._case(started, delay_s or 0.0) if is_ok else None,
            fault="" if is_ok else fault,
        )

    def _case(self, started: Started, asked_s: float) -> Case | None:
        cap_s = self._book.crawl_delay_cap_s
        if asked_s <= cap_s:
            return None
        return Case(
            kind="crawl_delay_capped",
            host=politeness_key(started.entry.origin),
            url=started.entry.url,
            reason=(
                f"robots.txt asks for {format_duration(asked_s)} between two requests; applied is"
                f" the cap, {format_duration(cap_s)}"
            ),
            opened_at=self._now().isoformat(timespec="seconds"),
        )

    def _record(self, origin: str) -> RobotsRecord:
        return self._book.records([origin])[origin]
