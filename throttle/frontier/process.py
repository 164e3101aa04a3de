"""Names of processes, unique for ever, from which this machine can tell whether one is dead."""

import os
import socket
import uuid
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PIDS = Path("/proc/self/ns/pid")


def process_name() -> str:
    """`host:pid:start:place:random` of this process.

    `place` is one boot of one machine, one space of process ids and one user (those of others may
    be hidden); `start` is when the process
    began, so that a process id that was used again is not taken for the old process.
    """
    pid = os.getpid()
    return ":".join(
        (socket.gethostname(), str(pid), _started(pid), _place(), uuid.uuid4().hex[:12])
    )


def is_surely_dead(name: str) -> bool:
    """Whether the process that called itself `name` is known to have ended.

    False in doubt: for another machine, another container, or a system that does not tell.
    """
    parts = name.rsplit(":", 4)
    if len(parts) != 5 or not parts[1].isdecimal() or not parts[2] or parts[3] != _place():
        return False
    try:
        return _started(int(parts[1])) != parts[2]
    except OSError:
        return False


@cache
def _place() -> str:
    try:
        place = f"{_BOOT.read_text().strip()}-{_PIDS.readlink()}-{os.getuid()}"
    except OSError:
        return f"unknown-{uuid.uuid4().hex}"
    return place.replace(":", "")


def _started(pid: int) -> str:
    """When the process began (clock ticks since boot); empty when there is none, or a dead one.

    Raises `OSError` when that cannot be told.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]
