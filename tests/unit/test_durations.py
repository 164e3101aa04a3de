"""Durations and rates: what people may write, what is refused, and how they are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttle.durations import LONGEST_S, format_duration, parse_duration
from throttle.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("2s", 2.0),
        (" 2s ", 2.0),
        ("0.5", 0.5),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("1m", 60.0),
        ("1m1ms", 60.001),
        ("1h30m", 5400.0),
        ("1d2h", 93600.0),
        ("366d", LONGEST_S),
        ("30/m", 2.0),
        ("1/s", 1.0),
        ("0.5/s", 2.0),
        ("1500/s", 1 / 1500),
        ("24/d", 3600.0),
        ("0", 0.0),
    ],
)
def test_durations_and_rates_are_read_as_people_write_them(text: str, seconds: float) -> None:
    """Seconds, units, sums of units and rates all give seconds."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "s",
        "-1s",
        "+1s",
        "1e3",
        "1_0",
        "nan",
        "inf",
        "1,5s",
        ".5s",
        "2 s",
        "2S",
        "2sec",
        "1h 30m",
        "2s\n3s",
        "\u0662s",
        "1\uff10s",
        "0/s",
        "0.0/m",
        "/s",
        "30/",
        "30/ms",
        "30/m/s",
        "-30/m",
        "1/2s",
        "367d",
        "0.001/d",
        "9" * 400,
        "9" * 400 + "/s",
    ],
)
def test_anything_else_is_refused_with_what_it_got_and_what_it_takes(text: str) -> None:
    """A mistyped duration never becomes another pace: the message shows it and an example."""
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    message = str(caught.value)
    assert repr(text.strip()[:40]) in message
    assert "30/m" in message or "366d" in message
    assert len(message) < 200


@given(st.text(max_size=40))
def test_no_text_gives_a_negative_or_endless_duration(text: str) -> None:
    """Whatever is written, the answer is a sane number of seconds or a refusal."""
    try:
        seconds = parse_duration(text)
    except UsageError:
        return
    assert 0 <= seconds <= LONGEST_S


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.25, "250ms"),
        (0.0005, "0.5ms"),
        (0.9994, "999ms"),
        (0.9999, "0.9999s"),
        (0.99999, "1s"),
        (1, "1s"),
        (2.5, "2.5s"),
        (59.99, "59.99s"),
        (59.999, "1m"),
        (60, "1m"),
        (90, "1m30s"),
        (3599.7, "1h"),
        (5400, "1h30m"),
        (3661, "1h1m"),
        (86400, "1d"),
        (LONGEST_S, "366d"),
    ],
)
def test_a_duration_is_shown_in_its_largest_units(seconds: float, text: str) -> None:
    """Tables stay narrow: two units at most, never `1e+03ms` or `60s`."""
    assert format_duration(seconds) == text


@given(st.floats(min_value=0.001, max_value=LONGEST_S))
def test_what_is_shown_can_be_written_back(seconds: float) -> None:
    """A duration copied from a table is accepted, and is off by no more than its last unit."""
    again = parse_duration(format_duration(seconds))
    assert again == pytest.approx(seconds, rel=0.05)
