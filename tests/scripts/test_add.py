"""add: each answer, and that a URL is never seen without being queued."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, pages
from throttle.errors import FrontierError
from throttle.local.servers import PrivateRedis
from throttle.model import Candidate, End, Entry, HostPolicy, Verdict
from throttle.urls import digest

ADDED, SEEN, FULL = Verdict.ADDED, Verdict.SEEN, Verdict.FULL
INVALID, OUTSIDE = Verdict.INVALID, Verdict.OUTSIDE


def is_seen(rig: Rig, url: str, host: str) -> bool:
    """Whether the frontier would answer `seen` for `url`."""
    return bool(rig.client.sismember(rig.keys.of_host(host, "seen"), digest(url)))


def test_a_new_url_is_queued_and_its_host_waits_for_a_token(rig: Rig) -> None:
    """An added URL lies in its lane, and the bucket of its host is put up for refill at once."""
    before = rig.now_us()

    assert rig.add("http://a.example/x") == [ADDED]

    assert rig.waiting("http://a.example") == ["http://a.example/x"]
    assert before <= (rig.score("refill", "a.example") or 0) <= rig.now_us()
    assert rig.score("ready", "a.example") is None
    assert rig.audited().waiting == 1


def test_adding_again_changes_nothing(rig: Rig) -> None:
    """A URL that was accepted once is `seen` ever after, however it is spelled."""
    urls = pages("a.example", 5)
    assert rig.add(*urls) == [ADDED] * 5
    before = rig.record("a.example"), rig.waiting("http://a.example")

    assert rig.add(*urls, "HTTP://A.example:80/0#part") == [SEEN] * 6

    assert (rig.record("a.example"), rig.waiting("http://a.example")) == before
    assert rig.audited().accepted == 5


def test_a_url_twice_in_one_batch_is_added_once(rig: Rig) -> None:
    """The second of two equal candidates is `seen`."""
    assert rig.add("http://a.example/", "http://a.example/") == [ADDED, SEEN]
    assert rig.audited().waiting == 1


def test_a_url_stays_seen_after_its_end(rig: Rig) -> None:
    """A page that was fetched is not fetched again because another page links to it."""
    rig.seed("http://a.example/")
    rig.fetch()
    assert rig.add("http://a.example/") == [SEEN]


def test_order_in_is_order_out_over_partitions(rigs: Callable[..., Rig]) -> None:
    """Two thousand candidates of fifty hosts, each answered in its place and queued in order."""
    rig = rigs(partitions=4)
    urls = [f"http://h{number % 50}.example/{number}" for number in range(2000)]
    mixed = [url for number, url in enumerate(urls) for url in ([url, "no url"][: 1 + number % 2])]

    answers = rig.answers(mixed)

    assert [answer.url for answer in answers] == mixed
    assert [a.verdict for a in answers] == [INVALID if u == "no url" else ADDED for u in mixed]
    for host in range(50):
        expected = [url for url in urls if f"//h{host}.example/" in url]
        assert rig.waiting(f"http://h{host}.example") == expected
    assert rig.audited().waiting == 2000
    assert rig.add(*urls) == [SEEN] * 2000


def test_the_depth_bound_is_exact(rigs: Callable[..., Rig]) -> None:
    """A host holds as many URLs as the bound says, and one that is full may be asked later."""
    rig = rigs(host_depth=3)
    urls = pages("a.example", 5)

    assert rig.add(*urls) == [ADDED] * 3 + [FULL] * 2
    assert rig.answers(urls[3:4])[0].reason

    assert not is_seen(rig, urls[3], "a.example")
    assert rig.number("a.example", "full") == 3
    assert rig.census.totals().full == 3
    rig.robots_ok(urls[0])
    rig.issue()
    rig.claim_one()
    assert rig.add(*urls[3:]) == [ADDED, FULL]
    assert rig.add("http://other.example/") == [ADDED]
    rig.audited()


def test_delayed_urls_count_against_the_depth_bound(rigs: Callable[..., Rig]) -> None:
    """URLs that are put off are in the host's room, too."""
    rig = rigs(host_depth=1)
    rig.seed("http://a.example/0")
    rig.finish(rig.go(rig.claim_one()), End.AGAIN, wire_s=1.0, delay_s=60)
    assert rig.number("a.example", "delayed") == 1
    assert rig.add("http://a.example/1") == [FULL]


def test_a_candidate_for_known_hosts_only_stays_outside(rig: Rig) -> None:
    """A link to a host that nobody added is `outside`, until someone adds or sets that host."""
    link = Candidate("http://new.example/a", only_known_hosts=True)

    assert rig.intake.add([link])[0].verdict is OUTSIDE
    assert not rig.hosts.exists("new.example")
    assert rig.client.keys("*new.example*") == []

    rig.add("http://new.example/seed")
    assert rig.intake.add([link])[0].verdict is ADDED
    rig.hosts.set_policy("set.example", HostPolicy(interval_s=1.0))
    other = Candidate("http://set.example/a", only_known_hosts=True)
    assert rig.intake.add([other])[0].verdict is ADDED
    assert rig.audited().accepted == 3


def test_a_robots_redirect_does_not_make_its_host_known(rig: Rig) -> None:
    """A host that only served a robots.txt redirect is no part of the crawl."""
    rig.book.chase(Entry("http://cdn.example/robots.txt", hops=1, origin="http://a.example"))
    link = Candidate("http://cdn.example/a", only_known_hosts=True)
    assert rig.intake.add([link])[0].verdict is OUTSIDE


@pytest.mark.parametrize("name", ["host", "urls", "lanes", "seen"])
def test_a_key_of_a_wrong_type_refuses_one_host_only(rig: Rig, name: str) -> None:
    """A damaged host answers `invalid`; nothing of it is marked seen, and its neighbours go on."""
    whose = "http://bad.example" if name == "urls" else "bad.example"
    key = rig.key(f"{name}:{whose}")
    rig.client.set(key, "damaged")
    urls = ["http://a.example/", "http://bad.example/", "http://b.example/"]

    answers = rig.answers(urls)

    assert [answer.verdict for answer in answers] == [ADDED, INVALID, ADDED]
    assert "wrong type" in answers[1].reason
    assert name == "seen" or not is_seen(rig, urls[1], "bad.example")
    assert not rig.hosts.exists("bad.example")
    assert rig.audited().accepted == 2
    rig.client.delete(key)
    assert rig.add(*urls) == [SEEN, ADDED, SEEN]
    assert rig.audited().waiting == 3


def test_a_full_redis_accepts_nothing(own_redis: PrivateRedis, rigs: Callable[..., Rig]) -> None:
    """Out of memory, an add fails with a clear error, and its URL is not seen afterwards."""
    rig = rigs(own_redis.url)
    rig.add("http://a.example/0")
    rig.client.config_set("maxmemory", rig.client.info("memory")["used_memory"] - 1)

    with pytest.raises(FrontierError, match=r"full .*maxmemory"):
        rig.add("http://a.example/1")

    assert not is_seen(rig, "http://a.example/1", "a.example")
    assert rig.audited().waiting == 1
    rig.client.config_set("maxmemory", 0)
    assert rig.add("http://a.example/0", "http://a.example/1") == [SEEN, ADDED]
    rig.audited()


def test_without_a_default_policy_nothing_is_half_written(rig: Rig) -> None:
    """When one host of a batch has no policy to go by, the whole call fails and leaves no trace."""
    rig.hosts.set_policy("own.example", HostPolicy(1.0, 1, 1))
    rig.client.delete(rig.key("defaults"))
    before = rig.record("own.example")

    with pytest.raises(FrontierError, match="no default policy"):
        rig.add("http://own.example/", "http://a.example/")

    assert rig.record("own.example") == before
    assert rig.waiting("http://own.example") == []
    assert not is_seen(rig, "http://own.example/", "own.example")
    rig.hosts.publish_defaults(replace=True)
    assert rig.add("http://own.example/", "http://a.example/") == [ADDED, ADDED]
    rig.audited()


def test_an_add_wakes_the_issuer_once(rig: Rig) -> None:
    """Whoever sleeps until a token is due hears of a bucket that needs one now."""
    with rig.client.pubsub() as heard:
        heard.psubscribe(rig.keys.wake_pattern("issue"))
        assert heard.get_message(timeout=2)["type"] == "psubscribe"
        rig.add("http://a.example/0", "http://b.example/0")
        message = heard.get_message(timeout=2)
        assert rig.keys.partition_in(message["channel"].decode()) == 0
        rig.add("http://a.example/1")
        assert heard.get_message(timeout=0.05) is None


def test_max_pages_is_exact_and_room_comes_back(rigs: Callable[..., Rig]) -> None:
    """The whole crawl accepts as many URLs as set; candidates that were not added cost nothing."""
    rig = rigs(partitions=4, max_pages=3)

    assert rig.add("http://a.example/0", "http://a.example/0") == [ADDED, SEEN]
    assert rig.add("http://b.example/", "http://c.example/", "http://d.example/") == [
        ADDED,
        ADDED,
        FULL,
    ]

    assert rig.add("http://d.example/") == [FULL]
    assert rig.add("http://a.example/0") == [SEEN]
    assert rig.audited().accepted == 3


def test_seen_urls_do_not_crowd_new_ones_out_of_max_pages(rigs: Callable[..., Rig]) -> None:
    """A page whose first links are all known still gets its new ones into what room is left."""
    rig = rigs(max_pages=6)
    known = pages("a.example", 4)
    rig.add(*known)

    assert rig.add(*known, "http://b.example/0", "http://b.example/1", "http://b.example/2") == [
        SEEN,
        SEEN,
        SEEN,
        SEEN,
        ADDED,
        ADDED,
        FULL,
    ]
    assert rig.audited().accepted == 6
