"""Seconds outside, whole microseconds inside Redis, rounded to the polite side."""

import math


def us_up(seconds: float) -> int:
    """Microseconds, rounded up: for intervals, delays and wire times, where later is politer."""
    return math.ceil(round(seconds * 1e6, 3))


def us_down(seconds: float) -> int:
    """Microseconds, rounded down: for what must not be trusted longer than said."""
    return math.floor(round(seconds * 1e6, 3))


def seconds(us: int) -> float:
    """Seconds for a number of microseconds."""
    return us / 1e6


def from_now(at_us: int, now_us: int) -> float | None:
    """Seconds from `now_us` until `at_us` (0 when past); None for -1, which stands for never."""
    return None if at_us < 0 else max(0.0, (at_us - now_us) / 1e6)
