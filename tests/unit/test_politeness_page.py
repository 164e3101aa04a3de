"""docs/politeness.md tells the truth: each value that it gives for a setting is the default."""

import re
from pathlib import Path

from throttle.settings import Settings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "politeness.md").read_text("utf-8")

UNITS = {"": 1, "s": 1, "min": 60, "h": 3600, "MiB": 1024 * 1024}
VALUE = re.compile(r"(\d+) ?(s|min|h|MiB|)\s+\(`([A-Z_]+)`")
NAME = re.compile(r"`([A-Z]+(?:_[A-Z]+)*)`")
NO_SETTINGS = {"GET", "CAPITALS"}

PACE = ("interval", "burst", "concurrency", "crawl_delay_cap", "retry_after_cap", "backoff_first")
LISTENING = ("backoff_cap", "quiet_time", "breaker_failures", "breaker_first", "breaker_cap")
OTHERS = ("refusals_in_a_row", "max_tries", "fetch_timeout", "connect_timeout", "body_limit")


def test_each_value_is_the_default() -> None:
    """What a site's operator reads is what the software does."""
    given = {name.lower(): int(n) * UNITS[unit] for n, unit, name in VALUE.findall(PAGE)}
    assert given.keys() >= {*PACE, *LISTENING, *OTHERS, "robots_ttl"}
    defaults = {name: Settings.model_fields[name].default for name in given}
    assert given == defaults


def test_each_name_is_a_setting() -> None:
    """No setting is named that is not there."""
    named = {name.lower() for name in NAME.findall(PAGE) if name not in NO_SETTINGS}
    assert named <= Settings.model_fields.keys()
    assert "slow_factor" in named
