"""A frontier on an empty Redis for each test of this folder."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.scripts.frontier import Rig


@pytest.fixture
def rigs(redis_url: str) -> Iterator[Callable[..., Rig]]:
    """Makes frontiers with other settings on the shared Redis, empty before the first."""
    made: list[Rig] = []

    def make(url: str = redis_url, **settings: Any) -> Rig:
        made.append(Rig(url, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def rig(rigs: Callable[..., Rig]) -> Rig:
    """A frontier whose hosts have burst 1, concurrency 1 and an interval that never passes."""
    return rigs()
