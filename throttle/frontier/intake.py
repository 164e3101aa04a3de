"""add: candidates become entries of the frontier, or are answered why not."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from throttle.errors import InvalidURL
from throttle.frontier.entries import encode
from throttle.frontier.keys import Keys
from throttle.frontier.rules import RobotsBook
from throttle.frontier.scripts import Call, Scripts
from throttle.frontier.seen import Seen
from throttle.model import Answer, Candidate, Entry, Verdict
from throttle.traps import trap_in
from throttle.urls import canonical, origin_of, politeness_key

MAX_ORIGINS = 16
"""Origins of one host (its ports, with http and https): each has a robots.txt to be asked for."""

_PER_CALL = 500

WORDS = {
    "added": (Verdict.ADDED, ""),
    "seen": (Verdict.SEEN, "added before"),
    "outside": (Verdict.OUTSIDE, "its host is not part of this crawl"),
    "host_depth": (Verdict.FULL, "the host's depth bound is reached"),
    "host_pages": (Verdict.FULL, "max_pages_per_host of its host is reached"),
    "origins": (Verdict.FULL, f"its host has {MAX_ORIGINS} other ports and schemes already"),
    "error": (Verdict.INVALID, "the host's keys in Redis have a wrong type"),
}
"""What each word of the script `add` means."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a crawl takes in; 0 is no limit.

    `host_depth` bounds the URLs that wait of one host, `max_pages` those accepted in all and
    `max_pages_per_host` those accepted of one host; `max_depth` the links from a seed.
    """

    host_depth: int
    max_pages: int = 0
    max_pages_per_host: int = 0
    max_depth: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """A candidate with a canonical URL, on its way to the script."""

    place: int
    candidate: Candidate
    url: str
    key: str


@dataclass(slots=True)
class _Batch:
    """The answers so far, by place, and how many candidates were turned away here, by reason."""

    answers: dict[int, Answer] = field(default_factory=dict)
    away: Counter[str] = field(default_factory=Counter)

    def refuse(self, one: _Asked, verdict: Verdict, reason: str, name: str) -> None:
        """Answers a candidate before it comes to the script, counted as `name`."""
        self.answers[one.place] = Answer(one.url, verdict, reason)
        self.away[name] += 1


class Intake:
    """Accepts URLs. Thread-safe."""

    def __init__(
        self, scripts: Scripts, keys: Keys, book: RobotsBook, bounds: Bounds, seen: Seen
    ) -> None:
        self._scripts = scripts
        self._keys = keys
        self._book = book
        self._bounds = bounds
        self._seen = seen

    def add(self, candidates: Sequence[Candidate], *, max_new_hosts: int = 0) -> list[Answer]:
        """One answer per candidate, in order. A bad one never stops its neighbours.

        With `max_new_hosts`, candidates of hosts that are not known yet are taken of the first so
        many only. Round trips do not grow with the number of candidates (500 a call, all calls
        together). Raises `ServerUnreachable` or `FrontierError`; then adding all again is safe.
        """
        batch = _Batch()
        asked = _within_reach(self._bounds.max_depth, _canonical(candidates, batch), batch)
        if max_new_hosts:
            asked = self._of_few_hosts(max_new_hosts, asked, batch)
        asked = self._allowed(asked, batch)
        reserved = self._reserve(len(asked))
        if reserved < len(asked):
            asked = self._within(reserved, asked, batch)
        added = self._push(asked, batch.answers)
        self._give_back(reserved - added)
        self._count(batch.away)
        return [batch.answers[place] for place in range(len(candidates))]

    def _of_few_hosts(self, most: int, asked: list[_Asked], batch: _Batch) -> list[_Asked]:
        keys = list({one.key: None for one in asked if not one.candidate.only_known_hosts})
        if len(keys) <= most:
            return asked
        known = self._scripts.read(
            [("HGET", self._keys.of_host(key, "host"), "known") for key in keys]
        )
        new = [key for key, is_known in zip(keys, known, strict=True) if not is_known]
        over = set(new[most:])
        taken = []
        for one in asked:
            if one.key in over:
                reason = f"its page names more than {most} new hosts (max_hosts_per_page)"
                batch.refuse(one, Verdict.FULL, reason, "max_hosts_per_page")
            else:
                taken.append(one)
        return taken

    def _allowed(self, asked: list[_Asked], batch: _Batch) -> list[_Asked]:
        rules = self._book.in_force(origin_of(one.url) for one in asked)
        allowed = []
        for one in asked:
            known = rules.get(origin_of(one.url))
            if known is not None and not known.allows(one.url):
                batch.refuse(one, Verdict.DISALLOWED, "robots.txt disallows it", "disallowed")
            else:
                allowed.append(one)
        return allowed

    def _reserve(self, wanted: int) -> int:
        return self._budget(wanted) if self._bounds.max_pages and wanted else wanted

    def _within(self, room: int, asked: list[_Asked], batch: _Batch) -> list[_Asked]:
        """The first `room` of those not seen: near the bound, known URLs must not take its room."""
        fresh = []
        for one, is_seen in zip(asked, self._are_seen(asked), strict=True):
            if is_seen:
                batch.answers[one.place] = _answer(one.url, "seen")
            else:
                fresh.append(one)
        for one in fresh[room:]:
            reason = "max_pages of the crawl is reached"
            batch.refuse(one, Verdict.FULL, reason, "max_pages")
        return fresh[:room]

    def _are_seen(self, asked: list[_Asked]) -> list[bool]:
        calls = []
        for one in asked:
            partition = self._keys.partition_of(one.key)
            asks = (
                self._keys.prefix(partition),
                self._seen.kind,
                one.key,
                self._seen.mark(one.url),
            )
            calls.append(Call("seen", self._keys.named(partition, "hosts"), asks))
        return [reply == [1] for reply in self._scripts.run_many(calls)] if calls else []

    def _give_back(self, unused: int) -> None:
        if self._bounds.max_pages and unused > 0:
            self._budget(-unused)

    def _budget(self, wanted: int) -> int:
        budget = self._keys.shared("budget")
        return int(self._scripts.run("budget", [budget], [wanted, self._bounds.max_pages]))

    def _count(self, away: Counter[str]) -> None:
        if away:
            totals = self._keys.named(0, "totals")[0]
            self._scripts.read([("HINCRBY", totals, f"away:{n}", away[n]) for n in away])

    def _push(self, asked: list[_Asked], answers: dict[int, Answer]) -> int:
        by_partition: dict[int, list[_Asked]] = defaultdict(list)
        for one in asked:
            by_partition[self._keys.partition_of(one.key)].append(one)
        batches = [
            (partition, ones[start : start + _PER_CALL])
            for partition, ones in by_partition.items()
            for start in range(0, len(ones), _PER_CALL)
        ]
        if not batches:
            return 0
        replies = self._scripts.run_many([self._call(part, ones) for part, ones in batches])
        added = 0
        for (_, ones), words in zip(batches, replies, strict=True):
            for one, word in zip(ones, words, strict=True):
                answers[one.place] = _answer(one.url, word.decode())
                added += word == b"added"
        return added

    def _call(self, partition: int, ones: list[_Asked]) -> Call:
        args: list[str | bytes | int] = [
            self._keys.prefix(partition),
            self._bounds.host_depth,
            self._bounds.max_pages_per_host,
            MAX_ORIGINS,
            self._seen.kind,
        ]
        for one in ones:
            candidate = one.candidate
            args += (
                one.key,
                encode(Entry(one.url, candidate.depth, candidate.hops)),
                self._seen.mark(one.url),
                "1" if candidate.only_known_hosts else "0",
            )
        return Call("add", self._keys.named(partition, "ready", "refill", "totals", "hosts"), args)


def _canonical(candidates: Sequence[Candidate], batch: _Batch) -> list[_Asked]:
    asked = []
    for place, candidate in enumerate(candidates):
        try:
            url = canonical(candidate.url)
        except InvalidURL as error:
            batch.answers[place] = Answer(candidate.url, Verdict.INVALID, error.reason)
            batch.away["invalid"] += 1
        else:
            asked.append(_Asked(place, candidate, url, politeness_key(url)))
    return asked


def _within_reach(deepest: int, asked: list[_Asked], batch: _Batch) -> list[_Asked]:
    """Those that are not too far from a seed and not from a trap; a seed is neither."""
    near = []
    for one in asked:
        depth = one.candidate.depth
        found = depth or one.candidate.hops
        if deepest and depth > deepest:
            reason = f"more than {deepest} links from a seed (max_depth)"
            batch.refuse(one, Verdict.OUTSIDE, reason, "max_depth")
        elif found and (trap := trap_in(one.url)):
            batch.refuse(one, Verdict.TRAP, trap, "trap")
        else:
            near.append(one)
    return near


def _answer(url: str, word: str) -> Answer:
    verdict, reason = WORDS[word]
    return Answer(url, verdict, reason)
