"""The seen set, exact and in Bloom filters: what it forgets, mistakes and costs."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig, pages
from throttle.errors import FrontierError
from throttle.frontier.seen import Seen
from throttle.model import Verdict

ADDED, SEEN = Verdict.ADDED, Verdict.SEEN
MANY = 20_000


def _bytes_per_url(rig: Rig, *patterns: str) -> float:
    keys = [key for pattern in patterns for key in rig.client.scan_iter(pattern)]
    assert keys
    return sum(rig.client.memory_usage(key, samples=0) for key in keys) / MANY


def test_no_accepted_url_is_ever_new_again(rigs: Callable[..., Rig]) -> None:
    """However many filters a host's URLs fill, each of them is seen the second time."""
    rig = rigs(error_rate=1e-6, host_depth=MANY)
    urls = pages("a.example", 3000)
    assert rig.add(*urls) == [ADDED] * 3000
    assert rig.add(*urls) == [SEEN] * 3000
    assert len(rig.client.keys("*bloom:a.example:*")) > 3
    assert rig.audited().accepted == 3000


def test_a_bloom_filter_mistakes_no_more_urls_than_it_promises(rigs: Callable[..., Rig]) -> None:
    """The error rate holds over all filters of a host, full and half full ones."""
    rig = rigs(error_rate=0.01, host_depth=2 * MANY)
    verdicts = rig.add(*pages("a.example", MANY))
    mistaken = verdicts.count(SEEN)
    assert 0 < mistaken <= 0.01 * MANY
    assert set(verdicts) == {ADDED, SEEN}


def test_small_filters_keep_the_rate_too(rigs: Callable[..., Rig]) -> None:
    """Many hosts with a few URLs each do not add up to more mistakes."""
    rig = rigs(error_rate=0.001, host_depth=MANY)
    urls = [url for number in range(200) for url in pages(f"h{number}.example", 60)]
    assert rig.add(*urls).count(SEEN) <= 0.001 * len(urls)


def test_what_a_url_costs(rigs: Callable[..., Rig]) -> None:
    """The bytes per URL that docs/architecture.md states, of 20,000 URLs of one host."""
    exact = rigs(host_depth=MANY)
    exact.add(*pages("a.example", MANY))
    assert 50 < _bytes_per_url(exact, "*seen:*") < 90
    exact.client.flushall()
    bloom = rigs(host_depth=MANY, error_rate=1e-6)
    bloom.add(*pages("a.example", MANY))
    assert 2 < _bytes_per_url(bloom, "*bloom:*") < 12


def test_a_crawl_keeps_the_kind_of_seen_set_it_began_with(rigs: Callable[..., Rig]) -> None:
    """A process with other settings is refused rather than fetch everything again."""
    rigs().add("http://a.example/")
    other = rigs(error_rate=1e-6)
    other.hosts.publish_defaults(replace=True)
    with pytest.raises(FrontierError, match="THROTTLE_SEEN"):
        other.add("http://a.example/")
    assert rigs().add("http://a.example/") == [SEEN]


def test_a_host_taken_out_takes_its_filters_along(rigs: Callable[..., Rig]) -> None:
    """Nothing of a removed host's seen set stays, and its URLs are new again."""
    rig = rigs(error_rate=1e-6)
    rig.add(*pages("a.example", 500))
    rig.hosts.remove("a.example")
    assert rig.client.keys("*bloom:*") == []
    assert rig.add(*pages("a.example", 5)) == [ADDED] * 5


def test_the_bound_of_the_crawl_knows_seen_urls(rigs: Callable[..., Rig]) -> None:
    """Near max_pages, URLs in a filter take no room of new ones."""
    rig = rigs(error_rate=1e-6, max_pages=3)
    assert rig.add(*pages("a.example", 2)) == [ADDED] * 2
    assert rig.add(*pages("a.example", 4)) == [SEEN, SEEN, ADDED, Verdict.FULL]


def test_a_wrong_type_in_place_of_a_filter_refuses_that_host_only(
    rigs: Callable[..., Rig],
) -> None:
    """A filter that cannot be read loses no URL: its host's are answered `invalid`."""
    rig = rigs(error_rate=1e-6)
    rig.client.sadd(rig.key("bloom:a.example:0"), "x")
    assert rig.add("http://a.example/", "http://b.example/") == [Verdict.INVALID, ADDED]


def test_marks_are_of_the_url_alone() -> None:
    """Every process marks a URL the same way; 16 bytes are enough for an exact set."""
    url = "http://a.example/"
    assert Seen().mark(url) == Seen().mark(url) != Seen().mark(url + "x")
    assert len(Seen().mark(url)) == 16
    assert Seen(1e-6).kind == "bloom 1e-06"
