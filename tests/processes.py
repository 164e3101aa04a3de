"""Runs throttlectl as a person does, and watches which processes it leaves behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.servers import wait_until

_ROOT = Path(__file__).parents[1]
_PROC = Path("/proc")


class Command:
    """One run of throttlectl in its own process group, its output in files.

    It knows every process that it has started, by number and start time.
    """

    def __init__(self, directory: Path, *arguments: str, **settings: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.temporary = directory / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._out, self._err = directory / "stdout", directory / "stderr"
        self._family: set[tuple[int, str]] = set()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "throttle.cli.main", *arguments],
                cwd=directory,
                env=_environment(self.temporary, settings),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return self._out.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        """Its standard error so far."""
        return self._err.read_text(encoding="utf-8")

    def look(self) -> set[tuple[int, str]]:
        """Take note of its processes; returns all that were ever seen."""
        self._family |= _descendants(self._process.pid)
        return self._family

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.look()
        self._process.send_signal(number)

    def end(self, timeout_s: float = 60.0) -> int:
        """Wait for its end, and return its exit code (negative: the signal that killed it)."""
        try:
            wait_until(self._has_ended, "the command ends", timeout_s, every_s=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.out}\n{self.err}") from error
        return self._process.wait()

    def left_running(self) -> list[str]:
        """The command lines of processes of its that still run."""
        return [_command_line(pid) for pid, began in self._family if _began(pid) == began]

    def kill(self) -> None:
        """End it, and whatever it has left running."""
        self.look()
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pid, began in self._family:
            if _began(pid) == began:
                os.kill(pid, signal.SIGKILL)

    def _has_ended(self) -> bool:
        if self._process.poll() is None:
            self.look()
            return False
        return True


@pytest.fixture
def launch() -> Iterator[Callable[..., Command]]:
    """Runs throttlectl as `Command` says; what still runs after the test is ended."""
    commands: list[Command] = []

    def start(directory: Path, *arguments: str, **settings: str) -> Command:
        commands.append(Command(directory, *arguments, **settings))
        return commands[-1]

    yield start
    for command in commands:
        command.kill()


def _environment(temporary: Path, settings: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("THROTTLE_")}
    path = kept.get("PYTHONPATH")
    kept["PYTHONPATH"] = f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)
    given = {f"THROTTLE_{name.upper()}": text for name, text in settings.items()}
    return {**kept, "TMPDIR": str(temporary), **given}


def _descendants(pid: int) -> set[tuple[int, str]]:
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal() and (fields := _stat(int(folder.name))):
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, rest = set(), [pid]
    while rest:
        for child in children.get(rest.pop(), []):
            began = _began(child)
            if began:
                found.add((child, began))
            rest.append(child)
    return found


def _began(pid: int) -> str:
    """When a process began, in ticks since boot; empty when it is gone or a zombie."""
    fields = _stat(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _stat(pid: int) -> list[str]:
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="latin-1")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _command_line(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("latin-1")
    except OSError:
        return ""
