"""Runs the private service for one command, and puts everything away whatever happens."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from throttle.cli.interrupts import Interrupted, Interrupts
from throttle.crawl.page import load_on_page
from throttle.errors import ArchiveError
from throttle.ops.service import Service
from throttle.settings import Settings


@contextmanager
def running(
    service: Service, interrupts: Interrupts, tell: Callable[[str], None], *, in_order: bool
) -> Iterator[None]:
    """Start the service, and end it at the end: `in_order`, or at once when nothing is kept.

    It ends at once too when somebody asks to stop a second time.
    """
    try:
        service.start(tell)
        yield
        if in_order:
            tell("stopping")
            with interrupts.patient():
                service.stop()
    except Interrupted:
        raise
    except BaseException:
        if in_order:
            with interrupts.patient():
                service.stop()
        raise
    finally:
        with interrupts.ignored():
            service.stop(timeout_s=0)


@contextmanager
def workplace(named: Path | None, interrupts: Interrupts) -> Iterator[Path]:
    """The directory `named`, or a temporary one that is removed at the end.

    A temporary one is left where it is when the pages in it could not be written out.
    """
    if named is not None:
        yield named
        return
    made = Path(tempfile.mkdtemp(prefix="throttle-"))
    keep = False
    try:
        yield made
    except ArchiveError as error:
        keep = True
        raise ArchiveError(f"{error}; the pages are still in {made}") from error
    finally:
        if not keep:
            with interrupts.ignored():
                shutil.rmtree(made, ignore_errors=True)


def require_on_page(settings: Settings) -> None:
    """Raises `SettingsError` unless the user's function is found from here, as workers do."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        load_on_page(settings.on_page, settings.product)
    finally:
        sys.path.remove(here)


def kept_logs(logs: Path) -> Path:
    """A copy of `logs` that stays when the workplace is removed."""
    kept = Path(tempfile.mkdtemp(prefix="throttle-logs-"))
    if logs.is_dir():
        shutil.copytree(logs, kept, dirs_exist_ok=True)
    return kept
