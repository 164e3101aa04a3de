"""The names and arguments of queues: always legal, and changed only when they must be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttle.errors import UsageError
from throttle.tokens.topology import (
    crawl_queue_arguments,
    dead_queue,
    dead_queue_arguments,
    queue_shape,
    token_queue,
    token_queue_arguments,
)

HOUR_MS = 3_600_000
BURSTS = st.integers(1, 10_000)
INTERVALS_S = st.floats(0.001, 366 * 86400.0)


def test_a_token_queue_is_named_after_its_key() -> None:
    """Whoever looks at RabbitMQ finds a host's tokens by the host's name."""
    assert token_queue("example.com") == "tokens.example.com"
    assert token_queue("a" * 248) == "tokens." + "a" * 248


@pytest.mark.parametrize(
    "key", ["a" * 249, "a" * 251, "ä" * 132, ".".join(["a" * 61] * 4) + ".xyz"]
)
def test_a_name_over_255_bytes_is_hashed(key: str) -> None:
    """AMQP allows 255 bytes, not characters; a longer host gets tokens like any other."""
    name = token_queue(key)
    assert len(name) == len("tokens.#") + 32
    assert name.startswith("tokens.#")
    assert name != token_queue(key + "a")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=600))
def test_every_key_has_a_legal_queue_name(key: str) -> None:
    """No host can stop the token issue with its name."""
    assert len(token_queue(key).encode()) <= 255


@given(BURSTS, INTERVALS_S)
def test_a_token_queue_holds_the_burst_and_outlives_the_interval(
    burst: int, interval_s: float
) -> None:
    """A bucket never holds more than its burst, and does not go away between two tokens."""
    arguments = token_queue_arguments(burst, interval_s)
    assert arguments["x-max-length"] == burst
    assert arguments["x-overflow"] == "drop-head"
    expires_ms = arguments["x-expires"]
    assert isinstance(expires_ms, int)
    assert HOUR_MS <= expires_ms <= 2**32 - 1
    if expires_ms < 2**32 - 1:
        assert expires_ms >= 4 * interval_s * 1000
        hours, rest = divmod(expires_ms, HOUR_MS)
        assert rest == 0
        assert hours.bit_count() == 1


@given(BURSTS, INTERVALS_S, BURSTS, INTERVALS_S)
def test_the_shape_differs_exactly_when_the_arguments_do(
    burst: int, interval_s: float, other_burst: int, other_interval_s: float
) -> None:
    """A queue is declared anew when it must be, and not once more."""
    same_arguments = token_queue_arguments(burst, interval_s) == token_queue_arguments(
        other_burst, other_interval_s
    )
    same_shape = queue_shape(burst, interval_s) == queue_shape(other_burst, other_interval_s)
    assert same_shape == same_arguments


@pytest.mark.parametrize(
    ("burst", "interval_s", "shape"),
    [(5, 2.0, "5/3600"), (5, 900.0, "5/3600"), (1, 901.0, "1/7200"), (1, 86400.0, "1/460800")],
)
def test_a_small_change_of_pace_keeps_the_queue(burst: int, interval_s: float, shape: str) -> None:
    """Only a step over a power of two of hours costs a new declaration."""
    assert queue_shape(burst, interval_s) == shape


@pytest.mark.parametrize("burst", [0, -1])
def test_a_burst_below_one_is_refused_in_words(burst: int) -> None:
    """RabbitMQ would take it, and swallow every token without a word."""
    with pytest.raises(UsageError, match=r"burst of .* at least 1, or pause the host"):
        token_queue_arguments(burst, 2.0)


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("inf"), float("nan")])
def test_an_interval_that_is_none_is_refused(interval_s: float) -> None:
    """Nonsense is told apart before it reaches RabbitMQ."""
    with pytest.raises(UsageError, match="positive number of seconds"):
        token_queue_arguments(1, interval_s)


def test_a_full_crawl_queue_refuses_instead_of_dropping() -> None:
    """Work is never dropped from its head; what the queue gives up on stays to be looked at."""
    arguments = crawl_queue_arguments("crawl", length=7)
    assert arguments["x-max-length"] == 7
    assert arguments["x-overflow"] == "reject-publish"
    assert arguments["x-dead-letter-routing-key"] == dead_queue("crawl") == "crawl.dead"
    assert crawl_queue_arguments("crawl", quorum=True)["x-queue-type"] == "quorum"
    assert dead_queue_arguments()["x-overflow"] == "drop-head"
