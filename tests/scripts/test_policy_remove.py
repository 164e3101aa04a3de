"""policy, show and remove: what the operator sets holds at once, and a removed host keeps its
clock."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import FOREVER_S, Rig, a_case, pages
from throttle.errors import FrontierError, UsageError
from throttle.frontier.hosts import Hosts
from throttle.frontier.keys import Keys
from throttle.frontier.startgate import Reply
from throttle.model import End, HostPolicy, Verdict


def test_a_longer_interval_moves_the_clock_out(rigs: Callable[..., Rig]) -> None:
    """The next start comes no sooner than the new interval after the last wire time."""
    rig = rigs(interval_s=0.01)
    rig.seed(*pages("a.example", 3))
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=started.now_s)
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=0.15))
    opens_us = round(started.now_s * 1e6) + 150_000
    rig.issue()

    assert rig.number("a.example", "tat_us") == opens_us
    assert rig.score("ready", "a.example") == opens_us
    assert rig.claim() == []
    rig.pass_until(opens_us)
    assert rig.start(rig.claim_one())[0] is Reply.GO


def test_a_shorter_interval_lets_the_host_go_sooner(rig: Rig) -> None:
    """From an hour to a moment: the clock comes in as far as the new interval allows."""
    rig.seed(*pages("a.example", 2))
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=started.now_s)
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=0.05))
    assert rig.number("a.example", "tat_us") == round(started.now_s * 1e6) + 50_000
    assert rig.issue() == ["a.example"]
    rig.pass_until(started.now_s * 1e6 + 50_000)
    assert rig.start(rig.claim_one())[0] is Reply.GO


def test_a_spent_burst_stays_spent_under_a_longer_interval(rigs: Callable[..., Rig]) -> None:
    """Requests made under the old interval count against the burst of the new one."""
    rig = rigs(interval_s=1.0, burst=5, concurrency=5)
    rig.seed(*pages("a.example", 6))
    wire_us = rig.now_us()
    for _ in range(5):
        rig.finish(rig.go(rig.claim_one()), wire_s=wire_us / 1e6)
        rig.issue("a.example")

    rig.hosts.set_policy("a.example", HostPolicy(interval_s=100.0))

    rig.issue()
    view = rig.hosts.show(["a.example"])[0]
    assert view.clock_opens_s >= wire_us / 1e6 + 99.0
    assert rig.claim() == []


@pytest.mark.parametrize("policy", [HostPolicy(burst=5), HostPolicy(interval_s=9.0)])
def test_a_changed_bucket_is_believed_empty(rig: Rig, policy: HostPolicy) -> None:
    """Its queue may need other arguments: it is put up for refill now, and no host goes on old
    tokens."""
    rig.seed("http://a.example/")
    assert rig.number("a.example", "tokens") == 1

    rig.hosts.set_policy("a.example", policy)

    assert rig.number("a.example", "tokens") == 0
    assert (rig.score("refill", "a.example") or rig.now_us()) <= rig.now_us()
    assert rig.score("ready", "a.example") is None
    assert rig.issue() == ["a.example"]
    assert rig.claim_one().url == "http://a.example/"


def test_what_does_not_change_the_bucket_leaves_its_tokens(rig: Rig) -> None:
    """Concurrency, pause, and values that are in force already cost no token."""
    rig.seed("http://a.example/")
    rig.hosts.set_policy("a.example", HostPolicy(FOREVER_S, 1, 4))
    rig.hosts.pause("a.example", paused=True)
    rig.hosts.pause("a.example", paused=False)
    assert rig.number("a.example", "tokens") == 1
    assert rig.score("refill", "a.example") is None
    assert rig.claim_one().url == "http://a.example/"


def test_a_change_while_the_last_url_is_in_flight_strands_nothing(
    rigs: Callable[..., Rig],
) -> None:
    """The URL that comes back to a host with an emptied bucket gets a token and goes on."""
    rig = rigs(concurrency=2)
    rig.seed("http://a.example/")
    started = rig.go(rig.claim_one())
    rig.issue("a.example")
    assert rig.score("refill", "a.example") is None
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=0.01))

    rig.finish(started, End.AGAIN, wire_s=started.now_s)

    assert rig.issue() == ["a.example"]
    rig.pass_until(rig.number("a.example", "tat_us"))
    assert rig.claim_one().url == "http://a.example/"


def test_a_wider_concurrency_holds_at_once(rigs: Callable[..., Rig]) -> None:
    """A slot more is a URL more, without waiting for anything else to happen."""
    rig = rigs(burst=3)
    rig.seed(*pages("a.example", 3))
    rig.issue("a.example")
    rig.claim_one()
    assert rig.claim() == []
    rig.hosts.set_policy("a.example", HostPolicy(concurrency=2))
    rig.claim_one()
    assert rig.claim() == []


def test_a_policy_names_only_what_it_sets(rig: Rig) -> None:
    """Each field stands by itself; what was not named stays as it was, or as the default says."""
    rig.hosts.set_policy("a.example", HostPolicy(burst=7))
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=1.5))
    view = rig.hosts.show(["a.example"])[0]
    assert (view.interval_s, view.burst, view.concurrency) == (1.5, 7, 1)
    assert view.interval_source == "operator"
    other = rig.hosts.show(["b.example"])[0]
    assert (other.interval_s, other.burst, other.concurrency) == (FOREVER_S, 1, 1)
    assert other.interval_source == "default"
    assert not rig.hosts.exists("b.example")
    assert rig.record("b.example") == {}


@pytest.mark.parametrize(
    "policy",
    [
        HostPolicy(burst=0),
        HostPolicy(burst=-1),
        HostPolicy(concurrency=0),
        HostPolicy(interval_s=0.0),
        HostPolicy(interval_s=-1.0),
    ],
)
def test_a_policy_that_means_nothing_is_refused(rig: Rig, policy: HostPolicy) -> None:
    """Zero is no way to say never or unlimited; nothing is written."""
    with pytest.raises(UsageError):
        rig.hosts.set_policy("a.example", policy)
    assert not rig.hosts.exists("a.example")


def test_a_new_default_holds_for_hosts_without_their_own(rig: Rig) -> None:
    """Replacing the defaults changes the hosts beneath them; filling in changes nothing."""
    rig.hosts.set_policy("own.example", HostPolicy(9.0, 9, 9))
    later = Hosts(rig.scripts, rig.keys, HostPolicy(5.0, 2, 3))
    later.publish_defaults(replace=False)
    assert rig.hosts.show(["a.example"])[0].burst == 1
    later.publish_defaults(replace=True)
    views = rig.hosts.show(["a.example", "own.example"])
    assert [(v.interval_s, v.burst, v.concurrency) for v in views] == [(5.0, 2, 3), (9.0, 9, 9)]


def test_a_namespace_keeps_its_number_of_partitions(rig: Rig) -> None:
    """Another number would look for URLs where they are not: it is refused, with the remedy."""
    other = Hosts(rig.scripts, Keys("test", 8), HostPolicy(1.0, 1, 1))
    with pytest.raises(FrontierError, match="THROTTLE_PARTITIONS=1"):
        other.publish_defaults(replace=True)


def test_show_tells_where_a_host_stands(rig: Rig) -> None:
    """All of a host at one moment: counts, clock, next times, robots.txt."""
    rig.seed(*pages("a.example", 4))
    started = rig.go(rig.claim_one())
    rig.finish(started, End.AGAIN, wire_s=started.now_s, delay_s=60, block_s=30)
    rig.issue("a.example")

    view = rig.hosts.show(["a.example"])[0]

    assert (view.waiting, view.delayed, view.in_flight, view.tokens) == (3, 1, 0, 1)
    assert view.clock_opens_s == pytest.approx(started.now_s + FOREVER_S, abs=1e-5)
    assert view.ready_at_s == view.clock_opens_s
    assert 29 < view.blocked_until_s - view.now_s <= 30
    assert 59 < (view.next_delayed_s or 0) - view.now_s <= 60
    assert view.refill_at_s is None
    assert not view.paused
    assert view.robots["http://a.example"].state == "ok"
    rig.hosts.pause("a.example", paused=True)
    assert rig.hosts.show(["a.example"])[0].paused


def test_every_host_is_listed_once(rigs: Callable[..., Rig]) -> None:
    """The list names all hosts of all partitions, known by URL or by policy."""
    rig = rigs(partitions=4)
    rig.add(*(f"http://h{number}.example/" for number in range(50)))
    rig.hosts.set_policy("set.example", HostPolicy(burst=2))
    listed = list(rig.hosts.keys())
    assert sorted(listed) == sorted(
        [*(f"h{number}.example" for number in range(50)), "set.example"]
    )


def test_a_removed_host_leaves_nothing_but_its_clock(rig: Rig) -> None:
    """URLs, seen set, policy and schedule are gone, and the audit still adds up."""
    rig.seed(*pages("a.example", 3), "http://a.example:8080/")
    for end, delay_s in ((End.DONE, 0), (End.AGAIN, 60)):
        rig.open_clock("a.example")
        started = rig.go(rig.claim_one())
        rig.finish(started, end, wire_s=started.now_s, delay_s=delay_s)
        rig.issue("a.example")
    rig.add("http://b.example/")

    assert rig.hosts.remove("a.example") == ("removed", 3)

    assert rig.client.keys("*a.example*") == [b"test:{0}:clock:a.example"]
    assert not rig.hosts.exists("a.example")
    assert {rig.score(name, "a.example") for name in ("ready", "refill")} == {None}
    count = rig.audited()
    assert (count.accepted, count.done, count.waiting) == (2, 1, 1)
    assert rig.hosts.remove("a.example") == ("unknown", 0)


def test_a_removed_host_that_comes_back_is_not_fetched_early(rigs: Callable[..., Rig]) -> None:
    """The gap holds across remove and add: the clock is kept until it has opened."""
    rig = rigs(interval_s=0.2)
    rig.seed("http://a.example/")
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=started.now_s)
    opens_us = rig.number("a.example", "tat_us")
    rig.hosts.remove("a.example")

    rig.robots_ok("http://a.example")
    assert rig.add("http://a.example/") == [Verdict.ADDED]
    rig.issue()

    assert rig.number("a.example", "tat_us") == opens_us
    assert rig.claim() == []
    rig.pass_until(opens_us)
    assert rig.start(rig.claim_one())[0] is Reply.GO


def test_a_shorter_interval_does_not_undo_a_kept_clock(rig: Rig) -> None:
    """A host that is removed and set anew with its old, short interval keeps its gap, though the
    default is long."""
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=5.0))
    rig.seed("http://a.example/")
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=started.now_s)
    rig.hosts.remove("a.example")

    rig.hosts.set_policy("a.example", HostPolicy(interval_s=5.0))
    rig.seed("http://a.example/")

    assert rig.number("a.example", "tat_us") >= (started.now_s + 5.0) * 1e6 - 1
    assert rig.claim() == []


def test_a_block_outlives_a_removal(rig: Rig) -> None:
    """A host that asked to be left alone is left alone, removed or not."""
    rig.seed("http://a.example/")
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=None, block_s=60)
    rig.hosts.remove("a.example")
    rig.seed("http://a.example/")
    assert rig.claim() == []
    assert rig.hosts.show(["a.example"])[0].blocked_until_s > started.now_s + 59


def test_a_kept_clock_ends_by_itself(rig: Rig) -> None:
    """What is left of a removed host goes away soon after its clock has opened."""
    rig.hosts.set_policy("a.example", HostPolicy(interval_s=0.5))
    rig.seed("http://a.example/")
    started = rig.go(rig.claim_one())
    rig.finish(started, wire_s=started.now_s)
    rig.hosts.remove("a.example")
    assert 500 < rig.client.pttl(rig.key("clock:a.example")) <= 1500


@pytest.mark.parametrize("is_started", [False, True])
def test_a_host_in_flight_is_not_removed(rig: Rig, is_started: bool) -> None:
    """With a grant open the host stays whole, and the reply says how many there are."""
    rig.seed(*pages("a.example", 2))
    grant = rig.claim_one()
    if is_started:
        rig.go(grant)
    record = rig.record("a.example")

    assert rig.hosts.remove("a.example") == ("busy", 1)

    assert rig.record("a.example") == record
    assert rig.audited().waiting == 1


def test_an_unknown_host_is_not_removed(rig: Rig) -> None:
    """Nothing is counted for a host that was never there."""
    assert rig.hosts.remove("never.example") == ("unknown", 0)
    rig.audited()


def test_a_refusal_outlives_a_removal(rig: Rig) -> None:
    """A host that does not want us is not crawled again by removing and adding it."""
    rig.seed("http://a.example/")
    change = rig.change("a.example", refused_us=True, case=a_case())
    rig.answer(rig.go(rig.claim_one()), End.REFUSED, change=change)
    assert rig.hosts.remove("a.example") == ("removed", 0)
    rig.seed("http://a.example/")
    rig.open_clock("a.example")
    assert rig.hosts.show(["a.example"])[0].refuses_us
    assert rig.claim() == []
    rig.cases.close("a.example", "refused", who="ann", why="they agreed", closed_at="", resume=True)
    assert len(rig.claim()) == 1


def test_a_refusal_of_a_removed_host_is_forgotten_with_its_case(rig: Rig) -> None:
    """Closed with resume, it leaves nothing behind."""
    rig.seed("http://a.example/")
    change = rig.change("a.example", refused_us=True, case=a_case())
    rig.answer(rig.go(rig.claim_one()), End.REFUSED, change=change)
    rig.hosts.remove("a.example")
    rig.cases.close("a.example", "refused", who="ann", why="gone", closed_at="", resume=True)
    assert rig.client.keys("*a.example*") == [b"test:{0}:clock:a.example"]
