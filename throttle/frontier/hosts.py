"""Hosts and their policies: set, show, list, remove."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from throttle.errors import FrontierError, UsageError
from throttle.frontier.keys import Keys
from throttle.frontier.paces import decode_pace
from throttle.frontier.rules import RobotsRecord
from throttle.frontier.scripts import Call, Scripts
from throttle.frontier.units import us_up
from throttle.model import BlockedBy, HostPolicy
from throttle.pace import Pace, interval_in_force


@dataclass(frozen=True, slots=True)
class HostView:
    """A host as it stands at one moment. Times are seconds; `now_s` is Redis time.

    `ready_at_s` and `refill_at_s` are when it may go and when its next token is due, None where
    an event must come first.
    """

    key: str
    now_s: float
    interval_s: float
    interval_source: str
    default_s: float
    operator_s: float | None
    crawl_delay_asked_s: float | None
    crawl_delay_s: float | None
    burst: int
    concurrency: int
    tokens: int
    waiting: int
    delayed: int
    in_flight: int
    done: int
    refused: int
    dead: int
    full: int
    clock_opens_s: float
    blocked_until_s: float
    breaker_until_s: float
    pace: Pace
    refuses_us: bool
    paused: bool
    ready_at_s: float | None
    refill_at_s: float | None
    next_delayed_s: float | None
    issue_fault: str
    robots: dict[str, RobotsRecord]
    blocked_by: BlockedBy | None = None
    held_until_s: float = 0.0
    robots_fault: str = ""

    @property
    def depth(self) -> int:
        """URLs that wait, now or for later."""
        return self.waiting + self.delayed

    @property
    def breaker(self) -> str:
        """`open` until its time, then `half-open`: one probe at a time; else `closed`."""
        if self.breaker_until_s > self.now_s:
            return "open"
        return "half-open" if self.pace.opened else "closed"


_FIELDS = {"interval_s": "operator_us", "burst": "burst", "concurrency": "concurrency"}
"""Where each field of a policy lies in the host's record."""


class Hosts:
    """What the operator may ask and set about hosts. `defaults` are the policy beneath all."""

    def __init__(self, scripts: Scripts, keys: Keys, defaults: HostPolicy) -> None:
        self._scripts = scripts
        self._keys = keys
        self._defaults = defaults

    def publish_defaults(self, *, replace: bool) -> None:
        """Writes the default policy into every partition; hosts without one of their own use it.

        Beat replaces what stands there, all others only fill an empty Redis, so that a shell with
        other settings changes nobody's pace. Raises `FrontierError` when this namespace was made
        with another number of partitions.
        """
        verb = "HSET" if replace else "HSETNX"
        defaults = {
            "interval_us": us_up(self._defaults.interval_s or 0),
            "burst": self._defaults.burst or 1,
            "concurrency": self._defaults.concurrency or 1,
        }
        self._check_partitions()
        self._scripts.read(
            [
                (verb, self._keys.named(partition, "defaults")[0], name, number)
                for partition in range(self._keys.partitions)
                for name, number in defaults.items()
            ]
        )

    def _check_partitions(self) -> None:
        meta = self._keys.shared("meta")
        _, found = self._scripts.read(
            [
                ("HSETNX", meta, "partitions", self._keys.partitions),
                ("HGET", meta, "partitions"),
            ]
        )
        if int(found) != self._keys.partitions:
            raise FrontierError(
                f"namespace {self._keys.namespace!r} was made with {int(found)} partitions, got"
                f" {self._keys.partitions}; set THROTTLE_PARTITIONS={int(found)}, or another"
                " THROTTLE_NAMESPACE"
            )

    def set_policy(self, key: str, policy: HostPolicy) -> None:
        """Sets what `policy` names for the host, and makes the host known. In force on return.

        Raises `UsageError` for a burst or concurrency below 1 or an interval of 0.
        """
        self._set(key, _policy_fields(policy))

    def pause(self, key: str, *, paused: bool) -> None:
        """Stops or lets go a host; from the return on, nothing new of a paused one starts."""
        self._set(key, ["paused", "1" if paused else ""])

    def block(
        self, key: str, *, for_s: float | None = None, until_s: float | None = None
    ) -> float | None:
        """Blocks the host for `for_s` seconds or until `until_s` (Redis time); only extends.

        The end of the block in force (Redis time, seconds), None for an unknown host.
        """
        reply = self._at_ready(
            "block",
            key,
            "" if until_s is None else us_up(until_s),
            us_up(for_s or 0) if until_s is None else "",
        )
        return reply[0] / 1e6 if reply else None

    def unblock(self, key: str) -> None:
        """Takes away the host's block, back-off and breaker; a refusal of us stays."""
        self._at_ready("unblock", key)

    def refresh_robots(self, key: str) -> int:
        """Has every robots.txt of the host asked for again; how many origins it has."""
        return int(self._at_ready("refresh", key))

    def exists(self, key: str) -> bool:
        """Whether the frontier has a record of the host."""
        partition = self._keys.partition_of(key)
        return bool(
            self._scripts.read([("SISMEMBER", self._keys.named(partition, "hosts")[0], key)])[0]
        )

    def remove(self, key: str) -> tuple[str, int]:
        """Takes the host out: `removed` with URLs dropped, `busy` with grants open, `unknown`."""
        partition = self._keys.partition_of(key)
        word, *count = self._scripts.run(
            "remove",
            self._keys.named(partition, "ready", "refill", "totals", "hosts"),
            [self._keys.prefix(partition), key],
        )
        dropped = count[0] if count else 0
        if word == b"removed" and dropped:
            self._give_room_back(dropped)
        return word.decode(), dropped

    def _give_room_back(self, dropped: int) -> None:
        """URLs that are no longer accepted count no longer towards `max_pages`."""
        budget = self._keys.shared("budget")
        if self._scripts.read([("EXISTS", budget)])[0]:
            self._scripts.run("budget", [budget], [-dropped, 0])

    def keys(self) -> Iterator[str]:
        """The politeness keys of all hosts, a thousand at a time, in no order."""
        for partition in range(self._keys.partitions):
            cursor = b"0"
            while True:
                cursor, members = self._scripts.read(
                    [("SSCAN", self._keys.named(partition, "hosts")[0], cursor, "COUNT", 1000)]
                )[0]
                yield from (member.decode() for member in members)
                if int(cursor) == 0:
                    break

    def show(self, keys: list[str]) -> list[HostView]:
        """The hosts as they stand now, in one round trip."""
        replies = self._scripts.run_many(
            [
                Call(
                    "show",
                    self._keys.named(self._keys.partition_of(key), "ready", "refill"),
                    [self._keys.prefix(self._keys.partition_of(key)), key],
                )
                for key in keys
            ]
        )
        return [_view(key, reply) for key, reply in zip(keys, replies, strict=True)]

    def _at_ready(self, verb: str, key: str, *args: str | int) -> Any:
        partition = self._keys.partition_of(key)
        return self._scripts.run(
            verb,
            self._keys.named(partition, "ready"),
            [self._keys.prefix(partition), key, *args],
        )

    def _set(self, key: str, fields: list[str | int]) -> None:
        partition = self._keys.partition_of(key)
        self._scripts.run(
            "policy",
            self._keys.named(partition, "ready", "refill", "hosts"),
            [self._keys.prefix(partition), key, *fields],
        )


def _policy_fields(policy: HostPolicy) -> list[str | int]:
    """Names and values for the host's record, an empty value where the default is wanted."""
    for name, number in (("burst", policy.burst), ("concurrency", policy.concurrency)):
        if number is not None and number < 1:
            raise UsageError(f"{name} must be at least 1, got {number}; to stop a host, pause it")
    fields: list[str | int] = ["known", "1"]
    for name in sorted(policy.cleared):
        fields += (_FIELDS[name], "")
    if policy.interval_s is not None:
        if policy.interval_s <= 0:
            raise UsageError("the interval must be above 0; for a fast host write 10ms or 100/s")
        fields += (_FIELDS["interval_s"], us_up(policy.interval_s))
    if policy.burst is not None:
        fields += (_FIELDS["burst"], policy.burst)
    if policy.concurrency is not None:
        fields += (_FIELDS["concurrency"], policy.concurrency)
    return fields


def _view(key: str, reply: list[bytes]) -> HostView:
    texts = {reply[i].decode(): reply[i + 1] for i in range(0, len(reply) - 1, 2)}

    def number(name: str) -> int:
        return int(texts.get(name) or 0)

    def moment(name: str) -> float | None:
        return float(texts[name]) / 1e6 if texts.get(name) else None

    robots = {
        name[len("origin ") :]: RobotsRecord.decode(value)
        for name, value in texts.items()
        if name.startswith("origin ")
    }
    default_s = number("default_us") / 1e6
    operator_s, crawl_delay_s = moment("operator_us"), moment("robots_us")
    asked = [record.crawl_delay_s for record in robots.values() if record.crawl_delay_s]
    return HostView(
        key=key,
        now_s=number("now_us") / 1e6,
        interval_s=number("interval_us") / 1e6,
        interval_source=interval_in_force(default_s, operator_s, crawl_delay_s)[1],
        default_s=default_s,
        operator_s=operator_s,
        crawl_delay_asked_s=max(asked, default=None),
        crawl_delay_s=crawl_delay_s,
        burst=number("burst"),
        concurrency=number("concurrency"),
        tokens=number("tokens"),
        waiting=number("waiting"),
        delayed=number("delayed"),
        in_flight=number("in_flight"),
        done=number("ended:done"),
        refused=number("ended:refused"),
        dead=number("ended:dead"),
        full=number("full"),
        clock_opens_s=number("clock_us") / 1e6,
        blocked_until_s=number("block_us") / 1e6,
        breaker_until_s=number("breaker_us") / 1e6,
        pace=decode_pace(texts.get("pace") or b""),
        refuses_us=number("refused") == 1,
        paused=number("paused") == 1,
        ready_at_s=moment("ready_us"),
        refill_at_s=moment("refill_us"),
        next_delayed_s=moment("next_delayed_us"),
        issue_fault=(texts.get("issue_fault") or b"").decode(),
        robots=robots,
        blocked_by=BlockedBy(texts["blocked_by"].decode()) if texts.get("blocked_by") else None,
        held_until_s=number("hold_us") / 1e6,
        robots_fault=(texts.get("robots_fault") or b"").decode(errors="backslashreplace"),
    )
