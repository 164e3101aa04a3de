"""Commands that run the service: the dispatcher alone, all of it on this machine, and drain."""

import asyncio
import logging
import shlex
import signal
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from celery import Celery

from throttle.cli.interrupts import Interrupts
from throttle.cli.left import left, lines
from throttle.cli.parameters import duration, json_option
from throttle.cli.private import require_on_page, running
from throttle.cli.progress import CrawlProgress
from throttle.cli.render import print_json
from throttle.durations import format_duration
from throttle.frontier.bundle import Frontier
from throttle.frontier.census import Totals
from throttle.ops.draining import readings
from throttle.ops.service import Service, for_another_process
from throttle.settings import Settings, load
from throttle.wiring import require_identity, run_dispatcher

_EVERY_S = 0.2
_LEFT_EVERY_S = 30.0


@click.command()
def dispatch() -> None:
    """Run the dispatcher until Ctrl-C or SIGTERM; then what it holds goes back to the frontier.

    It logs to standard error, one event a line. Several may run: one works for each partition,
    and another takes over when that one is gone.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    asyncio.run(_dispatch(load()))


async def _dispatch(settings: Settings) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await run_dispatcher(settings, Celery("throttle", set_as_current=False), stop)


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default="throttle-data",
    show_default=True,
    help="Where URLs, servers' data and logs are kept.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True)
def up(data_dir: Path, workers: int) -> None:
    """Run the whole service on this machine until Ctrl-C, without servers to prepare.

    It brings its own RabbitMQ and Redis, beat, a dispatcher and workers, on free ports of
    loopback, and prints the lines that another terminal needs, for throttlectl or for one more
    worker. All is kept in --data-dir: started again, it goes on where it stopped.
    """
    settings = load()
    require_identity(settings)
    require_on_page(settings)
    service = Service(data_dir, settings, workers=workers)
    with (
        Interrupts() as interrupts,
        CrawlProgress() as progress,
        running(service, interrupts, progress.stage, in_order=True),
        interrupts.patient(),
    ):
        with progress.aside():
            for name, value in for_another_process(service.settings).items():
                click.echo(f"export {name}={shlex.quote(value)}")
        progress.note(f"ready; logs are in {service.logs}; Ctrl-C ends it")
        _serve(service, interrupts, progress)


def _serve(service: Service, interrupts: Interrupts, progress: CrawlProgress) -> None:
    def check() -> None:
        for name in service.check():
            progress.note(f"{name} died and was started again")
        time.sleep(_EVERY_S)

    shown: Totals | None = None
    for totals, _ in readings(service.frontier.census, pause=check):
        if interrupts.asked:
            return
        if totals != shown:
            progress.show(totals, "serving")
            shown = totals


@click.command()
@click.option("--timeout", type=duration, help="Give up after so long.")
@json_option
def drain(timeout: float | None, as_json: bool) -> None:
    """Wait until nothing waits, is delayed or is in flight.

    The exit code is 0 then, and what the crawl came to is kept for status; it is 1 when --timeout
    came first. What is left is listed from time to time, with the reason it waits.
    """
    frontier = Frontier(load())
    frontier.census.totals()
    end_s = None if timeout is None else time.monotonic() + timeout
    told_s = time.monotonic()
    is_drained = False
    with CrawlProgress() as progress:
        for totals, is_drained in readings(frontier.census, pause=lambda: time.sleep(_EVERY_S)):
            progress.show(totals, "draining")
            now_s = time.monotonic()
            if is_drained or (end_s is not None and now_s >= end_s):
                break
            if now_s - told_s >= _LEFT_EVERY_S:
                told_s = now_s
                for line in ("left:", *lines(left(frontier))):
                    progress.note(line)
    found = [] if is_drained else left(frontier)
    if is_drained:
        frontier.generations.record(totals, datetime.now(UTC).isoformat(timespec="seconds"))
    if as_json:
        figures = asdict(totals)
        print_json({"drained": is_drained, **figures, "left": [asdict(one) for one in found]})
    elif is_drained:
        click.echo(f"drained: {totals.done} done, {totals.refused} refused, {totals.dead} dead")
    else:
        waited = format_duration(timeout or 0)
        click.echo("\n".join((f"not drained after {waited}:", *lines(found))), err=True)
    sys.exit(0 if is_drained else 1)


COMMANDS = (dispatch, up, drain)
