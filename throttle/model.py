"""The data that travels along the road: frozen, named after the domain, free of I/O."""

from dataclasses import dataclass
from enum import StrEnum


class GrantKind(StrEnum):
    """What a grant permits to fetch."""

    PAGE = "page"
    ROBOTS = "robots"


@dataclass(frozen=True, slots=True)
class Entry:
    """One URL as it waits in the frontier.

    `url` is canonical; `depth` counts links from the seed, `hops` redirects in a row and `tries`
    the starts that came to nothing. For robots.txt, `origin` names whose rules are being fetched
    (they may be fetched from another host after a redirect); it is empty for pages.
    """

    url: str
    depth: int = 0
    hops: int = 0
    tries: int = 0
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A URL that asks to be accepted: where it came from decides what may refuse it."""

    url: str
    depth: int = 0
    hops: int = 0
    only_known_hosts: bool = False


class Verdict(StrEnum):
    """The frontier's answer to one candidate."""

    ADDED = "added"
    SEEN = "seen"
    FULL = "full"
    DISALLOWED = "disallowed"
    INVALID = "invalid"
    OUTSIDE = "outside"
    TRAP = "trap"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one candidate, with the reason where it was not added."""

    url: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """The permission to fetch one URL once, made by a claim; `key` is the politeness key."""

    id: str
    key: str
    kind: GrantKind
    url: str


@dataclass(frozen=True, slots=True)
class DueToken:
    """A bucket whose next token is due; `queue_shape` is what its queue was last declared with."""

    key: str
    burst: int
    interval_s: float
    queue_shape: str


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """What the operator sets for a host; None leaves what stands.

    `cleared` names the fields that go back to the default.
    """

    interval_s: float | None = None
    burst: int | None = None
    concurrency: int | None = None
    cleared: frozenset[str] = frozenset()


class BlockedBy(StrEnum):
    """What a block of a host came from."""

    OPERATOR = "operator"
    RETRY_AFTER = "Retry-After"
    BACK_OFF = "back-off"
    SLOW_ANSWER = "slow answer"


class End(StrEnum):
    """Where a URL goes when its grant is closed; `BACK` is `AGAIN` without counting a try."""

    DONE = "done"
    REFUSED = "refused"
    DEAD = "dead"
    AGAIN = "again"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class Response:
    """What a host answered: `body` is decoded from its content coding and never over the limit."""

    url: str
    status: int
    reason: str
    http_version: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    raw_body: bytes
    address: str
    sent_at_s: float
    elapsed_s: float

    def header(self, name: str) -> str | None:
        """The first value of the header `name` (any case), or None."""
        return next(iter(self.all_headers(name)), None)

    def all_headers(self, name: str) -> tuple[str, ...]:
        """Every value of the header `name` (any case), one per line it was sent on."""
        wanted = name.lower()
        return tuple(value for key, value in self.headers if key.lower() == wanted)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a worker saw of one fetch: a status, or the error that took its place."""

    status: int | None = None
    location: str | None = None
    retry_after: tuple[str, ...] = ()
    error: str = ""
    tries: int = 0


class Says(StrEnum):
    """What an answer says of the host, not of the page.

    `ALIVE` and `SILENT` are a robots.txt that came or did not: they matter to an open breaker only,
    since one origin without an answer must not hold up the others of its host.
    """

    GOOD = "good"
    THROTTLED = "throttled"
    FAILED = "failed"
    REFUSED = "refused"
    ALIVE = "alive"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fetch means: the URL's end, its name for people, and what it says of the host.

    `delay_s` postpones the URL (with `End.AGAIN` and `End.BACK`). `says` is None where the answer
    says nothing of the host. `retry_after_s` is how long the host asks us to stay away, None where
    it did not say so properly.
    """

    end: End
    name: str
    reason: str = ""
    delay_s: float = 0.0
    says: Says | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Something that a person should look at; one is open per host and kind."""

    kind: str
    host: str
    url: str
    reason: str
    opened_at: str
