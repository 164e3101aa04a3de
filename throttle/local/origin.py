"""A web site on loopback that answers as told and logs when each request arrived."""

import itertools
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from throttle.errors import LocalServerError
from throttle.local.child import Child
from throttle.local.directory import LOOPBACK, free_port

_BACKLOG = 4096
_CONTROL_TIMEOUT_S = 60.0
_ROOT = Path(__file__).parents[2]
_CHUNK = 65_536


class Ending(StrEnum):
    """How a request ends."""

    ANSWER = "answer"
    CUT = "cut"
    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How one request is answered.

    `body` None is the default page. `delay_s` seconds pass before anything is done. With `drip_s`
    the body goes out in pieces of `drip_bytes`, that many seconds apart. `ending`: `answer` whole;
    `cut` the connection after the first half of the body; `close` or `reset` it without an
    answer; `hang` until the client gives up. `raw` is sent as it stands instead of an answer, and
    the connection closed.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    delay_s: float = 0.0
    drip_s: float = 0.0
    drip_bytes: int = 1
    ending: Ending = Ending.ANSWER
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request as the site saw it; times are seconds of this machine's monotonic clock.

    `at_s` is when its first bytes were there, `done_s` when its answer was handed over whole or
    its connection ended (None while it is open). `open_now` counts the requests of its host that
    were open at its arrival, itself included. `status` is 0 when it got no answer.
    """

    host: str
    path: str
    method: str
    at_s: float
    done_s: float | None
    status: int
    headers: Mapping[str, str]
    open_now: int


def behaviour_to_json(behaviour: Behaviour) -> dict[str, Any]:
    """`behaviour` as plain data, for the site's process."""
    body = None if behaviour.body is None else behaviour.body.decode("latin-1")
    return {**asdict(behaviour), "body": body, "raw": behaviour.raw.decode("latin-1")}


def behaviour_from_json(told: dict[str, Any]) -> Behaviour:
    """The reverse of `behaviour_to_json`."""
    body = None if told["body"] is None else told["body"].encode("latin-1")
    headers = tuple((name, value) for name, value in told["headers"])
    return Behaviour(
        **{
            **told,
            "body": body,
            "raw": told["raw"].encode("latin-1"),
            "headers": headers,
            "ending": Ending(told["ending"]),
        }
    )


class Origin:
    """The site: any `Host` on one loopback port, in a process of its own.

    `pages` is a folder `host/path` to serve (`index.html` is `/`, and `:__PORT__/` in a page
    becomes the real port). Without it every path has a small page, and robots.txt is a 404.
    """

    def __init__(self, directory: Path, *, pages: Path | None = None, port: int = 0) -> None:
        self._directory = Path(directory).absolute()
        self._pages = pages
        self._port = port
        self._child: Child | None = None
        self._control: socket.socket | None = None
        self._lock = threading.Lock()
        self._read_bytes = 0
        self._finished: list[Arrival] = []

    @property
    def port(self) -> int:
        """Its port, the same after a stop and a start."""
        if not self._port:
            raise LocalServerError("the site has no port yet; start it first")
        return self._port

    @property
    def pid(self) -> int:
        """Its process id."""
        if self._child is None:
            raise LocalServerError("the site is not running; start it first")
        return self._child.pid

    def url(self, host: str, path: str = "/") -> str:
        """The URL of a page of `host` here."""
        return f"http://{host}:{self.port}{path}"

    def start(self) -> None:
        """Start it; it answers when this returns. Raises `LocalServerError`."""
        if self._child is not None and self._child.alive():
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        self._port = self._port or free_port()
        log = self._directory / "arrivals.jsonl"
        log.write_bytes(b"")
        self._read_bytes, self._finished = 0, []
        ours, theirs = socket.socketpair()
        with theirs, socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((LOOPBACK, self._port))
            except OSError as error:
                ours.close()
                raise LocalServerError(
                    f"the site cannot have port {self._port}: {error}"
                ) from error
            listener.listen(_BACKLOG)
            fds = (listener.fileno(), theirs.fileno())
            argv = [sys.executable, "-m", "throttle.local.website", *map(str, fds), str(log)]
            argv += [str(self._pages)] if self._pages else []
            self._child = Child(
                "site", argv, log=self._directory / "site.log", env=_environment(), fds=fds
            )
            self._child.start()
        ours.settimeout(_CONTROL_TIMEOUT_S)
        self._control = ours
        try:
            self._ask({"do": "ready"})
        except LocalServerError:
            self.stop()
            raise

    def stop(self) -> None:
        """End it; its port refuses connections then. The arrivals stay readable."""
        if self._control is not None:
            if self._child is not None and self._child.alive():
                self._collect()
            self._control.close()
            self._control = None
        if self._child is not None:
            self._child.kill()

    def set(self, host: str, path: str, *behaviours: Behaviour) -> None:
        """Answer requests for `path` of `host` so from now on.

        Of several behaviours each but the last serves one request. Path `*` stands for all paths
        of the host but `/robots.txt`; host `*` for all hosts. The nearest wins: host and path,
        host and `*`, `*` and path, `*` and `*`.
        """
        if not behaviours:
            raise LocalServerError("set needs at least one behaviour")
        told = [behaviour_to_json(each) for each in behaviours]
        self._ask({"do": "set", "host": host, "path": path, "behaviours": told})

    def clear(self) -> None:
        """Forget the arrivals and the behaviours."""
        self._collect()
        self._ask({"do": "clear"})
        with self._lock:
            self._finished = []

    def arrivals(self, host: str | None = None) -> list[Arrival]:
        """All requests so far (of `host`), robots.txt included, in the order of arrival."""
        open_ones = self._collect() if self._control is not None else []
        found = [a for a in (*self._finished, *open_ones) if host is None or a.host == host]
        return sorted(found, key=lambda arrival: arrival.at_s)

    def gaps(self, host: str) -> list[float]:
        """Seconds between each two requests of `host` that follow one another."""
        at_s = [arrival.at_s for arrival in self.arrivals(host)]
        return [after - before for before, after in itertools.pairwise(at_s)]

    def max_open(self, host: str) -> int:
        """The most requests of `host` that were open at once."""
        return max((arrival.open_now for arrival in self.arrivals(host)), default=0)

    def _collect(self) -> list[Arrival]:
        """Read what is new in the log; the requests still open are returned, not kept."""
        still_open = self._ask({"do": "open"})
        with self._lock:
            with (self._directory / "arrivals.jsonl").open("rb") as log:
                log.seek(self._read_bytes)
                new = log.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read_bytes += len(whole)
            self._finished += [Arrival(*json.loads(line)) for line in whole.splitlines()]
        return [Arrival(*fields) for fields in still_open]

    def _ask(self, question: dict[str, Any]) -> Any:
        with self._lock:
            if self._control is None:
                raise LocalServerError("the site is not running; start it first")
            try:
                self._control.sendall(json.dumps(question).encode() + b"\n")
                answer = bytearray()
                while not answer.endswith(b"\n"):
                    chunk = self._control.recv(_CHUNK)
                    if not chunk:
                        raise ConnectionError("it ended")
                    answer += chunk
            except OSError as error:
                said = "" if self._child is None else self._child.last_lines()
                raise LocalServerError(f"the site does not answer ({error}):\n{said}") from error
        return json.loads(answer)


def _environment() -> dict[str, str]:
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{path}" if path else str(_ROOT)}
