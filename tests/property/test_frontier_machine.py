"""The frontier under any order of steps: nothing lost, no bound broken, nobody stranded."""

from collections import Counter
from itertools import count

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.scripts.frontier import Rig
from throttle.frontier.startgate import Reply, Started
from throttle.model import End, Grant, GrantKind, HostPolicy, Verdict
from throttle.urls import politeness_key

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
            assert self.rig.record(grant.key).get("paused") != "1"
            self.started.append(started)

    @precondition(lambda self: self.started)
    @rule(pick=picks, redelivered=st.booleans())
    def start_again(self, pick: int, redelivered: bool) -> None:
        """A message comes twice."""
        one = self.started[pick % len(self.started)]
        reply, again = self.rig.gate.start(
            one.grant_id, one.key, request="another", redelivered=redelivered
        )
        assert (reply, again) == (Reply.HELD if redelivered else Reply.DUPLICATE, None)

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
        if is_sent:
            self._note_wire(one)
        if one.kind is GrantKind.PAGE and end is End.DONE:
            self.done.add(one.entry.url)


class Troubled(Fetching):
    """The same, with losses, an operator, and time."""

    @precondition(lambda self: self.claimed or self.started)
    @rule(pick=picks)
    def expire(self, pick: int) -> None:
        """A worker, or a message, is lost."""
        ids = [grant.id for grant in self.claimed] + [one.grant_id for one in self.started]
        lost = ids[pick % len(ids)]
        self.rig.client.hset(self.rig.key(f"grant:{lost}"), "until_us", 1)
        self.rig.client.zadd(self.rig.key("grants"), {lost: 0}, xx=True)
        assert self.rig.expire() == 1
        for one in self.started:
            if one.grant_id == lost:
                self._note_wire(one)
        self.claimed = [grant for grant in self.claimed if grant.id != lost]
        self.started = [one for one in self.started if one.grant_id != lost]

    @rule(own_too=st.booleans())
    def recover(self, own_too: bool) -> None:
        """The dispatcher starts anew, under the same lease or a new one."""
        if not own_too:
            self.rig.dispatching.leave()
            self.rig.owned = self.rig.dispatching.renew()
        assert self.rig.claims.recover(self.rig.owned, own_too=own_too) == len(self.claimed)
        self.claimed = []

    @rule(
        host=host_names,
        interval_s=st.sampled_from([None, INTERVAL_S, INTERVAL_S * 3]),
        burst=st.sampled_from([None, 1, 3]),
        concurrency=st.sampled_from([None, 1, 2, 4]),
    )
    def policy(
        self, host: str, interval_s: float | None, burst: int | None, concurrency: int | None
    ) -> None:
        """The operator changes a pace."""
        self.rig.hosts.set_policy(host, HostPolicy(interval_s, burst, concurrency))
        self.most_burst[host] = max(self.most_burst[host], burst or 1)

    @rule(host=host_names, paused=st.booleans())
    def pause(self, host: str, paused: bool) -> None:
        """The operator stops a host or lets it go."""
        self.rig.hosts.pause(host, paused=paused)

    @rule(host=host_names)
    def remove(self, host: str) -> None:
        """The operator takes a host out; it stays in while something is in flight."""
        in_flight = [one for one in (*self.claimed, *self.started) if one.key == host]
        word, _ = self.rig.hosts.remove(host)
        assert (word == "busy") == bool(in_flight)
        if word == "removed":
            self.accepted = {url for url in self.accepted if politeness_key(url) != host}
            self.done &= self.accepted

    @rule(host=host_names)
    def time_passes(self, host: str) -> None:
        """One interval of the host goes by."""
        rig = self.rig
        view = rig.hosts.show([host])[0]
        us = round(view.interval_s * 1e6)
        record, clock = rig.keys.of_host(host, "host"), rig.keys.of_host(host, "clock")
        self.passed[host] += 1
        if (kept := rig.client.get(clock)) is not None:
            rig.client.set(clock, int(kept) - us)
        if not rig.client.hexists(record, "tat_us"):
            return
        for field in ("tat_us", "block_us", "hold_us"):
            rig.client.hset(record, field, max(0, rig.number(host, field) - us))
        for entry, at in rig.client.zrange(rig.key(f"delayed:{host}"), 0, -1, withscores=True):
            rig.client.zadd(rig.key(f"delayed:{host}"), {entry: at - us})
        if (due := rig.score("refill", host)) is not None:
            rig.client.zadd(rig.key("refill"), {host: due - us})
        for origin, line in rig.client.hgetall(rig.key(f"origins:{host}")).items():
            state, until, rest = line.decode().split(" ", 2)
            left = max(0, int(until) - us)
            rig.client.hset(rig.key(f"origins:{host}"), origin, f"{state} {left} {rest}")
        if rig.hosts.exists(host):
            rig.hosts.pause(host, paused=view.paused)


class Frontier(Troubled):
    """The same, with what must hold after each step."""

    @invariant()
    def every_url_is_in_its_place(self) -> None:
        """The audit finds no fault, and each accepted URL is in exactly one place."""
        counted = self.rig.audited()
        assert counted.in_flight == sum(
            one.kind is GrantKind.PAGE for one in (*self.claimed, *self.started)
        )
        places = Counter(self.done)
        places.update(self.rig.waiting(*ORIGINS))
        for pattern in ("delayed:*", "refused:*", "dead:*", "grant:*"):
            places.update(self._lines(pattern))
        assert places == Counter(self.accepted)

    @invariant()
    def no_bound_is_broken(self) -> None:
        """Slots, tokens and requests on the wire stay within the policy."""
        for view in self.rig.hosts.show(list(HOSTS)):
            # A concurrency that was lowered holds for what is claimed after it.
            bound = max(view.concurrency, self.open_before[view.key])
            self.open_before[view.key] = view.in_flight
            assert 0 <= view.in_flight <= bound
            assert 0 <= view.tokens <= view.burst
            allowed = self.most_burst[view.key] + self.passed[view.key]
            assert self.wires[view.key] <= allowed
            on_their_way = [
                one for one in self.started if one.key == view.key and one.grant_id not in self.said
            ]
            assert self.rig.number(view.key, "pending") == len(on_their_way)

    @invariant()
    def nobody_is_stranded(self) -> None:
        """A host with work is scheduled, or waits for an event that will come."""
        for view in self.rig.hosts.show(list(HOSTS)):
            work = view.waiting + view.delayed
            if work + view.in_flight and view.tokens < 1:
                assert view.refill_at_s is not None
            if work and view.tokens and view.in_flight < view.concurrency and not view.paused:
                assert view.ready_at_s is not None

    def _lines(self, pattern: str) -> list[str]:
        client = self.rig.client
        entries: list[bytes] = []
        for key in client.keys(self.rig.key(pattern)):
            if client.type(key) == b"zset":
                entries += client.zrange(key, 0, -1)
            elif client.type(key) == b"list":
                entries += (line.split(b"\n")[-1] for line in client.lrange(key, 0, -1))
            elif client.hget(key, "kind") == b"page":
                entries.append(client.hget(key, "entry"))
        return [entry.decode().split(" ")[3] for entry in entries]


@pytest.mark.timeout(120)
def test_any_order_of_steps_keeps_the_frontier_whole(redis_url: str) -> None:
    """Whatever issuer, dispatcher, workers and operator do, and in whatever order: no URL is lost
    or doubled, no bound is broken, and every host with work goes on."""
    run_state_machine_as_test(
        type("Machine", (Frontier,), {"url": redis_url}),
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
