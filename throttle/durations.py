"""Durations and rates as people write them: `2s`, `500ms`, `1h30m`, `30/m`."""

import re

from throttle.errors import UsageError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+", re.ASCII)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)/(s|m|h|d)", re.ASCII)

LONGEST_S = 366 * 86400.0


def parse_duration(text: str) -> float:
    """Seconds in `text`: `2`, `2s`, `500ms`, `1h30m`; a rate such as `30/m` gives its interval.

    Raises `UsageError` for anything else, and for more than 366 days.
    """
    text = text.strip()
    rate = _RATE.fullmatch(text)
    if rate and float(rate[1]) > 0:
        seconds = _UNITS_S[rate[2]] / float(rate[1])
    elif _NUMBER.fullmatch(text):
        seconds = float(text)
    elif _WHOLE.fullmatch(text):
        seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
    else:
        raise UsageError(
            f"not a duration: {text[:40]!r}; write for example 2s, 500ms, 1h30m or 30/m"
        )
    if rate and seconds == 0:
        raise UsageError(f"too high a rate: {text[:40]!r}; write for example 30/m or 1500/s")
    if seconds > LONGEST_S:
        raise UsageError(f"too long a duration: {text[:40]!r}; at most 366 days (366d)")
    return seconds


def format_duration(seconds: float) -> str:
    """`seconds` in the largest units that keep it readable: `250ms`, `2s`, `1h30m`."""
    if seconds < 0.9995:  # what rounds up to 1000ms or 60s belongs to the next unit
        return f"{seconds * 1000:.3g}ms"
    if seconds < 59.995:
        return f"{seconds:.4g}s"
    rest = round(seconds)
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, int(_UNITS_S[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])
