"""A frontier for tests: all its parts on one Redis, and short words for the steps of a URL."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.servers import wait_until
from throttle.frontier.cases import Cases
from throttle.frontier.census import Census, Count
from throttle.frontier.claims import Claims
from throttle.frontier.ends import Ends
from throttle.frontier.hosts import Hosts
from throttle.frontier.intake import Bounds, Intake
from throttle.frontier.keys import Keys
from throttle.frontier.leases import Leases, Owned
from throttle.frontier.paces import decode_pace
from throttle.frontier.refill import Refill
from throttle.frontier.rules import RobotsBook
from throttle.frontier.scripts import connect
from throttle.frontier.seen import Seen
from throttle.frontier.startgate import Dropped, Finished, PaceChange, Reply, Started, StartGate
from throttle.model import (
    Answer,
    BlockedBy,
    Candidate,
    Case,
    End,
    Grant,
    GrantKind,
    HostPolicy,
    Outcome,
    Verdict,
)
from throttle.pace import Decision
from throttle.urls import origin_of, politeness_key

FOREVER_S = 3600.0
"""An interval that never passes in a test."""


class KnownBook(RobotsBook):
    """A book for the rules of hosts that have no URL yet: storing makes the host known."""

    def store(self, origin: str, *args: Any, **settings: Any) -> None:
        """As `RobotsBook.store`, which keeps nothing of an unknown host."""
        key = politeness_key(origin)
        hosts = self._keys.named(self._keys.partition_of(key), "hosts")[0]
        self._scripts.client.sadd(hosts, key)
        super().store(origin, *args, **settings)


class Parts:
    """All parts of a frontier with all leases held, and a look at what lies in Redis."""

    def __init__(
        self,
        url: str,
        *,
        interval_s: float = FOREVER_S,
        burst: int = 1,
        concurrency: int = 1,
        partitions: int = 1,
        host_depth: int = 1000,
        max_pages: int = 0,
        max_pages_per_host: int = 0,
        max_depth: int = 0,
        error_rate: float | None = None,
        max_tries: int = 3,
        grant_ttl_s: float = 60.0,
        start_ttl_s: float = 60.0,
        timeout_s: float = 5.0,
        crawl_delay_cap_s: float = 86_400.0,
    ) -> None:
        self.scripts = connect(url, timeout_s=timeout_s)
        self.client = self.scripts.client
        self.keys = Keys("test", partitions)
        self.book = KnownBook(
            self.scripts, self.keys, "examplebot", crawl_delay_cap_s=crawl_delay_cap_s
        )
        self.intake = Intake(
            self.scripts,
            self.keys,
            self.book,
            Bounds(host_depth, max_pages, max_pages_per_host, max_depth),
            Seen(error_rate),
        )
        self.hosts = Hosts(self.scripts, self.keys, HostPolicy(interval_s, burst, concurrency))
        self.census = Census(self.scripts, self.keys)
        self.cases = Cases(self.scripts, self.keys)
        self.ends = Ends(self.scripts, self.keys)
        self.dispatching = self.leases("dispatch", "dispatcher")
        self.issuing = self.leases("issue", "issuer")
        self.claims = Claims(
            self.scripts,
            self.keys,
            self.dispatching,
            grant_ttl_s=grant_ttl_s,
            max_tries=max_tries,
        )
        self.refill = Refill(self.scripts, self.keys, self.issuing)
        self.gate = StartGate(
            self.scripts, self.keys, worker="worker", start_ttl_s=start_ttl_s, max_tries=max_tries
        )
        self.hosts.publish_defaults(replace=True)
        self.owned = self.dispatching.renew()
        self.owned_to_issue = self.issuing.renew()

    def close(self) -> None:
        """Closes the connections."""
        self.client.close()

    def leases(self, role: str, holder: str, ttl_s: float = 60.0) -> Leases:
        """Leases of some holder, not yet taken."""
        return Leases(self.scripts, self.keys, role=role, holder=holder, ttl_s=ttl_s)

    def now_us(self) -> int:
        """Redis time in microseconds."""
        seconds, us = self.client.time()
        return seconds * 1_000_000 + us

    def pass_until(self, at_us: float) -> None:
        """Lets real time pass until Redis time is `at_us`."""
        wait_until(lambda: self.now_us() >= at_us, f"Redis time is {at_us:.0f}", every_s=0.002)

    def pass_s(self, seconds: float) -> None:
        """Lets real time pass on Redis's clock."""
        self.pass_until(self.now_us() + seconds * 1e6)

    def key(self, name: str, host: str = "") -> str:
        """The Redis key `name` of the partition of `host` (or of the first one)."""
        return self.keys.named(self.keys.partition_of(host) if host else 0, name)[0]

    def record(self, host: str) -> dict[str, str]:
        """The record of a host as it stands in Redis."""
        fields = self.client.hgetall(self.keys.of_host(host, "host"))
        return {name.decode(): value.decode() for name, value in fields.items()}

    def number(self, host: str, field: str) -> int:
        """A number in the record of a host; 0 where there is none."""
        return int(self.record(host).get(field, 0))

    def waiting(self, *origins: str) -> list[str]:
        """The URLs that wait in the lanes of `origins`, next one first."""
        lines: list[bytes] = []
        for origin in origins:
            lines += self.client.lrange(self.key(f"urls:{origin}", politeness_key(origin)), 0, -1)
        return [line.decode().split(" ")[3] for line in lines]

    def score(self, name: str, member: str, host: str = "") -> float | None:
        """The score of `member` in the sorted set `name`, None where it is not in."""
        score: float | None = self.client.zscore(self.key(name, host), member)
        return score

    def audited(self) -> Count:
        """The audit, which must find every URL and no fault."""
        count = self.census.count()
        assert count.faults == ()
        assert count.missing == 0
        return count


class Rig(Parts):
    """The frontier as issuer, dispatcher, worker and operator use it, in short words.

    One partition by default, so that a test may name every key. `interval_s`, `burst` and
    `concurrency` are the default policy.
    """

    _nonces = 0

    def add(self, *urls: str) -> list[Verdict]:
        """The verdicts on `urls`."""
        return [answer.verdict for answer in self.answers(urls)]

    def answers(self, urls: Iterable[str]) -> list[Answer]:
        """The whole answers on `urls`."""
        return self.intake.add([Candidate(url) for url in urls])

    def robots_ok(self, *urls: str, valid_s: float = FOREVER_S) -> None:
        """An empty robots.txt is in force for the origins of `urls`."""
        for url in urls:
            self.book.store(origin_of(url), "ok", valid_s, version="1")

    def issue(self, *keys: str) -> list[str]:
        """Issues what is due (and one token of `keys`, due or not); the keys that got one."""
        for key in keys:
            self.client.zadd(self.key("refill", key), {key: 0})
        parts = self.refill.due(self.owned_to_issue, 10_000)
        self.refill.issued([(part.owned, [(t.key, "") for t in part.tokens]) for part in parts])
        return [token.key for part in parts for token in part.tokens]

    def seed(self, *urls: str) -> None:
        """Adds `urls` with robots.txt in force and one token for each of their hosts."""
        self.robots_ok(*urls)
        assert set(self.add(*urls)) == {Verdict.ADDED}
        self.issue()

    def claim(self, most: int = 1000) -> list[Grant]:
        """Grants for hosts that may go now, `most` of each partition."""
        self._nonces += 1
        claimed = self.claims.claim([(one, most) for one in self.owned], f"n{self._nonces}.")
        return [grant for part in claimed for grant in part.grants]

    def claim_one(self) -> Grant:
        """The one grant that can be had now."""
        (grant,) = self.claim()
        return grant

    def start(
        self, grant: Grant, request: str = "request", *, redelivered: bool = False
    ) -> tuple[Reply, Started | None]:
        """What the gate says to a worker that shows `grant`."""
        shown = self.gate.start(grant.id, grant.key, request=request, redelivered=redelivered)
        return (shown.reply, None) if isinstance(shown, Dropped) else (Reply.GO, shown)

    def go(self, grant: Grant, request: str = "request") -> Started:
        """Passes the gate, which must say go."""
        reply, started = self.start(grant, request)
        assert reply is Reply.GO
        assert started is not None
        return started

    def finish(
        self,
        started: Started,
        end: End = End.DONE,
        *,
        wire_s: float | None = None,
        delay_s: float = 0.0,
        block_s: float = 0.0,
    ) -> bool:
        """Whether a started grant was closed; `wire_s` is None where nothing was sent.

        A `block_s` is a change of the pace that stands now.
        """
        outcome = Outcome(end, f"was {end}", "a reason", delay_s=delay_s)
        change = self.change(started.key, block_s=block_s) if block_s else None
        finished = self.gate.finish(started, outcome, wire_s, change)
        assert finished.conflict is None
        return finished.closed

    def stored_pace(self, host: str) -> bytes:
        """The pace of a host as Redis holds it; empty where there is none."""
        text: bytes | None = self.client.hget(self.keys.of_host(host, "host"), "pace")
        return text or b""

    def change(
        self,
        host: str,
        *,
        opened: int | None = None,
        block_s: float = 0.0,
        breaker_s: float = 0.0,
        refused_us: bool = False,
        case: Case | None = None,
    ) -> PaceChange:
        """A change made from the pace that stands now; `opened` None leaves that as it is."""
        stood = self.stored_pace(host)
        pace = decode_pace(stood)
        if opened is not None:
            pace = replace(pace, opened=opened)
        cause = BlockedBy.BACK_OFF if block_s else None
        decision = Decision(pace, block_s, cause, breaker_s=breaker_s, refused_us=refused_us)
        return PaceChange(stood, decision, case)

    def answer(
        self, started: Started, end: End = End.DONE, *, change: PaceChange | None = None
    ) -> Finished:
        """Closes a started grant, its request sent at its start, with a change of the pace."""
        outcome = Outcome(end, f"was {end}", "a reason")
        return self.gate.finish(started, outcome, started.now_s, change)

    def fetch(self, end: End = End.DONE) -> Grant:
        """Claims, starts and finishes the one page that may go now, its wire time at the start."""
        grant = self.claim_one()
        started = self.go(grant)
        assert self.finish(started, end, wire_s=started.now_s)
        return grant

    def open_clock(self, host: str) -> None:
        """Makes the clock of `host` as if its last request were long ago, and schedules it."""
        self.client.hset(self.keys.of_host(host, "host"), "tat_us", 1)
        self.hosts.pause(host, paused=False)

    def expire_now(self, *grants: Grant) -> None:
        """Makes the time of `grants` be up."""
        for grant in grants:
            self.client.zadd(self.key("grants", grant.key), {grant.id: 0}, xx=True)

    def expire(self) -> int:
        """Closes the grants whose time is up."""
        return sum(part.closed for part in self.claims.expire(self.owned))


def a_case(kind: str = "refused", host: str = "a.example", reason: str = "as an example") -> Case:
    """A case for a person to look at."""
    return Case(kind, host, f"http://{host}/", reason, "2026-11-06T08:47:37+00:00")


def foreign(owned: Iterable[Owned]) -> list[Owned]:
    """The same partitions with an epoch that is over."""
    return [Owned(one.partition, "0") for one in owned]


def pages(host: str, count: int) -> list[str]:
    """URLs of different pages of one host."""
    return [f"http://{host}/{number}" for number in range(count)]


def kinds(grants: Iterable[Grant]) -> list[tuple[GrantKind, str]]:
    """What the grants are for, in a form that is easy to compare."""
    return [(grant.kind, grant.url) for grant in grants]
