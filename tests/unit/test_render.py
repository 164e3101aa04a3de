"""What commands print: one line per thing, nothing a terminal obeys, never without end."""

import io
import json
import unicodedata

import pytest
from rich.console import Console

from throttle.cli.render import age, facts, ledger, print_json, table, utc
from throttle.cli.text import LONGEST, safe

HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07",
    "one\r\ntwo\nthree",
    "a\u2028b\u2029c\x85d",
    "left \u202e right",
    "\x9b31m",
    "nul \x00 del \x7f",
    "half \udc80",
]


def _printed(thing: object) -> str:
    out = io.StringIO()
    Console(file=out, width=4000, force_terminal=False, markup=True).print(thing)
    return out.getvalue()


def _obeyed(text: str) -> list[str]:
    """The characters of `text` that are more than writing."""
    return [c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_site_reaches_the_terminal_as_a_command(text: str) -> None:
    """Colours, titles, lost lines and turned writing stay what they are: text."""
    assert not _obeyed(safe(text))
    assert len(safe(text)) > len(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_row_of_a_table_stays_one_line(text: str) -> None:
    """A host or a reason with line breaks in it does not fake a second row."""
    for thing in (table(("url", "reason"), [(text, text)], header=False), facts({text: text})):
        line = _printed(thing).removesuffix("\n")
        assert not _obeyed(line)
        assert len(line.splitlines()) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_json_is_one_line_of_ascii(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A script reads back what there was; a terminal that shows it obeys nothing."""
    print_json({"url": text, text: [text]})
    line = capsys.readouterr().out.removesuffix("\n")
    assert line.isascii()
    assert not _obeyed(line)
    assert json.loads(line) == {"url": text, text: [text]}


def test_square_brackets_are_no_markup() -> None:
    """An IPv6 host, and a reason that looks like a style, are shown as they are."""
    assert "[red][::1][/red]" in _printed(table(("host",), [("[red][::1][/red]",)]))


def test_a_megabyte_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """One value cannot fill the screen or the log."""
    assert len(safe("x" * 1_000_000)) == LONGEST
    assert len(safe("\x1b" * 1_000_000)) == LONGEST
    assert safe("x" * LONGEST) == "x" * LONGEST
    print_json({"reason": "x" * 1_000_000})
    assert len(capsys.readouterr().out) < 10_000


def test_readable_text_is_kept() -> None:
    """Other scripts than Latin are shown as they are written."""
    assert safe("bücher.example/日本") == "bücher.example/日本"


def test_times_are_written_for_whom_they_are_meant() -> None:
    """People read an age, scripts a moment in UTC."""
    assert age(None) == "never"
    assert age(90) == "1m30s ago"
    assert utc(None) is None
    assert utc(1_700_000_000.25) == "2023-11-14T22:13:20.250000+00:00"


def test_counts_are_written_with_separators() -> None:
    """A million is told from a hundred thousand at a glance."""
    assert "1,000,000" in _printed(table(("waiting",), [(1_000_000,)]))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_narrow_ledger_keeps_figures_on_a_line_and_folds_the_reason(text: str) -> None:
    """At 80 columns the reason has lines of its own, and no host writes a line for another."""
    long = "a" * 76 + ".b"
    rows = [(("a.example", 1200), "its clock " * 20), ((long, 5), ""), ((text, 3), "nothing")]
    lines = _printed(ledger(("host", "waiting"), rows, "waits for", 80)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["a.example", "1,200"]
    assert lines[2].startswith("    waits for its clock")
    assert lines[lines.index(long) + 1].split() == ["5"]
    assert lines[-1] == "    waits for nothing"
    assert not _obeyed("".join(lines))
