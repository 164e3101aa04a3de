"""When a crawl counts as drained, judged by readings that are not one moment."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from throttle.errors import ServerUnreachable
from throttle.frontier.census import Totals
from throttle.ops.draining import drained, readings

QUIET = Totals(
    accepted=9,
    done=7,
    refused=1,
    dead=1,
    waiting=0,
    delayed=0,
    in_flight=0,
    full=0,
    early=0,
    hosts=1,
    ready=0,
    outcomes={},
    robots={},
)


class _Census:
    def __init__(self, answers: Iterator[Any]) -> None:
        self._answers = answers

    def totals(self) -> Totals:
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_two_equal_quiet_readings_are_drained() -> None:
    """Nothing is left, and nothing came in between."""
    assert drained(QUIET, QUIET)
    assert not drained(None, QUIET)


@pytest.mark.parametrize("name", ["accepted", "done", "refused", "dead"])
def test_a_quiet_reading_after_a_change_is_not_drained(name: str) -> None:
    """A page that ended between two partitions may have added a URL to the one read before."""
    assert not drained(replace(QUIET, **{name: 0}), QUIET)


@pytest.mark.parametrize("name", ["waiting", "delayed", "in_flight"])
def test_what_is_left_is_not_drained(name: str) -> None:
    """A URL anywhere on the road keeps the crawl going."""
    assert not drained(replace(QUIET, **{name: 1}), replace(QUIET, **{name: 1}))


def test_readings_go_on_while_redis_is_away_for_a_moment() -> None:
    """A restart of Redis does not end the command that waits."""
    census = _Census(iter([ServerUnreachable("away"), QUIET, ServerUnreachable("away"), QUIET]))
    found = list(itertools.islice(readings(census, pause=lambda: None), 2))
    assert [is_drained for _, is_drained in found] == [False, True]


def test_readings_end_when_redis_stays_away() -> None:
    """The command tells of it instead of waiting for ever."""
    census = _Census(itertools.repeat(ServerUnreachable("away")))
    with pytest.raises(ServerUnreachable):
        next(readings(census, pause=lambda: None, patience_s=0.01))
