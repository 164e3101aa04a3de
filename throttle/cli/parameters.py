"""What commands take as a person types it: hosts and durations, refused in words."""

import click

from throttle.cli.text import safe
from throttle.durations import parse_duration
from throttle.errors import InvalidURL, UsageError
from throttle.urls import host_key


def duration(text: str) -> float:
    """Seconds in `2s`, `500ms`, `1h30m` or `30/m`; the `type` of an option."""
    try:
        return parse_duration(text)
    except UsageError as error:
        raise click.BadParameter(safe(str(error))) from error


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
