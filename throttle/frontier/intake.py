"""add: candidates become entries of the frontier, or are answered why not."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from throttle.errors import InvalidURL
from throttle.frontier.entries import encode
from throttle.frontier.keys import Keys
from throttle.frontier.rules import RobotsBook
from throttle.frontier.scripts import Call, Scripts
from throttle.model import Answer, Candidate, Entry, Verdict
from throttle.urls import canonical, digest, origin_of, politeness_key

_PER_CALL = 500

_REASONS = {
    Verdict.SEEN: "added before",
    Verdict.FULL: "the host's depth bound is reached",
    Verdict.OUTSIDE: "its host is not part of this crawl",
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A candidate with a canonical URL, on its way to the script."""

    place: int
    candidate: Candidate
    url: str
    key: str


class Intake:
    """Accepts URLs. Thread-safe. `host_depth` bounds the URLs of a host, `max_pages` of all."""

    def __init__(
        self, scripts: Scripts, keys: Keys, book: RobotsBook, *, host_depth: int, max_pages: int = 0
    ) -> None:
        self._scripts = scripts
        self._keys = keys
        self._book = book
        self._host_depth = host_depth
        self._max_pages = max_pages

    def add(self, candidates: Sequence[Candidate]) -> list[Answer]:
        """One answer per candidate, in order. A bad one never stops its neighbours.

        Round trips do not grow with the number of candidates (500 a call, all calls together).
        Raises `ServerUnreachable` or `FrontierError`; then adding all again is safe.
        """
        answers: dict[int, Answer] = {}
        asked = self._allowed(self._canonical(candidates, answers), answers)
        reserved = self._reserve(len(asked))
        if reserved < len(asked):
            asked = self._within(reserved, asked, answers)
        added = self._push(asked, answers)
        self._give_back(reserved - added)
        return [answers[place] for place in range(len(candidates))]

    def _canonical(
        self, candidates: Sequence[Candidate], answers: dict[int, Answer]
    ) -> list[_Asked]:
        asked = []
        for place, candidate in enumerate(candidates):
            try:
                url = canonical(candidate.url)
            except InvalidURL as error:
                answers[place] = Answer(candidate.url, Verdict.INVALID, error.reason)
            else:
                asked.append(_Asked(place, candidate, url, politeness_key(url)))
        return asked

    def _allowed(self, asked: list[_Asked], answers: dict[int, Answer]) -> list[_Asked]:
        rules = self._book.in_force(origin_of(one.url) for one in asked)
        allowed = []
        for one in asked:
            known = rules.get(origin_of(one.url))
            if known is not None and not known.allows(one.url):
                answers[one.place] = Answer(one.url, Verdict.DISALLOWED, "robots.txt disallows it")
            else:
                allowed.append(one)
        return allowed

    def _reserve(self, wanted: int) -> int:
        return self._budget(wanted) if self._max_pages and wanted else wanted

    def _within(self, room: int, asked: list[_Asked], answers: dict[int, Answer]) -> list[_Asked]:
        """The first `room` of those not seen: near the bound, known URLs must not take its room."""
        replies = self._scripts.read(
            [("SISMEMBER", self._keys.of_host(one.key, "seen"), digest(one.url)) for one in asked]
        )
        fresh = []
        for one, is_seen in zip(asked, replies, strict=True):
            if is_seen:
                answers[one.place] = _answer(one.url, Verdict.SEEN)
            else:
                fresh.append(one)
        for one in fresh[room:]:
            answers[one.place] = Answer(one.url, Verdict.FULL, "max_pages of the crawl is reached")
        return fresh[:room]

    def _give_back(self, unused: int) -> None:
        if self._max_pages and unused > 0:
            self._budget(-unused)

    def _budget(self, wanted: int) -> int:
        return int(
            self._scripts.run("budget", [self._keys.shared("budget")], [wanted, self._max_pages])
        )

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
        args: list[str | bytes | int] = [self._keys.prefix(partition), self._host_depth]
        for one in ones:
            candidate = one.candidate
            args += (
                one.key,
                encode(Entry(one.url, candidate.depth, candidate.hops)),
                digest(one.url),
                "1" if candidate.only_known_hosts else "0",
            )
        return Call("add", self._keys.named(partition, "ready", "refill", "totals", "hosts"), args)


def _answer(url: str, word: str) -> Answer:
    if word == "error":
        return Answer(url, Verdict.INVALID, "the host's keys in Redis have a wrong type")
    verdict = Verdict(word)
    return Answer(url, verdict, _REASONS.get(verdict, ""))
