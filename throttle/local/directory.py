"""A data directory for one service at a time: its lock, and the ports it remembers."""

import contextlib
import fcntl
import json
import os
import secrets
import socket
import time
from pathlib import Path

from throttle.errors import DirectoryInUse, LocalServerError

LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 10_000
_ENDING_S = 5.0
_POLL_S = 0.02
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class DirectoryLock:
    """Holds a data directory, so that two services never share one.

    The lock goes when this process and every child that inherited `fd` is gone.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The descriptor of the lock, for children that shall hold it too."""
        if self._fd is None:
            raise LocalServerError(f"{self.directory} is not locked by us")
        return self._fd

    def acquire(self) -> None:
        """Make the directory (readable by its owner only) and lock it, if we do not hold it.

        Raises `DirectoryInUse` when another service holds it or it cannot be written.
        """
        if self._fd is not None:
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DirectoryInUse(
                f"cannot use the data directory {self.directory}: {error}; name one you may write"
            ) from error
        end_s = time.monotonic() + _ENDING_S
        while not _locked(fd):
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            # The children of a service that was killed hold it until the kernel has ended them.
            if _runs(holder) or time.monotonic() > end_s:
                os.close(fd)
                raise DirectoryInUse(
                    f"the data directory {self.directory} is in use by process {holder}; "
                    "stop that one or name another directory"
                )
            time.sleep(_POLL_S)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Give the directory up, also on behalf of forked copies of this process."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)
        self._fd = None


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _runs(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def remembered_ports(file: Path, names: tuple[str, ...]) -> dict[str, int]:
    """A free loopback port for each name: those of the last time where still free."""
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = {}
    ports: dict[str, int] = {}
    for name in names:
        port = known.get(name) if isinstance(known, dict) else None
        ports[name] = port if isinstance(port, int) and is_free(port) else free_port()
    file.write_text(json.dumps(ports), encoding="utf-8")
    return ports


def free_port() -> int:
    """A loopback port nobody listens on, outside the range of outgoing connections.

    In that range a client that dials a stopped server again and again ends up connected to itself
    (TCP simultaneous open), and then the server cannot have its port back.
    """
    highest = _first_outgoing_port() - 1
    for _ in range(1000):
        port = _LOWEST_PORT + secrets.randbelow(highest - _LOWEST_PORT)
        if is_free(port):
            return port
    raise LocalServerError(f"no free port between {_LOWEST_PORT} and {highest} on {LOOPBACK}")


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True


def _first_outgoing_port() -> int:
    try:
        first = int(_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        first = 32_768
    return first if first >= _LOWEST_PORT + 1000 else 65_536
