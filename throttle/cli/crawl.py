"""crawl: the hosts of some URLs into one WARC file, with a service of its own."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from throttle.cli.crawl_report import Report, first_fault, print_report, report_json
from throttle.cli.interrupts import STOPPED, Interrupted, Interrupts
from throttle.cli.left import Left, left, lines, views
from throttle.cli.output import Output
from throttle.cli.parameters import duration, json_option
from throttle.cli.private import kept_logs, require_on_page, running, workplace
from throttle.cli.progress import CrawlProgress
from throttle.cli.render import print_json
from throttle.cli.text import safe
from throttle.durations import format_duration
from throttle.errors import DirectoryInUse, SettingsError, ThrottleError, UsageError
from throttle.model import Candidate, Verdict
from throttle.ops.draining import readings
from throttle.ops.patience import worth_waiting
from throttle.ops.service import Service
from throttle.settings import Settings, load
from throttle.urls import canonical
from throttle.wiring import require_identity

_EVERY_S = 0.2
_STUCK_S = 15.0
_LOOK_EVERY_S = 2.0
_GRACE_S = 5.0


@dataclass
class _Crawl:
    """One run of the command."""

    urls: Sequence[str]
    service: Service
    interrupts: Interrupts
    progress: CrawlProgress
    timeout_s: float | None
    patience_s: float
    report: Report | None = field(default=None, init=False)
    _gave_up: list[Left] = field(default_factory=list, init=False)

    def run(self, *, in_order: bool) -> None:
        """Start, crawl, stop. What was found is in `report` when it got that far."""
        with running(self.service, self.interrupts, self.progress.stage, in_order=in_order):
            started_s = time.monotonic()
            self._add()
            with self.interrupts.patient():
                self._follow(started_s)
                frontier = self.service.frontier
                self.report = Report(
                    frontier.census.count(),
                    frontier.census.totals(),
                    views(frontier),
                    time.monotonic() - started_s,
                    interrupted=self.interrupts.asked,
                    gave_up=tuple(self._gave_up),
                    first_fault=first_fault(frontier),
                )

    def _add(self) -> None:
        answers = self.service.frontier.intake.add([Candidate(url) for url in self.urls])
        for answer in answers:
            if answer.verdict is not Verdict.ADDED:
                self.progress.note(f"{answer.verdict}: {safe(answer.url)}: {answer.reason}")

    def _follow(self, started_s: float) -> None:
        end_s = None if self.timeout_s is None else started_s + self.timeout_s
        moved_s, looked_s, before = started_s, started_s, -1
        for totals, is_drained in readings(self.service.frontier.census, pause=self._pause):
            self.progress.show(totals)
            now_s = time.monotonic()
            if is_drained:
                return
            if self.interrupts.asked:
                self._let_finish("what is in flight may finish; Ctrl-C again ends it at once")
                return
            if end_s is not None and now_s >= end_s:
                self._times_out()
                return
            ended = totals.done + totals.refused + totals.dead
            if ended != before:
                moved_s, looked_s, before = now_s, now_s, ended
            elif totals.in_flight == 0 and now_s - looked_s >= _LOOK_EVERY_S:
                looked_s = now_s
                if self._gives_up():
                    return
            if now_s - moved_s >= _STUCK_S:
                moved_s = now_s
                for line in ("nothing comes to its end; left:", *self._left()):
                    self.progress.note(line)

    def _gives_up(self) -> bool:
        """Whether all that is left waits too long; what that is, is noted."""
        if worth_waiting(views(self.service.frontier), self.patience_s):
            return False
        self._gave_up = left(self.service.frontier)
        self.progress.note(
            f"what is left waits longer than --patience {format_duration(self.patience_s)}, or for"
            " a robots.txt that was unreachable three times in a row; with --data-dir the same"
            " command goes on later"
        )
        for line in lines(self._gave_up):
            self.progress.note(line)
        self.service.stop_dispatching()
        return True

    def _left(self) -> list[str]:
        return lines(left(self.service.frontier))

    def _pause(self) -> None:
        for name in self.service.check():
            self.progress.note(f"{name} died and was started again")
        time.sleep(_EVERY_S)

    def _times_out(self) -> None:
        """The time given is over: what is left is told, with the reasons from before the end."""
        found = left(self.service.frontier)
        told = format_duration(self.timeout_s or 0.0)
        self._let_finish(f"--timeout {told} is over; what is in flight may finish")
        self._gave_up = [one for one in found if one.waiting + one.delayed]
        for line in lines(self._gave_up):
            self.progress.note(line)

    def _let_finish(self, words: str) -> None:
        """Nothing new starts; what is in flight has as long as a fetch may take."""
        self.progress.note(words)
        self.service.stop_dispatching()
        end_s = time.monotonic() + self.service.settings.fetch_timeout + _GRACE_S
        for totals, _ in readings(self.service.frontier.census, pause=self._pause):
            self.progress.show(totals, "finishing")
            if totals.in_flight == 0 or time.monotonic() >= end_s:
                return


@click.command()
@click.argument("urls", metavar="URL...", nargs=-1, required=True)
@click.option("--interval", type=duration, help="From request to request of a host: 2s, 30/m.")
@click.option("--burst", type=int, help="Requests of a host in a row after a pause: 1 to 10000.")
@click.option("--concurrency", type=int, help="Requests of a host open at once: 1 to 10000.")
@click.option("--max-pages", type=int, help="The most URLs in all; 0 is no limit.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="pages.warc.gz",
    show_default=True,
    help="The WARC file to write.",
)
@click.option("--follow-hosts", is_flag=True, help="Follow links to other hosts, too.")
@click.option("--product", help="Your crawler's name for sites: letters, - and _.")
@click.option("--contact", help="A URL or e-mail address for the operators of sites.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep everything here, to go on later; else nothing but the output stays.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option(
    "--patience",
    type=duration,
    default="60s",
    show_default=True,
    help="End when all that is left must wait longer (a slow pace is no wait).",
)
@click.option("--timeout", type=duration, help="End after so long, as Ctrl-C does.")
@json_option
def crawl(
    *,
    urls: tuple[str, ...],
    output: Path,
    data_dir: Path | None,
    workers: int,
    patience: float,
    timeout: float | None,
    as_json: bool,
    follow_hosts: bool,
    **given: Any,
) -> None:
    """Crawl the hosts of the URLs politely, and write what they answered to a WARC file.

    It brings its own RabbitMQ, Redis, beat, dispatcher and workers, and leaves nothing running.
    Links to other hosts are followed only with --follow-hosts.

    Ctrl-C lets what is in flight finish and writes the output; again, it ends at once and writes
    what is complete. With --data-dir the same command later goes on where it stopped: what was
    fetched is not fetched again, --max-pages counts it, and the output holds it too.

    It ends by itself when all that is left must wait longer than --patience, or waits for a
    robots.txt that was unreachable three times in a row; then it says what is left and why.

    The exit code is 0 when pages came out, every URL came to an end and the audit is good, 1 when
    not or when on_page failed, and 130 after Ctrl-C.
    """
    starts = [canonical(url) for url in urls]
    if follow_hosts:
        given["follow_hosts"] = True
    settings = _settings({name: value for name, value in given.items() if value is not None})
    require_on_page(settings)
    target = Output(output, data_dir)
    target.check()
    with (
        Interrupts() as interrupts,
        workplace(data_dir, interrupts) as directory,
        CrawlProgress() as progress,
    ):
        warcs = directory.absolute() / "warc"
        service = Service(
            directory, settings.model_copy(update={"archive": str(warcs)}), workers=workers
        )
        run = _Crawl(starts, service, interrupts, progress, timeout, patience)
        fault = _fault_of(lambda: run.run(in_order=data_dir is not None))
        if isinstance(fault, DirectoryInUse):
            raise fault
        files = sorted(warcs.glob("*.warc.gz"))
        if files:
            progress.stage("writing the output")
        with interrupts.patient():
            written = target.write(files)
        report = run.report and replace(run.report, output=written)
        if isinstance(fault, ThrottleError) or (report and report.has_failed):
            logs = service.logs if data_dir else kept_logs(service.logs)
            progress.note(f"the logs of its processes are in {logs}")
    if isinstance(fault, ThrottleError):
        raise fault
    if report is None:
        click.echo(f"stopped; {written}", err=True)
        sys.exit(STOPPED)
    if as_json:
        print_json(report_json(report))
    else:
        print_report(report)
    sys.exit(STOPPED if report.interrupted else 0 if report.is_good else 1)


def _settings(given: dict[str, Any]) -> Settings:
    """The settings with what was given; a bad one is named as the person wrote it."""
    try:
        settings = load(**given)
    except SettingsError as error:
        text = str(error)
        for name in given:
            setting = f"THROTTLE_{name.upper()} ({name} in throttle.toml):"
            text = text.replace(setting, f"--{name.replace('_', '-')}")
        raise UsageError(text) from error
    try:
        require_identity(settings)
    except SettingsError as error:
        raise UsageError(f"{error}; or give --product and --contact") from error
    return settings


def _fault_of(run: Callable[[], None]) -> BaseException | None:
    """What ended the run early: pages that are there already are written out all the same."""
    try:
        run()
    except (Interrupted, ThrottleError) as error:
        return error
    return None


COMMANDS = (crawl,)
