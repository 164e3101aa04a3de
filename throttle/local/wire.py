"""HTTP/1.1 as the site reads and writes it: request heads in, answers out."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from throttle.local.answers import HTML
from throttle.local.origin import Behaviour, Ending

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


@dataclass(slots=True, eq=False)
class Request:
    """One request while it is open."""

    host: str
    path: str
    method: str
    at_s: float
    headers: dict[str, str]
    keep: bool
    open_now: int = 0
    status: int = 0

    def fields(self, done_s: float | None) -> list[Any]:
        """The fields of its `Arrival`."""
        return [
            self.host,
            self.path,
            self.method,
            self.at_s,
            done_s,
            self.status,
            self.headers,
            self.open_now,
        ]


def parse_head(head: bytes, at_s: float) -> Request | None:
    """The request in `head`, which arrived at `at_s`; None when it is not one."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        return None
    method, target, version = words
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    authority = headers.get("host", "")
    if not target.startswith("/") and "://" in target:
        authority, _, rest = target.partition("://")[2].partition("/")
        target = "/" + rest
    host = authority.lower()
    if not host.endswith("]"):
        host = host.rpartition(":")[0] or host
    keep = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return Request(host, target, method, at_s, headers, keep)


def answer_pieces(request: Request, behaviour: Behaviour) -> list[bytes]:
    """The bytes that answer `request`, in the pieces they are to go out in; one at least."""
    if behaviour.raw:
        return [behaviour.raw]
    head = _answer_head(request, behaviour)
    body = b"" if request.method == "HEAD" else behaviour.body or b""
    if behaviour.ending is Ending.CUT:
        body = body[: len(body) // 2]
    if behaviour.drip_s <= 0:
        return [head + body]
    step = behaviour.drip_bytes
    return [head, *(body[start : start + step] for start in range(0, len(body), step))]


def _answer_head(request: Request, behaviour: Behaviour) -> bytes:
    """The status line and headers that answer `request`, with the framing they leave out."""
    status = behaviour.status
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Unnamed')}"]
    lines += [f"{name}: {value}" for name, value in behaviour.headers]
    given = {name.lower() for name, _ in behaviour.headers}
    framed = given & {"content-length", "transfer-encoding"}
    if not framed and status >= 200 and status not in (204, 304):
        lines.append(f"Content-Length: {len(behaviour.body or b'')}")
    if "content-type" not in given and behaviour.body:
        lines.append(f"Content-Type: {HTML}")
    if not request.keep:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
