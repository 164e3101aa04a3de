"""expire and bury: a grant whose time is up is closed once, and its URL is not lost."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, foreign, pages
from throttle.errors import Fenced
from throttle.frontier.startgate import Dropped, Reply


def tries_of(rig: Rig, host: str = "a.example") -> list[int]:
    """The tries of the URLs that wait at a host."""
    lines = rig.client.lrange(rig.key(f"urls:http://{host}"), 0, -1)
    return [int(line.split(b" ")[0]) for line in lines]


def test_nothing_expires_before_its_time(rig: Rig) -> None:
    """A live grant is left alone, and the reply says when the next one ends."""
    rig.seed("http://a.example/")
    rig.claim_one()
    (expired,) = rig.claims.expire(rig.owned)
    assert expired.closed == 0
    assert 50 < (expired.next_expiry_s or 0) <= 60


def test_without_grants_there_is_no_next_expiry(rig: Rig) -> None:
    """The dispatcher need not wake for expiries that are not there."""
    (expired,) = rig.claims.expire(rig.owned)
    assert (expired.closed, expired.next_expiry_s) == (0, None)


def test_a_claimed_grant_expires_without_a_try(rigs: Callable[..., Rig]) -> None:
    """A message that reached no worker costs its URL nothing; it is next in its lane again."""
    rig = rigs(grant_ttl_s=0.05)
    rig.seed(*pages("a.example", 2))
    grant = rig.claim_one()
    rig.pass_until(rig.score("grants", grant.id) or 0)

    assert rig.expire() == 1

    assert rig.waiting("http://a.example") == pages("a.example", 2)
    assert tries_of(rig) == [0, 0]
    assert rig.number("a.example", "tat_us") == 0
    assert rig.start(grant)[0] is Reply.STALE
    assert rig.expire() == 0
    rig.audited()


def test_a_started_grant_expires_with_a_try_and_moves_the_clock(rigs: Callable[..., Rig]) -> None:
    """Its request may have reached the host until now, so the next one keeps its distance."""
    rig = rigs(start_ttl_s=0.05)
    rig.seed(*pages("a.example", 2))
    grant = rig.claim_one()
    started = rig.go(grant)
    rig.pass_until(rig.score("grants", grant.id) or 0)
    before = rig.now_us()

    assert rig.expire() == 1

    assert rig.waiting("http://a.example") == pages("a.example", 2)
    assert tries_of(rig) == [1, 0]
    assert before + 3600e6 <= rig.number("a.example", "tat_us") <= rig.now_us() + 3600e6
    assert not rig.finish(started, wire_s=started.now_s)
    assert rig.number("a.example", "pending") == 0
    rig.audited()


def test_a_started_grant_that_said_sent_keeps_its_clock(rig: Rig) -> None:
    """The wire time is known: a later loss of the worker does not move the clock again."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant)
    rig.gate.sent(started, started.now_s)
    tat_us = rig.number("a.example", "tat_us")
    rig.expire_now(grant)
    rig.expire()
    assert rig.number("a.example", "tat_us") == tat_us
    rig.audited()


def test_after_the_most_tries_a_url_is_dead(rigs: Callable[..., Rig]) -> None:
    """A page that kills its worker each time ends `dead`, with its reason."""
    rig = rigs(max_tries=2, interval_s=0.001)
    rig.seed("http://a.example/")
    for _ in range(2):
        rig.issue("a.example")
        rig.open_clock("a.example")
        grant = rig.claim_one()
        rig.go(grant)
        rig.expire_now(grant)
        assert rig.expire() == 1

    assert rig.client.lrange(rig.key("dead:a.example"), 0, -1) == [
        b"worker lost\n2 0 0 http://a.example/"
    ]
    assert rig.census.totals().outcomes == {"worker lost": 1}
    count = rig.audited()
    assert (count.dead, count.waiting) == (1, 0)


def test_a_redelivered_message_leaves_a_started_grant_alone(rig: Rig) -> None:
    """Its worker may only have lost its connection to RabbitMQ: it keeps its slot and its time."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    started = rig.go(grant)
    before = rig.score("grants", grant.id)

    shown = rig.gate.start(grant.id, grant.key, request="second", redelivered=True)

    assert shown == Dropped(Reply.HELD, "worker")
    assert rig.score("grants", grant.id) == before
    assert rig.expire() == 0
    assert rig.finish(started, wire_s=started.now_s)
    rig.audited()


def test_a_grant_of_a_dead_worker_is_buried_at_once(rig: Rig) -> None:
    """Whoever knows for certain that a worker has ended gives its URL back, with a try counted."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    assert not rig.gate.bury(grant.id, grant.key, worker="worker")  # not started yet
    started = rig.go(grant)
    assert not rig.gate.bury(grant.id, grant.key, worker="another")

    assert rig.gate.bury(grant.id, grant.key, worker="worker")

    assert tries_of(rig) == [1]
    assert not rig.gate.bury(grant.id, grant.key, worker="worker")
    assert not rig.finish(started, wire_s=started.now_s)
    assert rig.number("a.example", "tat_us") > rig.now_us()
    rig.audited()


def test_a_former_holder_expires_nothing(rig: Rig) -> None:
    """With an epoch that is over nothing is closed."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    rig.expire_now(grant)
    with pytest.raises(Fenced):
        rig.claims.expire(foreign(rig.owned))
    assert rig.start(grant)[0] is Reply.GO


def test_a_grant_without_its_record_is_cleared_away(rig: Rig) -> None:
    """A leftover id in the list of grants stops nothing and is dropped."""
    rig.client.zadd(rig.key("grants"), {"ghost": 0})
    assert rig.census.count().faults == ("grant ghost has no record",)
    assert rig.expire() == 0
    rig.audited()


def test_many_grants_of_one_host_expire_together(rigs: Callable[..., Rig]) -> None:
    """Claimed and started ones of the same host go back in one call, each counted once."""
    rig = rigs(burst=4, concurrency=4, interval_s=0.001)
    rig.seed(*pages("a.example", 4))
    for _ in range(3):
        rig.issue("a.example")
    taken = [rig.claim_one() for _ in range(4)]
    for grant in taken[:2]:
        rig.go(grant)
    rig.expire_now(*taken)
    assert rig.expire() == 4
    assert sorted(tries_of(rig)) == [0, 0, 1, 1]
    assert {rig.number("a.example", f) for f in ("in_flight", "unsent", "pending")} == {0}
    rig.audited()
