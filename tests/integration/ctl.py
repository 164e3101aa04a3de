"""What the tests of throttlectl share: how it is run, and how its JSON is read."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Ctl = Callable[..., subprocess.CompletedProcess[str]]

COUNTS = {"added": 0, "seen": 0, "full": 0, "disallowed": 0, "invalid": 0}


def ctl_command(*arguments: str) -> list[str]:
    """The command line of throttlectl with `arguments`."""
    return [sys.executable, "-m", "throttle.cli.main", *arguments]


def ctl_json(throttlectl: Ctl, *arguments: str, ends: int = 0) -> dict[str, Any]:
    """What the command says with --json."""
    value: dict[str, Any] = json.loads(throttlectl(*arguments, "--json", ends=ends).stdout)
    return value


def json_lines(text: str) -> list[dict[str, Any]]:
    """The JSON of each line."""
    return [json.loads(line) for line in text.splitlines()]
