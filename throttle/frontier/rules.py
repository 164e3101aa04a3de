"""robots.txt in the frontier: what is in force per origin, stored once and cached parsed."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from throttle.frontier.entries import encode
from throttle.frontier.keys import Keys
from throttle.frontier.paces import encode_case
from throttle.frontier.scripts import Scripts
from throttle.frontier.units import us_down, us_up
from throttle.model import Case, Entry
from throttle.robots import RobotsRules, parse
from throttle.urls import politeness_key

_CACHED_ORIGINS = 2000
_CACHED_BYTES = 4 * 1024 * 1024
"""Of files as fetched: parsed, a file takes about twenty times its size."""
_UNDIALLED = "undialled-"


@dataclass(frozen=True, slots=True)
class RobotsRecord:
    """What the frontier knows of one origin's robots.txt; `until_s` is in Redis time."""

    state: str
    until_s: float = 0.0
    failures: int = 0
    crawl_delay_s: float | None = None
    version: str = "0"

    @property
    def is_undialled(self) -> bool:
        """Whether the origin's address may not be dialled: its pages have nowhere to come from."""
        return self.version.startswith(_UNDIALLED)

    @classmethod
    def decode(cls, line: bytes | None) -> "RobotsRecord":
        """The record in a stored line; `unknown` where there is none."""
        if not line:
            return cls("unknown")
        state, until_us, failures, delay_us, version = line.decode().split(" ")
        delay = int(delay_us) / 1e6 or None
        return cls(state, int(until_us) / 1e6, int(failures), delay, version)


class RobotsBook:
    """Reads and stores robots.txt of origins. Thread-safe."""

    def __init__(
        self, scripts: Scripts, keys: Keys, product: str, *, crawl_delay_cap_s: float = 86_400.0
    ) -> None:
        self.crawl_delay_cap_s = crawl_delay_cap_s
        self._scripts = scripts
        self._keys = keys
        self._product = product
        self._parsed: OrderedDict[tuple[str, str], RobotsRules] = OrderedDict()
        self._bytes: dict[tuple[str, str], int] = {}
        self._lock = Lock()

    def records(self, origins: Iterable[str]) -> dict[str, RobotsRecord]:
        """The record of each origin, in one round trip."""
        wanted = list(dict.fromkeys(origins))
        if not wanted:
            return {}
        replies = self._scripts.read(
            [("HGET", self._keys.of_host(politeness_key(o), "origins"), o) for o in wanted]
        )
        return {o: RobotsRecord.decode(r) for o, r in zip(wanted, replies, strict=True)}

    def in_force(self, origins: Iterable[str]) -> dict[str, RobotsRules]:
        """The rules of those origins whose robots.txt is known; the others are left out.

        So are those whose address may not be dialled: a setting may change that at any time.
        """
        return {
            origin: self.rules(origin, record)
            for origin, record in self.records(origins).items()
            if record.version != "0" and not record.is_undialled
        }

    def rules(self, origin: str, record: RobotsRecord) -> RobotsRules:
        """The parsed rules of `origin` in the version that `record` names, cached."""
        wanted = (origin, record.version)
        with self._lock:
            if wanted in self._parsed:
                self._parsed.move_to_end(wanted)
                return self._parsed[wanted]
        body = self._scripts.read(
            [("HGET", self._keys.of_host(politeness_key(origin), "robots"), origin)]
        )[0]
        parsed = parse(body or b"", self._product)
        with self._lock:
            self._parsed[wanted] = parsed
            self._bytes[wanted] = len(body or b"")
            while len(self._parsed) > _CACHED_ORIGINS or sum(self._bytes.values()) > _CACHED_BYTES:
                oldest, _ = self._parsed.popitem(last=False)
                del self._bytes[oldest]
        return parsed

    def store(
        self,
        origin: str,
        state: str,
        valid_s: float,
        *,
        failures: int = 0,
        crawl_delay_s: float | None = None,
        version: str,
        body: bytes = b"",
        case: Case | None = None,
        fault: str = "",
    ) -> None:
        """Puts `body` in force for `valid_s` seconds, or notes that it is `unreachable`/`asked`.

        `crawl_delay_s` is what the file asks for; the host's pace follows it up to the cap.
        `fault` says why it cannot be had; it is shown with the host until a file is in force.
        Of a host that was removed meanwhile nothing is kept.
        """
        key = politeness_key(origin)
        partition = self._keys.partition_of(key)
        self._scripts.run(
            "robots",
            self._keys.named(partition, "ready", "refill", "totals", "hosts"),
            [
                self._keys.prefix(partition),
                key,
                origin,
                state,
                us_down(valid_s),
                failures,
                us_up(crawl_delay_s or 0),
                version,
                body,
                us_down(self.crawl_delay_cap_s),
                encode_case(case) if case else "",
                " ".join(fault.split()),
            ],
        )

    def store_undialled(self, origin: str, valid_s: float, version: str, fault: str = "") -> None:
        """Notes for `valid_s` seconds that the address of `origin` may not be dialled.

        Everything is disallowed then, as long as nobody knows what its robots.txt says.
        """
        body = b"User-agent: *\nDisallow: /\n"
        version = _UNDIALLED + version
        self.store(origin, "ok", valid_s, version=version, body=body, fault=fault)

    def chase(self, target: Entry) -> None:
        """Queues a redirected robots.txt at the host it leads to, where it pays its token."""
        key = politeness_key(target.url)
        partition = self._keys.partition_of(key)
        self._scripts.run(
            "chase",
            self._keys.named(partition, "ready", "refill", "hosts"),
            [self._keys.prefix(partition), key, encode(target)],
        )
