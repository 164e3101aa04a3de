"""Retry-After as servers really send it: obeyed when it is proper, else as if it were absent."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from throttle.retry_after import LONGEST_S, parse_retry_after

NOW = datetime(2026, 11, 6, 8, 47, 37, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("  120\t", 120.0),
        ("0120", 120.0),
        ("99999999999999999999", LONGEST_S),
        ("9" * 5000, LONGEST_S),
        ("Fri, 06 Nov 2026 08:49:37 GMT", 120.0),
        ("Friday, 06-Nov-26 08:49:37 GMT", 120.0),
        ("Fri Nov  6 08:49:37 2026", 120.0),
        ("Fri Nov 13 08:47:37 2026", 7 * 86400.0),
        ("Thu, 31 Dec 2026 23:59:60 GMT", 4_806_743.0),
        ("Friday, 31-Dec-99 23:59:59 GMT", None),
        ("Friday, 31-Dec-75 23:59:59 GMT", LONGEST_S),
        ("Fri, 31 Dec 9999 23:59:60 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_S),
        ("0", None),
        ("Fri, 06 Nov 2026 07:47:37 GMT", None),
        ("Fri, 06 Nov 2026 08:47:37 GMT", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("Thursday, 01-Jan-77 00:00:00 GMT", None),
        ("", None),
        ("-1", None),
        ("+5", None),
        ("1.5", None),
        ("1e3", None),
        ("120junk", None),
        ("120, 60", None),
        ("\uff11\uff12\uff10", None),
        ("\u0663", None),
        ("120\n", None),
        ("Fri, 06 Nov 2026 08:49:37", None),
        ("Fri, 06 Nov 2026 08:49:37 +0200", None),
        ("Fri, 06 Nov 2026 08:49:37 UTC", None),
        ("Fri, 6 Nov 2026 08:49:37 GMT", None),
        ("fri, 06 nov 2026 08:49:37 gmt", None),
        ("Sat, 31 Feb 2027 08:49:37 GMT", None),
        ("Fri, 06 Nov 2026 24:00:00 GMT", None),
        ("Fri, 06 Nov 2026 08:49:60 GMT", None),
        ("Sat, 01 Jan 0000 00:00:00 GMT", None),
        ("2026-11-06T08:49:37Z", None),
        ("1793954977", LONGEST_S),
        ("inf", None),
        ("nan", None),
    ],
)
def test_only_the_grammar_counts(value: str, seconds: float | None) -> None:
    """Whole seconds and the three HTTP dates are obeyed; all else lets the own back-off grow."""
    assert parse_retry_after((value,), NOW) == seconds


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ((), None),
        (("120", "60"), 120.0),
        (("60", "Fri, 06 Nov 2026 08:49:37 GMT"), 120.0),
        (("junk", "60"), 60.0),
        (("0", "-1"), None),
    ],
)
def test_of_several_lines_the_longest_wait_counts(
    values: tuple[str, ...], seconds: float | None
) -> None:
    """A server that contradicts itself is given the politer answer."""
    assert parse_retry_after(values, NOW) == seconds


def test_a_two_digit_year_is_never_more_than_fifty_years_ahead() -> None:
    """RFC 9110: exactly fifty years ahead is still ahead, a second more is long past."""
    exactly, beyond = "Friday, 06-Nov-76 08:47:37 GMT", "Friday, 06-Nov-76 08:47:38 GMT"
    assert parse_retry_after((exactly,), NOW) == LONGEST_S
    assert parse_retry_after((beyond,), NOW) is None


def test_a_two_digit_year_may_lie_in_the_next_century() -> None:
    """A date just after the turn of the century is soon, not a hundred years ago."""
    eve = datetime(2099, 12, 31, 23, 59, 0, tzinfo=UTC)
    assert parse_retry_after(("Friday, 01-Jan-00 00:01:00 GMT",), eve) == 120.0


def test_the_local_time_zone_changes_nothing() -> None:
    """The wait is the same on a machine of any time zone."""
    there = NOW.astimezone(timezone(timedelta(hours=13)))
    assert parse_retry_after(("Fri Nov  6 08:49:37 2026",), there) == 120.0
    assert parse_retry_after(("Friday, 06-Nov-26 08:49:37 GMT",), there) == 120.0
