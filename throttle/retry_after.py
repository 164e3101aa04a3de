"""How long a Retry-After header asks us to wait, or nothing when it does not say so properly."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

LONGEST_S = 10 * 365 * 86400.0
"""The largest answer, in seconds: ten years."""

_SECONDS = re.compile(r"[0-9]+", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_LONG_DAY = r"(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"{_DAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"{_LONG_DAY}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<short_year>[0-9]{{2}}) {_TIME} GMT",
        rf"{_DAY} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)


def parse_retry_after(values: Sequence[str], now: datetime) -> float | None:
    """Seconds to wait, above zero and at most ten years; None when nothing usable was asked for.

    `values` holds one string per Retry-After line, `now` is an aware time. A value is whole
    seconds or one of the three HTTP dates, always in GMT (RFC 9110 sections 10.2.3 and 5.6.7).
    Zero, a date in the past and anything malformed count as absent, so the caller's own back-off
    keeps growing. Of several lines the longest wait counts. Never raises.
    """
    waits = (_wait(value.strip(" \t"), now) for value in values)
    longest = max((wait for wait in waits if wait is not None), default=0.0)
    return min(longest, LONGEST_S) if longest > 0 else None


def _wait(value: str, now: datetime) -> float | None:
    if _SECONDS.fullmatch(value):
        return float(value)
    for form in _DATES:
        if found := form.fullmatch(value):
            when = _moment(found.groupdict(), now.astimezone(UTC))
            return None if when is None else (when - now).total_seconds()
    return None


def _moment(parts: dict[str, str | None], now: datetime) -> datetime | None:
    number = {name: int(text) for name, text in parts.items() if text and name != "month"}
    month = _MONTHS.index(str(parts["month"])) + 1
    # 23:59:60 is the one leap second that the grammar allows; datetime cannot hold it.
    leap = (number["hour"], number["minute"], number["second"]) == (23, 59, 60)
    rest = (month, number["day"], number["hour"], number["minute"], number["second"] - leap)
    year = number["year"] if "year" in number else _full_year(number["short_year"], rest, now)
    try:
        return datetime(year, *rest, tzinfo=UTC) + timedelta(seconds=leap)
    except (ValueError, OverflowError):
        return None


def _full_year(short: int, rest: tuple[int, int, int, int, int], now: datetime) -> int:
    """The year meant by two digits: never more than 50 years ahead (RFC 9110 section 5.6.7)."""
    year = now.year + (short - now.year) % 100
    fifty_ahead = (now.year + 50, now.month, now.day, now.hour, now.minute, now.second)
    return year - 100 if (year, *rest) > fifty_ahead else year
