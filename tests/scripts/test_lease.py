"""lease: one holder at a time, and an epoch that never comes twice."""

from collections.abc import Callable

import pytest

from tests.scripts.frontier import Rig
from throttle.errors import Fenced
from throttle.frontier.leases import Owned


@pytest.fixture
def two(rigs: Callable[..., Rig]) -> Rig:
    """A frontier with two partitions."""
    return rigs(partitions=2)


def test_the_first_takes_every_partition(two: Rig) -> None:
    """All partitions are held under epoch 1, and are new to their holder."""
    assert two.leases("other", "one").renew() == [Owned(0, "1", True), Owned(1, "1", True)]


def test_renewing_keeps_the_epoch(two: Rig) -> None:
    """A holder that goes on is not new, and its epoch stays; its time is longer again."""
    leases = two.leases("other", "one")
    leases.renew()
    key = leases.key(0)
    two.client.hset(key, "until_us", 5)
    assert leases.renew() == [Owned(0, "1"), Owned(1, "1")]
    assert int(two.client.hget(key, "until_us")) > two.now_us() + 50_000_000


def test_a_second_holder_waits_until_the_first_is_silent(two: Rig) -> None:
    """While the lease runs nobody else gets it; after that it goes to one, under a new epoch."""
    first, second = two.leases("other", "one", ttl_s=0.1), two.leases("other", "two", ttl_s=60)
    first.renew()
    assert second.renew() == []
    two.pass_until(int(two.client.hget(first.key(0), "until_us")) - 20_000)
    assert first.renew() == [Owned(0, "1"), Owned(1, "1")]
    assert second.renew() == []
    two.pass_until(max(int(two.client.hget(first.key(p), "until_us")) for p in (0, 1)) + 1)

    assert second.renew() == [Owned(0, "2", True), Owned(1, "2", True)]
    assert first.renew() == []


def test_who_leaves_lets_the_next_in_at_once(two: Rig) -> None:
    """After a clean stop the successor need not wait, and the epoch still rises."""
    first, second = two.leases("other", "one"), two.leases("other", "two")
    first.renew()
    first.leave()
    first.leave()
    assert second.renew() == [Owned(0, "2", True), Owned(1, "2", True)]
    second.leave()
    assert first.renew() == [Owned(0, "3", True), Owned(1, "3", True)]


def test_only_the_holder_can_leave(two: Rig) -> None:
    """A former holder that stops takes nothing away from the present one."""
    first, second = two.leases("other", "one"), two.leases("other", "two")
    first.renew()
    second.leave()
    assert second.renew() == []


def test_a_holder_of_a_part_is_told_which(two: Rig) -> None:
    """Partitions are leased one by one."""
    first, second = two.leases("other", "one"), two.leases("other", "two")
    first.renew()
    two.client.hset(first.key(1), "until_us", 0)
    assert second.renew() == [Owned(1, "2", True)]
    assert first.renew() == [Owned(0, "1")]


def test_a_revived_holder_is_fenced(rig: Rig) -> None:
    """A process that slept through the end of its lease can do nothing with it."""
    rig.seed("http://a.example/")
    rig.client.hset(rig.dispatching.key(0), "until_us", 0)
    assert [one.epoch for one in rig.leases("dispatch", "successor").renew()] == ["2"]
    with pytest.raises(Fenced):
        rig.claim()
    rig.client.hset(rig.dispatching.key(0), "until_us", 0)
    assert [one.epoch for one in rig.dispatching.renew()] == ["3"]
    with pytest.raises(Fenced):
        rig.claim()
    assert rig.audited().waiting == 1


def test_a_lost_lease_key_fences_its_holder(rig: Rig) -> None:
    """After Redis lost its data nobody goes on under an old lease."""
    rig.client.delete(rig.dispatching.key(0))
    with pytest.raises(Fenced):
        rig.claim()
