"""What commands take as a person types it: hosts, durations and moments, refused in words."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from throttle.cli.text import safe
from throttle.durations import parse_duration
from throttle.errors import InvalidURL, UsageError
from throttle.urls import host_key

DEFAULT = "default"
"""What a person writes for a value to go back to the default."""


def or_default(kind: Any) -> Callable[[str], Any]:
    """The `type` of an option: the word `default` as it is, anything else as `kind` takes it."""
    inner = click.types.convert_type(kind)

    def convert(text: str) -> Any:
        return text if text == DEFAULT else inner.convert(text, None, None)

    convert.__name__ = f"{inner.name}|{DEFAULT}"
    return convert


def duration(text: str) -> float:
    """Seconds in `2s`, `500ms`, `1h30m` or `30/m`; the `type` of an option."""
    try:
        return parse_duration(text)
    except UsageError as error:
        raise click.BadParameter(safe(str(error))) from error


def moment(text: str) -> float:
    """The Unix time of an ISO 8601 date and time, in UTC where it names no zone."""
    try:
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        example = "2030-01-31T18:00:00Z or 2030-01-31T18:00+02:00"
        raise click.BadParameter(f"not a time: {safe(text[:40])!r}; write {example}") from error


def host_key_of(text: str) -> str:
    """The politeness key of a host name, an address or a whole URL; the `type` of an argument."""
    try:
        return host_key(text)
    except InvalidURL as error:
        raise click.BadParameter(safe(str(error))) from error


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; durations in seconds."
)
"""The option `--json` of every command that reports."""
