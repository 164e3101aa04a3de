"""Turns itself into another program, which the kernel ends as soon as its parent is gone.

Run as `python leash.py PARENT_PID PROGRAM ARGUMENT...`. It is a program of its own because the
wish must be made after the fork, and running Python between fork and exec is unsafe with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _tie_to(parent: int) -> None:
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # A parent that died before the call above sends no signal any more.
    if os.getppid() != parent:
        sys.exit(1)


def main(arguments: list[str]) -> None:
    """Become the program `arguments[1:]`, tied to the life of process `arguments[0]`."""
    _tie_to(int(arguments[0]))
    # Python ignores these two for itself, and an exec would hand that on.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execvp(arguments[1], arguments[1:])  # noqa: S606  (argument list, no shell)


if __name__ == "__main__":
    main(sys.argv[1:])
