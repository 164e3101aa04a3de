"""What our private servers have in common: a locked directory, fixed ports, start until ready."""

import os
import shutil
import socket
import time
from abc import ABC, abstractmethod
from pathlib import Path

from throttle.errors import LocalServerError
from throttle.local.child import Child
from throttle.local.directory import LOOPBACK, DirectoryLock, remembered_ports

READY_S = 90.0
POLL_S = 0.02
_REMEDY = "install it with: apt-get install rabbitmq-server redis-server"


class PrivateServer(ABC):
    """A server of our own in a data directory, which it holds for itself.

    It keeps its data and its ports over restarts. It ends with this process, however that ends.
    """

    name: str
    _port_names: tuple[str, ...] = ("port",)

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory).absolute()
        self._lock = DirectoryLock(self.directory)
        self._ports: dict[str, int] = {}
        self._child: Child | None = None

    def start(self, timeout_s: float = READY_S) -> None:
        """Start it and return when it answers.

        Raises `LocalServerError` when its program is missing, its directory is in use, it ends,
        or it does not answer in `timeout_s` seconds (with its last log lines).
        """
        if self.alive():
            return
        program = self._program()
        self._lock.acquire()
        try:
            if not self._ports:
                self._ports = remembered_ports(self.directory / "ports.json", self._port_names)
            if self._child is not None:
                self._child.kill()
            self._child = self._make_child(program)
            self._child.start()
            self._await(self._child, timeout_s)
        except BaseException:
            self.stop(timeout_s=0)
            raise

    def stop(self, timeout_s: float = 30.0) -> None:
        """End it in order; by SIGKILL when it still runs after `timeout_s` seconds."""
        if self._child is not None:
            self._child.stop(timeout_s)
        self._lock.release()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would; the directory stays ours."""
        if self._child is not None:
            self._child.kill()

    def restart(self, timeout_s: float = READY_S) -> None:
        """Stop it and start it again, on the same port with the same data."""
        if self._child is not None:
            self._child.stop()
        self.start(timeout_s)

    def alive(self) -> bool:
        """Whether its process runs."""
        return self._child is not None and self._child.alive()

    def last_lines(self, count: int = 10) -> str:
        """The last `count` lines of its log."""
        return "(not started)" if self._child is None else self._child.last_lines(count)

    @property
    def pid(self) -> int:
        """The process id of the server itself."""
        if self._child is None:
            raise LocalServerError(f"{self.name} is not running; start it first")
        return self._child.pid

    @property
    def port(self) -> int:
        """The loopback port it listens on, known from the first start."""
        if not self._ports:
            raise LocalServerError(f"{self.name} has no port yet; start it first")
        return self._ports["port"]

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it."""

    @abstractmethod
    def _program(self) -> Path: ...

    @abstractmethod
    def _make_child(self, program: Path) -> Child: ...

    @abstractmethod
    def _answers(self) -> bool: ...

    def _await(self, child: Child, timeout_s: float) -> None:
        end_s = time.monotonic() + timeout_s
        while not self._answers():
            if not child.alive():
                raise LocalServerError(
                    f"{self.name} ended while starting; its log {child.log} says:\n"
                    + child.last_lines()
                )
            if time.monotonic() > end_s:
                raise LocalServerError(
                    f"{self.name} is not ready after {timeout_s:g} s; its log {child.log} says:\n"
                    + child.last_lines()
                )
            time.sleep(POLL_S)
        if not child.alive():
            raise LocalServerError(
                f"{self.name} ended, and something else answers on port {self.port}; "
                f"its log {child.log} says:\n" + child.last_lines()
            )


def find_program(what: str, variable: str, candidates: tuple[str, ...]) -> Path:
    """The program that `variable` names, else the first candidate there is.

    Raises `LocalServerError` with the remedy when there is none.
    """
    named = os.environ.get(variable)
    for candidate in (named,) if named else candidates:
        found = shutil.which(candidate)
        if found:
            return Path(found)
    tried = named or ", ".join(candidates)
    raise LocalServerError(f"{what} is not installed (tried {tried}); {_REMEDY}, or set {variable}")


def clean_environment() -> dict[str, str]:
    """An environment in which the user's own RabbitMQ and Erlang settings do not occur."""
    kept = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")
    known = {name: os.environ[name] for name in kept if name in os.environ}
    return {"PATH": os.defpath, "HOME": "/", "LANG": "C.UTF-8", **known}


def exchange(port: int, sent: bytes) -> bytes:
    """What the server on this loopback port answers first; empty when it does not."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2) as connection:
            connection.sendall(sent)
            return connection.recv(64)
    except OSError:
        return b""


def listens(port: int) -> bool:
    """Whether somebody listens on this loopback port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=2).close()
    except OSError:
        return False
    return True
