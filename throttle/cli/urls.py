"""add-url: URLs from arguments, a file or standard input, in batches and constant memory."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from throttle.cli.interrupts import ctrl_c_later
from throttle.cli.parameters import json_option
from throttle.cli.render import print_json
from throttle.cli.text import safe
from throttle.errors import FrontierError, ServerUnreachable, UsageError
from throttle.frontier.bundle import Frontier
from throttle.frontier.intake import Intake
from throttle.model import Answer, Candidate, Verdict
from throttle.settings import load
from throttle.urls import MAX_LENGTH

_BATCH = 1000
_LONGEST_LINE = 4 * MAX_LENGTH + 2
"""Bytes of UTF-8 that a URL of the most characters can take, and the end of its line."""
_STEP = 64 * 1024
"""Bytes from one movement of the progress bar to the next: moving it costs more than a line."""
_SHOWN = 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COUNTED = (Verdict.ADDED, Verdict.SEEN, Verdict.FULL, Verdict.DISALLOWED, Verdict.INVALID)


class _Tally:
    """Counts answers and tells of those that were not added, all as JSON or the first as text."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._counts: Counter[Verdict] = Counter()
        self._told = 0

    def take(self, answer: Answer) -> None:
        """Count one answer."""
        self._counts[answer.verdict] += 1
        if answer.verdict is Verdict.ADDED:
            return
        if self._as_json:
            print_json({"url": answer.url, "answer": answer.verdict.value, "reason": answer.reason})
        elif answer.verdict is not Verdict.SEEN:
            self._told += 1
            if self._told <= _SHOWN:
                click.echo(f"{answer.verdict}: {safe(answer.url)}: {safe(answer.reason)}", err=True)

    def finish(self) -> None:
        """Print the counts."""
        if self._told > _SHOWN:
            click.echo(f"and {self._told - _SHOWN:,} more; --json names them all", err=True)
        if self._as_json:
            print_json({verdict.value: self._counts[verdict] for verdict in _COUNTED})
        else:
            click.echo(", ".join(f"{verdict} {self._counts[verdict]:,}" for verdict in _COUNTED))

    @property
    def nothing_valid(self) -> bool:
        """Whether there were answers, and every one was `invalid`."""
        return 0 < self._counts[Verdict.INVALID] == self._counts.total()


@click.command("add-url")
@click.argument("urls", metavar="[URL]... | -", nargs=-1)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="One URL per line, in UTF-8; - is standard input.",
)
@json_option
@click.pass_context
def add_url(ctx: click.Context, urls: tuple[str, ...], path: Path | None, as_json: bool) -> None:
    """Add URLs to the crawl, and count the answers: added, seen, full, disallowed, invalid.

    A file of any size is read in batches of 1,000; empty lines and lines that begin with # are
    skipped. Adding again is safe, after Ctrl-C or a lost server too: what was added answers seen.

    With --json, one line {"url", "answer", "reason"} per URL that was not added, and a last line
    with the counts. The exit code is 1 when every URL was invalid, or after Ctrl-C.
    """
    if bool(urls) == (path is not None):
        raise UsageError("give URLs, or - for standard input, or --file FILE")
    if urls == ("-",):
        urls, path = (), Path("-")
    intake = Frontier(load()).intake
    tally = _Tally(as_json=as_json)
    try:
        if path is None:
            _add(intake, ((url, "") for url in urls), tally)
        else:
            with _opened(path) as stream, _progress(stream, as_json=as_json) as advance:
                _add(intake, _decoded(_lines(stream, advance)), tally)
    except KeyboardInterrupt:
        tally.finish()
        click.echo("interrupted; what was counted stays, adding all again is safe", err=True)
        ctx.exit(1)
    except (ServerUnreachable, FrontierError):
        tally.finish()
        raise
    tally.finish()
    if tally.nothing_valid:
        ctx.exit(1)


def _add(intake: Intake, urls: Iterable[tuple[str, str]], tally: _Tally) -> None:
    """Add `urls`, each with the fault that its line already has, or none."""
    rest = iter(urls)
    while batch := list(islice(rest, _BATCH)):
        for url, fault in batch:
            if fault:
                tally.take(Answer(url, Verdict.INVALID, fault))
        with ctrl_c_later():
            for answer in intake.add([Candidate(url) for url, fault in batch if not fault]):
                tally.take(answer)


def _lines(stream: BinaryIO, advance: Callable[[int], None]) -> Iterator[bytes]:
    """The lines of `stream`; one that is too long for a URL is cut, and read over in pieces."""
    is_first = True
    while line := stream.readline(_LONGEST_LINE):
        read = len(line)
        ended = line.endswith(b"\n")
        while not ended and (more := stream.readline(_LONGEST_LINE)):
            read += len(more)
            ended = more.endswith(b"\n")
        advance(read)
        yield line.removeprefix(_BYTE_ORDER_MARK) if is_first else line
        is_first = False


def _decoded(lines: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    for line in lines:
        bare = line.strip()
        if not bare or bare.startswith(b"#"):
            continue
        try:
            yield bare.decode("utf-8"), ""
        except UnicodeDecodeError:
            cut = len(line) == _LONGEST_LINE
            fault = f"longer than {MAX_LENGTH:,} characters" if cut else "not UTF-8 text"
            yield bare.decode("utf-8", "backslashreplace"), fault


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    with stream:
        yield stream


@contextmanager
def _progress(stream: BinaryIO, *, as_json: bool) -> Iterator[Callable[[int], None]]:
    """A bar by the bytes of a file, where a person looks on and no JSON runs through it."""
    is_watched = sys.stderr.isatty() and not (as_json and sys.stdout.isatty())
    if not is_watched or not stream.seekable():
        yield lambda _read: None
        return
    size = stream.seek(0, 2)
    stream.seek(0)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=size)
        unseen = 0

        def advance(read: int) -> None:
            nonlocal unseen
            unseen += read
            if unseen >= _STEP:
                bar.advance(task, unseen)
                unseen = 0

        yield advance


COMMANDS = (add_url,)
