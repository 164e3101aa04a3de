"""A crew of real processes per test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crew import Crew
from throttle.local.origin import Origin


@pytest.fixture
def crew(
    tmp_path: Path, broker_url: str, redis_url: str, origin: Origin
) -> Iterator[Callable[..., Crew]]:
    """Makes crews on the shared servers; their processes end with the test."""
    made: list[Crew] = []

    def make(*hosts: str, **settings: str) -> Crew:
        directory = tmp_path / f"crew{len(made)}"
        directory.mkdir()
        made.append(
            Crew(
                directory,
                broker_url=broker_url,
                redis_url=redis_url,
                origin=origin,
                hosts=hosts,
                **settings,
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()
