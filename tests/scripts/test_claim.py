"""claim, release and recover: which URL moves into a grant, and that it comes back whole."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.scripts.frontier import Rig, foreign, kinds, pages
from throttle.errors import Fenced, FrontierError
from throttle.frontier.startgate import Reply
from throttle.model import End, GrantKind, HostPolicy


def test_a_claim_moves_one_url_per_host_into_a_grant(rig: Rig) -> None:
    """Each host that may go gives one URL; the URL lies in its grant and nowhere else."""
    rig.seed(*pages("a.example", 3), *pages("b.example", 3))

    grants = rig.claim()

    assert sorted(kinds(grants)) == [
        (GrantKind.PAGE, "http://a.example/0"),
        (GrantKind.PAGE, "http://b.example/0"),
    ]
    assert len({grant.id for grant in grants}) == 2
    assert rig.waiting("http://a.example") == ["http://a.example/1", "http://a.example/2"]
    assert rig.number("a.example", "tokens") == 0
    assert rig.number("a.example", "in_flight") == 1
    assert rig.claim() == []
    count = rig.audited()
    assert (count.waiting, count.in_flight) == (4, 2)


def test_a_claim_says_when_to_ask_again(rigs: Callable[..., Rig]) -> None:
    """The reply names the next host's time, the next expiry, and how many grants are open."""
    rig = rigs(burst=2, concurrency=2, interval_s=10.0, grant_ttl_s=60.0)
    rig.seed(*pages("a.example", 3))
    rig.issue("a.example")
    (owned,) = rig.owned

    (first,) = rig.claims.claim([(owned, 5)], "n.")
    assert (first.next_ready_s, first.open_grants) == (0.0, 1)
    assert 59.0 < (first.next_expiry_s or 0) <= 60.0

    (second,) = rig.claims.claim([(owned, 5)], "m.")
    assert (second.next_ready_s, second.open_grants) == (None, 2)
    assert len(second.grants) == 1


def test_an_empty_partition_gives_nothing(rig: Rig) -> None:
    """Without work there is no next time and no expiry: the dispatcher may sleep."""
    (owned,) = rig.owned
    (claimed,) = rig.claims.claim([(owned, 5)], "n.")
    assert claimed.grants == ()
    assert (claimed.next_ready_s, claimed.next_expiry_s, claimed.open_grants) == (None, None, 0)


def test_a_claim_takes_no_more_hosts_than_asked_for(rig: Rig) -> None:
    """`most` bounds one claim; the rest is there for the next."""
    rig.seed(*(f"http://h{number}.example/" for number in range(10)))
    assert len(rig.claim(4)) == 4
    assert rig.claim(0) == []
    assert len(rig.claim(100)) == 6
    rig.audited()


def test_a_former_holder_claims_nothing(rig: Rig) -> None:
    """With an epoch that is over, or as another holder, a claim changes nothing."""
    rig.seed("http://a.example/")
    with pytest.raises(Fenced):
        rig.claims.claim([(one, 5) for one in foreign(rig.owned)], "n.")

    rig.dispatching.leave()
    with pytest.raises(Fenced):
        rig.claim()

    assert rig.waiting("http://a.example") == ["http://a.example/"]
    assert rig.number("a.example", "tokens") == 1
    rig.owned = rig.dispatching.renew()
    assert rig.claim_one().url == "http://a.example/"


def test_concurrency_bounds_the_grants_of_a_host(rigs: Callable[..., Rig]) -> None:
    """Never more grants open than the host's concurrency, however many tokens lie ready."""
    rig = rigs(burst=5, concurrency=2)
    rig.seed(*pages("a.example", 5))
    for _ in range(4):
        rig.issue("a.example")
    assert rig.number("a.example", "tokens") == 5

    grants = rig.claim() + rig.claim() + rig.claim()

    assert len(grants) == 2
    assert rig.number("a.example", "in_flight") == 2
    rig.finish(rig.go(grants[0]), wire_s=None)
    assert len(rig.claim() + rig.claim()) == 1
    assert rig.number("a.example", "in_flight") == 2


@pytest.mark.parametrize("without", ["token", "slot"])
def test_a_schedule_that_is_wrong_grants_nothing(rig: Rig, without: str) -> None:
    """A host in the schedule by mistake is looked at again: no token or no slot, no grant."""
    rig.seed(*pages("a.example", 2))
    if without == "token":
        rig.claims.release([(rig.claim_one(), True)])
    else:
        rig.claim_one()
        rig.issue("a.example")
    rig.client.zadd(rig.key("ready"), {"a.example": 0})

    assert rig.claim() == []

    assert rig.score("ready", "a.example") is None
    rig.audited()


def test_no_token_no_grant(rig: Rig) -> None:
    """A host goes again only when its next token was issued."""
    rig.seed(*pages("a.example", 2))
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=1.0)
    rig.open_clock("a.example")
    assert rig.claim() == []
    rig.issue("a.example")
    assert rig.claim_one().url == "http://a.example/1"


def test_a_host_whose_clock_is_shut_is_not_claimed(rigs: Callable[..., Rig]) -> None:
    """With URL, token and slot, a host still waits for its clock."""
    rig = rigs(interval_s=0.15)
    rig.seed(*pages("a.example", 2))
    rig.fetch()
    opens_us = rig.number("a.example", "tat_us")
    rig.issue("a.example")

    assert rig.claim() == []
    assert rig.score("ready", "a.example") == opens_us
    rig.pass_until(opens_us)
    assert rig.claim_one().url == "http://a.example/1"


def test_delayed_urls_come_back_when_due_before_the_others(rig: Rig) -> None:
    """A URL that was put off lets the others pass until its time, then goes first."""
    rig.seed(*pages("a.example", 3))
    rig.finish(rig.go(rig.claim_one()), End.AGAIN, delay_s=7200)
    rig.issue("a.example")
    assert rig.audited().delayed == 1
    assert rig.claim_one().url == "http://a.example/1"
    rig.claims.recover(rig.owned, own_too=True)

    due_us = rig.now_us() + 50_000
    rig.client.zadd(rig.key("delayed:a.example"), {"1 0 0 http://a.example/0": due_us}, xx=True)
    rig.issue("a.example")
    rig.pass_until(due_us)

    assert rig.claim_one().url == "http://a.example/0"
    assert rig.waiting("http://a.example") == pages("a.example", 3)[1:]
    assert rig.audited().delayed == 0


def test_delayed_urls_due_together_keep_their_order(rigs: Callable[..., Rig]) -> None:
    """Of several that are due, the one that was due first goes first."""
    rig = rigs(burst=3, concurrency=3)
    rig.seed(*pages("a.example", 3))
    started = []
    for _ in range(3):
        rig.issue("a.example")
        started.append(rig.go(rig.claim_one()))
    for one, delay_s in zip(started, (0.02, 0.01, 0.03), strict=True):
        rig.finish(one, End.BACK, delay_s=delay_s)
    rig.pass_s(0.03)
    rig.issue("a.example")
    assert rig.claim_one().url == "http://a.example/1"
    assert rig.waiting("http://a.example") == ["http://a.example/0", "http://a.example/2"]


def test_a_host_with_delayed_urls_only_is_scheduled_for_them(rig: Rig) -> None:
    """Nobody looks at the host before its first delayed URL is due."""
    rig.seed("http://a.example/")
    rig.finish(rig.go(rig.claim_one()), End.BACK, wire_s=1.0, delay_s=7200)
    rig.issue("a.example")
    due_us = rig.client.zrange(rig.key("delayed:a.example"), 0, 0, withscores=True)[0][1]
    assert rig.score("ready", "a.example") == due_us
    assert rig.claim() == []


def test_a_paused_host_is_never_claimed(rig: Rig) -> None:
    """From the pause to the resume a host gives nothing, whatever happens to it."""
    rig.seed(*pages("a.example", 2))
    rig.hosts.pause("a.example", paused=True)
    assert rig.score("ready", "a.example") is None
    rig.add("http://a.example/more")
    rig.issue("a.example")
    rig.robots_ok("http://a.example/")
    assert rig.claim() == []
    rig.client.zadd(rig.key("ready"), {"a.example": 0})
    assert rig.claim() == []

    rig.hosts.pause("a.example", paused=False)
    assert rig.claim_one().url == "http://a.example/0"


def test_without_a_default_policy_a_claim_leaves_no_trace(rig: Rig) -> None:
    """The error says what is missing, and no host of the batch was changed."""
    rig.hosts.set_policy("own.example", HostPolicy(60.0, 1, 1))
    rig.seed("http://own.example/", "http://a.example/")
    rig.client.zadd(rig.key("ready"), {"own.example": 0, "a.example": 1})
    rig.client.delete(rig.key("defaults"))

    with pytest.raises(FrontierError, match="no default policy: start beat"):
        rig.claim()

    rig.hosts.publish_defaults(replace=True)
    assert rig.audited().in_flight == 0
    assert rig.number("own.example", "tokens") == 1
    assert len(rig.claim()) == 2


def test_a_claim_puts_the_bucket_up_one_interval_later(rigs: Callable[..., Rig]) -> None:
    """The next token is due one interval after this one was taken."""
    rig = rigs(interval_s=10.0)
    rig.seed(*pages("a.example", 2))
    assert rig.score("refill", "a.example") is None
    before = rig.now_us()
    rig.claim_one()
    assert before + 10e6 <= (rig.score("refill", "a.example") or 0) <= rig.now_us() + 10e6


def test_released_without_a_token_the_bucket_is_believed_empty(rigs: Callable[..., Rig]) -> None:
    """No token came: the URL is next again, and the bucket is put up for refill at once."""
    rig = rigs(burst=5, concurrency=5)
    rig.seed(*pages("a.example", 3))
    rig.issue("a.example")
    grant = rig.claim_one()
    assert rig.number("a.example", "tokens") == 1

    assert rig.claims.release([(grant, False)]) == 1

    assert rig.waiting("http://a.example") == pages("a.example", 3)
    assert rig.number("a.example", "tokens") == 0
    assert (rig.score("refill", "a.example") or 0) <= rig.now_us()
    assert rig.claim() == []
    assert rig.audited().in_flight == 0


def test_tokens_that_are_gone_time_after_time_slow_the_bucket_down(
    rigs: Callable[..., Rig],
) -> None:
    """Something else takes them: the bucket is tried after growing pauses, not in a hot loop."""
    rig = rigs(interval_s=10.0)
    rig.seed(*pages("a.example", 1))
    pauses = []
    for _ in range(12):
        grant = rig.claim_one()
        rig.claims.release([(grant, False)])
        pauses.append(max(0.0, (rig.score("refill", "a.example") or 0) - rig.now_us()) / 1e6)
        rig.issue("a.example")
    assert pauses[0] == 0.0
    assert all(later >= earlier for earlier, later in pairwise(pauses[1:8]))
    assert pauses[1] <= 0.1
    assert 9.5 < pauses[-1] <= 10.0


def test_released_with_its_token_spent_the_bucket_keeps_its_time(rig: Rig) -> None:
    """The token is gone, so the next one comes at its own time, not sooner."""
    rig.seed(*pages("a.example", 2))
    grant = rig.claim_one()
    due_us = rig.score("refill", "a.example")

    assert rig.claims.release([(grant, True)]) == 1

    assert rig.score("refill", "a.example") == due_us
    assert rig.number("a.example", "tokens") == 0
    assert rig.waiting("http://a.example") == pages("a.example", 2)
    assert rig.number("a.example", "tat_us") == 0
    rig.audited()


def test_a_release_changes_only_what_is_still_claimed(rig: Rig) -> None:
    """A grant that was given back before, or that a worker has started, is left alone."""
    rig.seed("http://a.example/", "http://b.example/")
    first, second = rig.claim()
    rig.go(second)

    assert rig.claims.release([(first, True), (second, True)]) == 1
    assert rig.claims.release([(first, False), (second, False)]) == 0

    assert rig.claims.release([]) == 0
    assert rig.number(second.key, "in_flight") == 1
    count = rig.audited()
    assert (count.waiting, count.in_flight) == (1, 1)


def test_releases_of_many_partitions_are_counted_together(rigs: Callable[..., Rig]) -> None:
    """Grants of any partitions may be given back in one call."""
    rig = rigs(partitions=4)
    rig.seed(*(f"http://h{number}.example/" for number in range(20)))
    grants = rig.claim()
    assert len(grants) == 20
    assert rig.claims.release([(grant, True) for grant in grants]) == 20
    assert rig.audited().waiting == 20


def test_a_new_holder_recovers_what_its_predecessor_claimed(rig: Rig) -> None:
    """Unstarted grants of an older epoch go back; started ones and the holder's own stay."""
    rig.seed("http://a.example/", "http://b.example/", "http://c.example/")
    rig.client.zadd(rig.key("ready"), {f"{name}.example": n for n, name in enumerate("abc")})
    old, started = rig.claim(2)
    rig.go(started)
    rig.dispatching.leave()
    rig.leases("dispatch", "another").renew()
    rig.client.hset(rig.dispatching.key(0), "until_us", 0)
    rig.owned = rig.dispatching.renew()
    own = rig.claim_one()

    assert rig.claims.recover(rig.owned, own_too=False) == 1

    assert rig.waiting("http://a.example") == ["http://a.example/"]
    assert rig.start(old) == (Reply.STALE, None)
    assert rig.start(own)[0] is Reply.GO
    assert rig.claims.recover(rig.owned, own_too=False) == 0
    assert rig.audited().in_flight == 2


def test_after_a_lost_reply_the_holder_recovers_its_own(rig: Rig) -> None:
    """`own_too` gives back the holder's own unstarted grants, once."""
    rig.seed("http://a.example/", "http://b.example/")
    rig.claim()
    assert rig.claims.recover(rig.owned, own_too=True) == 2
    assert rig.claims.recover(rig.owned, own_too=True) == 0
    assert rig.claims.recover([], own_too=True) == 0
    assert rig.audited().waiting == 2


def test_a_former_holder_recovers_nothing(rig: Rig) -> None:
    """A recover with an epoch that is over counts nothing and changes nothing."""
    rig.seed("http://a.example/")
    grant = rig.claim_one()
    assert rig.claims.recover(foreign(rig.owned), own_too=True) == 0
    assert rig.start(grant)[0] is Reply.GO
