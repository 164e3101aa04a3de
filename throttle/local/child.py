"""One child process: its own session and log file, and never left behind by its parent."""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO

from throttle.errors import LocalServerError

_LEASH = Path(__file__).with_name("leash.py")
_POLL_S = 0.01
_TAIL_BYTES = 16_384


class Spawner:
    """Starts processes from one thread that never ends.

    The kernel ties a child to the *thread* that started it: a child started by a thread that
    returns would be killed then. This thread lives as long as the process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wishes: queue.SimpleQueue[tuple[Start, Future[subprocess.Popen[bytes]]]]

    def spawn(self, start: "Start") -> subprocess.Popen[bytes]:
        """Start it and return the process. Raises `OSError` as `subprocess.Popen` does."""
        with self._lock:
            # Not alive in a forked copy of this process either, where it must be started anew.
            if self._thread is None or not self._thread.is_alive():
                self._wishes = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work, args=(self._wishes,), name="spawner", daemon=True
                )
                self._thread.start()
            answer: Future[subprocess.Popen[bytes]] = Future()
            self._wishes.put((start, answer))
        return answer.result()

    @staticmethod
    def _work(
        wishes: "queue.SimpleQueue[tuple[Start, Future[subprocess.Popen[bytes]]]]",
    ) -> None:
        while True:
            start, answer = wishes.get()
            try:
                answer.set_result(start())
            except OSError as error:
                answer.set_exception(error)


class Start:
    """What to start; calling it starts it."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str] | None, log: IO[bytes], fds: Sequence[int]
    ) -> None:
        self._argv, self._env, self._log, self._fds = argv, env, log, fds

    def __call__(self) -> subprocess.Popen[bytes]:
        """The started process, tied to this one."""
        leashed = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid()), *self._argv]
        return subprocess.Popen(
            leashed,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=self._fds,
        )


_spawner = Spawner()


class Child:
    """A named process of this service.

    It does not get the terminal's Ctrl-C (own session), and it is killed when this process ends
    in any way, kill -9 included (Linux). What it prints is appended to the file `log`. `env` is
    its whole environment, ours if not given; `fds` are descriptors it inherits.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        fds: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.log = log
        self._argv = list(argv)
        self._env = None if env is None else dict(env)
        self._fds = tuple(fds)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, if it is not running. Raises `LocalServerError` if that is not possible."""
        if self.alive():
            return
        self._reap()
        if shutil.which(self._argv[0]) is None:
            raise LocalServerError(f"{self.name}: no program {self._argv[0]!r} to start")
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("ab") as log:
                self._process = _spawner.spawn(Start(self._argv, self._env, log, self._fds))
        except OSError as error:
            raise LocalServerError(f"{self.name}: cannot be started: {error}") from error

    @property
    def pid(self) -> int:
        """Its process id. Raises `LocalServerError` when it was not started."""
        if self._process is None:
            raise LocalServerError(f"{self.name} is not running; start it first")
        return self._process.pid

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and not _has_ended(self._process.pid)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; False when it still runs after `timeout_s` seconds."""
        end_s = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() >= end_s:
                return False
            time.sleep(_POLL_S)
        return True

    def stop(self, timeout_s: float = 20.0) -> None:
        """End it: SIGTERM, and SIGKILL when it still runs after `timeout_s` seconds."""
        if self.alive():
            os.kill(self.pid, signal.SIGTERM)
            # A stopped (SIGSTOP) process takes the request only when it goes on.
            os.kill(self.pid, signal.SIGCONT)
            self.wait(timeout_s)
        self._reap()

    def kill(self) -> None:
        """End it at once (SIGKILL), with whatever it started in its process group."""
        self._reap()

    def last_lines(self, count: int = 10) -> str:
        """The last `count` lines it printed, for an error message."""
        return last_lines(self.log, count)

    def _reap(self) -> None:
        if self._process is None:
            return
        # Before the wait: until then the number cannot belong to anybody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None


def last_lines(log: Path, count: int = 10) -> str:
    """The last `count` lines of the file `log`, or a note that there are none."""
    if not log.exists():
        return "(no log)"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    kept = [line for line in text.splitlines() if line.strip()][-count:]
    return "\n".join(kept) if kept else "(the log is empty)"


def _has_ended(pid: int) -> bool:
    # Without reaping it: its number, and so its process group, stays ours until `_reap`.
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
