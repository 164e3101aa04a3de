"""What beat and the dispatcher log of faults and of standing by: what is new, and no more."""

import logging

import pytest

from throttle.frontier.faults import FaultLog, Standby
from throttle.frontier.leases import Owned

_log = logging.getLogger("throttle.test")


def test_a_fault_is_told_once_and_again_after_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An outage of ten minutes is some fifteen lines, not a thousand."""
    now_s = 100.0
    faults = FaultLog(_log, lambda: now_s)
    told_s = []
    for _ in range(2 * 600):
        caplog.clear()
        faults.tell("Redis is away")
        told_s += [now_s - 100.0] * len(caplog.records)
        now_s += 0.5
    assert told_s[:8] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert len(told_s) == 15


def test_another_fault_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """One fault hides no other."""
    faults = FaultLog(_log, lambda: 5.0)
    for fault in ("one", "two", "one", "two"):
        faults.tell(fault)
    assert caplog.messages == ["one", "two"]


def test_well_again_is_told_once_when_the_faults_have_stayed_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A person knows when it is over, and the next fault is told at once."""
    now_s = 0.0
    faults = FaultLog(_log, lambda: now_s)
    faults.look()
    faults.tell("one")
    for later_s in (1.0, 9.9, 10.0, 11.0):
        now_s = later_s
        faults.look()
    faults.tell("one")
    assert caplog.messages == ["one", "well again: no fault for 10s", "one"]


def test_standing_by_and_taking_over_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """The log of a standby names who works, and the moment when it works itself."""
    caplog.set_level(logging.WARNING)
    standby = Standby(_log)
    for held, others in (([], []), ([], ["m:1:a"]), ([], ["m:1:a"]), ([Owned(0, "2")], [])):
        standby.note(held, others)
    standby.note([Owned(0, "2")], ["m:1:a"])
    assert caplog.messages == ["standing by: m:1:a holds the leases", "takes over 1 partitions"]
