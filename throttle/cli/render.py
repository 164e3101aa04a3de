"""Tables and JSON for people and scripts; whatever is printed is made safe first."""

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from throttle.cli.text import safe
from throttle.durations import format_duration

_LONGEST_JSON = 8192
_WIDE = 4000
"""Columns where nobody looks on: a script wants one line per row."""


def console(piped: int = _WIDE) -> Console:
    """Where tables go: as wide as the terminal, or `piped` columns when that is a file."""
    width = None if sys.stdout.isatty() else piped
    return Console(width=width, highlight=False, markup=False, emoji=False)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, header: bool = True
) -> Table:
    """A table of safe text; columns of numbers stand to the right."""
    kept = [[_shown(cell) for cell in row] for row in rows]
    made = Table(box=None, pad_edge=False, show_header=header, header_style="bold")
    for place, name in enumerate(columns):
        numbers = bool(kept) and all(row[place].replace(",", "").isdigit() for row in kept)
        made.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in kept:
        made.add_row(*(Text(cell) for cell in row))
    return made


def ledger(
    columns: Sequence[str],
    rows: Iterable[tuple[Sequence[object], str]],
    note: str,
    width: int,
) -> Text:
    """Rows of figures, each with a note on lines of its own beneath, for a narrow terminal.

    A name that is too long for its column stands on a line of its own, so that it can be copied.
    """
    kept = [([_shown(cell) for cell in row], _shown(words)) for row, words in rows]
    widths = [
        max(len(name), *(len(row[place]) for row, _ in kept), 0)
        for place, name in enumerate(columns)
    ]

    room = width - sum(size + 2 for size in widths[1:])
    widths[0] = min(widths[0], max(room, len(columns[0])))

    def line(cells: Sequence[str]) -> str:
        if len(cells[0]) > widths[0]:
            return cells[0] + "\n" + line(("", *cells[1:]))
        first = cells[0].ljust(widths[0])
        rest = (cell.rjust(size) for cell, size in zip(cells[1:], widths[1:], strict=True))
        return "  ".join((first, *rest)).rstrip()

    made = Text(line(columns) + "\n", style="bold")
    for row, words in kept:
        folded = textwrap.wrap(f"{note} {words}", max(20, width - 4))
        made.append("\n".join((line(row), *(f"    {part}" for part in folded), "")), "not bold")
    made.rstrip()
    return made


def facts(pairs: Mapping[str, object]) -> Table:
    """Names and values, one per line."""
    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs.items():
        made.add_row(Text(safe(name)), Text(_shown(value)))
    return made


def print_json(value: Mapping[str, object]) -> None:
    """One line of JSON in plain ASCII, so that no terminal obeys what a site wrote."""
    text = json.dumps(_capped(value), ensure_ascii=True, allow_nan=False)
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def age(seconds: float | None) -> str:
    """How long ago, for people."""
    return "never" if seconds is None else f"{format_duration(seconds)} ago"


def utc(moment_s: float | None) -> str | None:
    """ISO 8601 in UTC to the microsecond of a Unix time, or None."""
    return None if moment_s is None else datetime.fromtimestamp(moment_s, UTC).isoformat()


def _shown(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return safe(str(value))


def _capped(value: object) -> object:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_JSON else value[: _LONGEST_JSON - 1] + "…"
    if isinstance(value, Mapping):
        return {str(_capped(str(name))): _capped(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_capped(inner) for inner in value]
    return value
