"""The requests of the site from arrival to end: counted while open, then a line in the log."""

import json
import time
from pathlib import Path
from typing import Any

from throttle.local.wire import Request

_BUFFER_BYTES = 1 << 20


class ArrivalLog:
    """Knows which requests are open, and appends the ended ones to `file`, one JSON line each."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=_BUFFER_BYTES)
        # A dict, not a set: it keeps the order of arrival.
        self._open: dict[str, dict[Request, None]] = {}

    def opened(self, request: Request) -> None:
        """Count `request` as open from now on; its `open_now` includes itself."""
        open_ones = self._open.setdefault(request.host, {})
        open_ones[request] = None
        request.open_now = len(open_ones)

    def closed(self, request: Request) -> None:
        """It ends now, answered or not."""
        done_s = time.monotonic()
        open_ones = self._open[request.host]
        del open_ones[request]
        if not open_ones:
            del self._open[request.host]
        self._file.write(json.dumps(request.fields(done_s)).encode() + b"\n")

    def still_open(self) -> list[list[Any]]:
        """The `Arrival` fields of every open request."""
        return [request.fields(None) for each in self._open.values() for request in each]

    def flush(self) -> None:
        """Let readers of the file see all that has ended."""
        self._file.flush()
