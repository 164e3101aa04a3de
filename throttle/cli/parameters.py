"""What commands take as a person types it: hosts and durations, refused in words."""

from typing import Any

import click

from throttle.cli.text import safe
from throttle.durations import parse_duration
from throttle.errors import InvalidURL, UsageError
from throttle.urls import host_key


class _Duration(click.ParamType):
    """`2s`, `500ms`, `1h30m` or `30/m`; becomes seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except UsageError as error:
            self.fail(safe(str(error)), param, ctx)


class _Host(click.ParamType):
    """A host name, an address or a whole URL; becomes the politeness key."""

    name = "host"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return host_key(str(value))
        except InvalidURL as error:
            self.fail(safe(str(error)), param, ctx)


DURATION = _Duration()
HOST = _Host()

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; durations in seconds.")
"""The option `--json` of every command that reports."""
