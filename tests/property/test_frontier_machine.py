"""The frontier under any order of steps: nothing lost, no bound broken, nobody stranded."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.property.crawl_steps import (
    HOSTS,
    INTERVAL_S,
    ORIGINS,
    Fetching,
    host_names,
    origins,
    picks,
)
from throttle.model import GrantKind, HostPolicy
from throttle.urls import politeness_key


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

    @rule(host=host_names, for_s=st.sampled_from([0.0, 700.0]))
    def block(self, host: str, for_s: float) -> None:
        """The operator blocks a host, or takes its pauses away."""
        if for_s:
            self.rig.hosts.block(host, for_s=for_s)
        else:
            self.rig.hosts.unblock(host)

    @rule(host=host_names)
    def resume(self, host: str) -> None:
        """A person lets a host go on that refused us."""
        if list(self.rig.cases.open(host)):
            self.rig.cases.close(host, "refused", who="", why="", closed_at="", resume=True)

    @rule(host=host_names, most=st.integers(1, 3))
    def revive(self, host: str, most: int) -> None:
        """A person tries dead URLs again."""
        assert self.rig.ends.retry_dead([host], most) <= most

    @rule(host=host_names)
    def refresh(self, host: str) -> None:
        """A person has the robots.txt of a host fetched again."""
        self.rig.hosts.refresh_robots(host)

    @rule(origin=origins, delay_s=st.sampled_from([None, INTERVAL_S / 2, INTERVAL_S * 2]))
    def crawl_delay(self, origin: str, delay_s: float | None) -> None:
        """A site asks for another pace, or no longer."""
        self.rig.book.store(origin, "ok", 1e6, crawl_delay_s=delay_s, version="2")

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
            moved = [str(max(0, int(each) - us)) for each in kept.split()]
            rig.client.set(clock, " ".join(moved))
        if not rig.client.hexists(record, "tat_us"):
            return
        for field in ("tat_us", "block_us", "breaker_us", "hold_us"):
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
            is_stopped = view.paused or view.refuses_us
            if work and view.tokens and view.in_flight < view.concurrency and not is_stopped:
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
    """Whatever issuer, dispatcher, workers, sites and operator do, in any order: no URL is lost
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
