"""The supervisor: children that come back, give up in the end, and never stay behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import wait_until
from throttle.errors import LocalServerError
from throttle.local.supervisor import MOST_RESTARTS, WINDOW_S, Supervisor

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
DEAF = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('deaf', flush=True); time.sleep(600)"
)
STUBBORN = [sys.executable, "-c", DEAF]
PARENT = """
import sys, threading, time
from pathlib import Path
from throttle.local.supervisor import Supervisor
one = Supervisor(Path(sys.argv[1]))
def start():
    one.start("child", ["sleep", "600"])
    while not Path(f"/proc/{one.pid('child')}/cmdline").read_bytes().startswith(b"sleep"):
        time.sleep(0.01)
starter = threading.Thread(target=start)
starter.start(); starter.join()
print(one.pid("child"), flush=True)
sys.stdin.read()
"""


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """The clock that restarts are counted by."""
    return Clock()


@pytest.fixture
def supervisor(tmp_path: Path, clock: Clock) -> Iterator[Supervisor]:
    """A supervisor without children."""
    one = Supervisor(tmp_path, clock=clock)
    yield one
    one.stop(timeout_s=1)


def running(pid: int) -> bool:
    """Whether the process is there and no mere zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_that_died_is_started_again(supervisor: Supervisor) -> None:
    """After a crash the service goes on with a new process under the same name."""
    supervisor.start("worker", SLEEPER)
    first = supervisor.pid("worker")
    supervisor.kill("worker")
    assert supervisor.alive() == {"worker": False}
    assert supervisor.check() == ["worker"]
    assert supervisor.alive() == {"worker": True}
    assert supervisor.pid("worker") != first
    assert supervisor.check() == []


def test_watching_brings_a_killed_child_back(supervisor: Supervisor) -> None:
    """A watched child killed from outside is back by itself, and stays when its thread ends."""
    supervisor.start("worker", SLEEPER)
    first = supervisor.pid("worker")
    stopping = threading.Event()
    watcher = threading.Thread(target=supervisor.watch, args=(stopping,))
    watcher.start()
    os.kill(first, signal.SIGKILL)
    wait_until(
        lambda: supervisor.alive()["worker"] and supervisor.pid("worker") != first,
        "the worker is started again",
    )
    stopping.set()
    watcher.join(10)
    assert not watcher.is_alive()
    assert supervisor.alive() == {"worker": True}


def test_a_child_that_keeps_dying_is_given_up_with_its_last_words(
    supervisor: Supervisor, clock: Clock
) -> None:
    """Endless restarts do not hide a fault: the error names the child and shows its log."""
    supervisor.start("beat", [sys.executable, "-c", "raise SystemExit('no broker here')"])

    def dead() -> bool:
        return not supervisor.alive()["beat"]

    for _ in range(MOST_RESTARTS):
        wait_until(dead, "beat has ended")
        assert supervisor.check() == ["beat"]
    wait_until(dead, "beat has ended")
    with pytest.raises(LocalServerError, match=r"beat died again(.|\n)*no broker here"):
        supervisor.check()
    clock.now_s += WINDOW_S
    assert supervisor.check() == ["beat"]


def test_stopping_goes_backwards_and_takes_the_deaf_too(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """A worker ends before the servers it uses; one that ignores SIGTERM is killed."""
    note = "import pathlib, signal, sys, time\ndef end(*_):\n"
    note += " pathlib.Path(sys.argv[1]).open('a').write(sys.argv[2]); sys.exit()\n"
    note += "signal.signal(signal.SIGTERM, end); print('up', flush=True); time.sleep(600)"
    order = tmp_path / "order"
    for name in ("first", "second"):
        supervisor.start(name, [sys.executable, "-c", note, str(order), name + " "])
    supervisor.start("deaf", STUBBORN)
    pids = [supervisor.pid(name) for name in ("first", "second", "deaf")]
    for name in ("first", "second", "deaf"):
        wait_until((tmp_path / f"{name}.log").read_text, f"{name} is up")
    supervisor.stop(timeout_s=2)
    assert order.read_text() == "second first "
    assert not any(running(pid) for pid in pids)
    assert supervisor.alive() == {}


def test_a_child_does_not_get_the_terminals_ctrl_c(supervisor: Supervisor) -> None:
    """Ctrl-C reaches only us, so that we can stop the children in order."""
    supervisor.start("worker", SLEEPER)
    assert os.getsid(supervisor.pid("worker")) != os.getsid(0)


def test_no_child_outlives_a_killed_parent_but_any_thread(tmp_path: Path) -> None:
    """After kill -9 of the service nothing of it runs; the end of a thread ends nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        with pytest.raises(AssertionError, match="the child is gone"):
            wait_until(lambda: not running(child), "the child is gone", timeout_s=0.3)
        parent.kill()
    wait_until(lambda: not running(child), "the child is gone")


def test_stopping_ends_what_a_child_started(supervisor: Supervisor, tmp_path: Path) -> None:
    """A pool process whose main process was killed does not stay behind."""
    supervisor.start("shell", ["sh", "-c", "sleep 600 & echo $!; wait"])
    log = tmp_path / "shell.log"
    grandchild = int(wait_until(log.read_text, "the shell has told the number"))
    assert running(grandchild)
    supervisor.stop(timeout_s=5)
    wait_until(lambda: not running(grandchild), "the grandchild is gone")


def test_wrong_names_and_programs_are_told(supervisor: Supervisor) -> None:
    """Each error names what was asked for and what there is."""
    supervisor.start("worker", SLEEPER)
    with pytest.raises(LocalServerError, match="named worker already"):
        supervisor.start("worker", SLEEPER)
    with pytest.raises(LocalServerError, match="named beat; running: worker"):
        supervisor.pid("beat")
    with pytest.raises(LocalServerError, match="no program 'no-such-program'"):
        supervisor.start("beat", ["no-such-program"])
