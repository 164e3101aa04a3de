"""Steps of a crawl for hypothesis to put in any order: adding, issuing, claiming, fetching."""

from collections import Counter
from dataclasses import replace
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.scripts.frontier import Rig, a_case
from throttle.frontier.startgate import Dropped, Reply, Started
from throttle.model import End, Grant, GrantKind, Outcome, Verdict

INTERVAL_S = 1000.0
ORIGINS = ("http://a.example", "http://a.example:8080", "http://b.example")
HOSTS = ("a.example", "b.example")

host_names = st.sampled_from(HOSTS)
origins = st.sampled_from(ORIGINS)
picks = st.integers(0, 20)


class Crawl(RuleBasedStateMachine):
    """Links, issuer, dispatcher and gate taking turns, beside a model of what must hold.

    Time passes only by a rule, an interval at once: the intervals are far longer than a test.
    """

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(self.url, interval_s=INTERVAL_S, host_depth=6, max_tries=2, grant_ttl_s=5000)
        self.rig.client.flushall()
        self.rig.hosts.publish_defaults(replace=True)
        self.rig.owned = self.rig.dispatching.renew()
        self.rig.owned_to_issue = self.rig.issuing.renew()
        self.claimed: list[Grant] = []
        self.started: list[Started] = []
        self.said: set[str] = set()
        self.accepted: set[str] = set()
        self.done: set[str] = set()
        self.wires: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self.most_burst = dict.fromkeys(HOSTS, 1)
        self.open_before = dict.fromkeys(HOSTS, 0)
        self.requests = count()

    def teardown(self) -> None:
        """Closes the connections."""
        self.rig.close()

    @rule(origin=origins, numbers=st.lists(st.integers(0, 7), min_size=1, max_size=4))
    def add(self, origin: str, numbers: list[int]) -> None:
        """A page links to some URLs."""
        for answer in self.rig.answers(f"{origin}/{number}" for number in numbers):
            assert (answer.verdict is Verdict.SEEN) == (answer.url in self.accepted)
            if answer.verdict is Verdict.ADDED:
                self.accepted.add(answer.url)

    @rule(origin=origins, valid_s=st.sampled_from([0.0, 1e6]))
    def robots_ok(self, origin: str, valid_s: float) -> None:
        """A robots.txt comes into force, perhaps one that is out of date already."""
        self.rig.robots_ok(origin, valid_s=valid_s)

    @rule(origin=origins)
    def robots_unreachable(self, origin: str) -> None:
        """An origin does not give its robots.txt."""
        self.rig.book.store(origin, "unreachable", 1e6, failures=1, version="0")

    @rule()
    def issue(self) -> None:
        """The issuer publishes what is due."""
        self.rig.issue()

    @rule(most=st.integers(1, 3))
    def claim(self, most: int) -> None:
        """The dispatcher takes what may go."""
        grants = self.rig.claim(most)
        assert len({grant.key for grant in grants}) == len(grants) <= most
        self.claimed += grants

    @precondition(lambda self: self.claimed)
    @rule(pick=picks, token_spent=st.booleans())
    def release(self, pick: int, token_spent: bool) -> None:
        """A grant is not forwarded."""
        grant = self.claimed.pop(pick % len(self.claimed))
        assert self.rig.claims.release([(grant, token_spent)]) == 1

    @precondition(lambda self: self.claimed)
    @rule(pick=picks, redelivered=st.booleans())
    def start(self, pick: int, redelivered: bool) -> None:
        """A worker shows a grant."""
        grant = self.claimed.pop(pick % len(self.claimed))
        request = f"r{next(self.requests)}"
        reply, started = self.rig.start(grant, request, redelivered=redelivered)
        assert reply in {Reply.GO, Reply.EARLY}
        if started is not None:
            record = self.rig.record(grant.key)
            assert "1" not in {record.get("paused"), record.get("refused")}
            now_us = self.rig.now_us()
            assert max(int(record["block_us"]), int(record["breaker_us"])) <= now_us
            self.started.append(started)

    @precondition(lambda self: self.started)
    @rule(pick=picks, redelivered=st.booleans())
    def start_again(self, pick: int, redelivered: bool) -> None:
        """A message comes twice."""
        one = self.started[pick % len(self.started)]
        again = self.rig.gate.start(
            one.grant_id, one.key, request="another", redelivered=redelivered
        )
        held = Dropped(Reply.HELD, "worker")
        assert again == (held if redelivered else Dropped(Reply.DUPLICATE))

    def _note_wire(self, one: Started) -> None:
        if one.grant_id not in self.said:
            self.said.add(one.grant_id)
            self.wires[one.key] += 1


class Fetching(Crawl):
    """The same, with what workers do behind the gate."""

    @precondition(lambda self: self.started)
    @rule(pick=picks)
    def sent(self, pick: int) -> None:
        """A request reaches the wire."""
        one = self.started[pick % len(self.started)]
        assert self.rig.gate.sent(one, self.rig.now_us() / 1e6) == (one.grant_id not in self.said)
        self._note_wire(one)

    @precondition(lambda self: self.started)
    @rule(
        pick=picks,
        end=st.sampled_from(list(End)),
        is_sent=st.booleans(),
        delay_s=st.sampled_from([0.0, 500.0]),
        block_s=st.sampled_from([0.0, 0.0, 700.0]),
    )
    def finish(self, pick: int, end: End, is_sent: bool, delay_s: float, block_s: float) -> None:
        """A fetch comes to an end of some kind."""
        one = self.started.pop(pick % len(self.started))
        wire_s = self.rig.now_us() / 1e6 if is_sent else None
        assert self.rig.finish(one, end, wire_s=wire_s, delay_s=delay_s, block_s=block_s)
        assert not self.rig.finish(one, end, wire_s=wire_s)
        self._note_end(one, end, is_sent)

    @precondition(lambda self: self.started)
    @rule(
        pick=picks,
        opened=st.integers(0, 2),
        breaker_s=st.sampled_from([0.0, 700.0]),
        refused_us=st.sampled_from([False, False, False, True]),
    )
    def answer(self, pick: int, opened: int, breaker_s: float, refused_us: bool) -> None:
        """An answer opens, half opens or closes the breaker, or refuses us; a stale one waits."""
        one = self.started.pop(pick % len(self.started))
        rig = self.rig
        change = rig.change(
            one.key,
            opened=opened,
            breaker_s=breaker_s if opened else 0.0,
            refused_us=refused_us,
            case=a_case(host=one.key) if refused_us else None,
        )
        outcome = Outcome(End.DEAD, "was dead", "a reason")
        wire_s = rig.now_us() / 1e6
        before = rig.record(one.key)
        other = replace(change, made_from=b"another")
        assert rig.gate.finish(one, outcome, wire_s, other).conflict == change.made_from
        assert rig.record(one.key) == before
        assert rig.gate.finish(one, outcome, wire_s, change).closed
        self._note_end(one, End.DEAD, True)

    def _note_end(self, one: Started, end: End, is_sent: bool) -> None:
        if is_sent:
            self._note_wire(one)
        if one.kind is GrantKind.PAGE and end is End.DONE:
            self.done.add(one.entry.url)
