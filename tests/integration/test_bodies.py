"""Bodies are unpacked within the limit, whatever they unpack to."""

import gzip
import resource
import socket
import time
import zlib
from collections.abc import Callable

import pytest

from tests.integration.sites import HEAD, LIMIT, Site, answered, drip, failure, get
from tests.servers import wait_until

DEFLATED = zlib.compress(b"page" * 1000)
RAW_DEFLATED = zlib.compressobj(wbits=-15)
RAW_DEFLATED_PAGE = RAW_DEFLATED.compress(b"page" * 1000) + RAW_DEFLATED.flush()
GZIPPED = gzip.compress(b"page" * 500)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"page" * 1000)),
        ("X-GZIP", gzip.compress(b"page" * 1000)),
        ("identity, gzip", gzip.compress(b"page" * 1000)),
        ("gzip", GZIPPED + GZIPPED),
        ("gzip", GZIPPED + gzip.compress(b"") + GZIPPED + b"\0" * 512),
        ("gzip", gzip.compress(b"page" * 1000) + b"garbage" + GZIPPED),
        ("deflate", DEFLATED),
        ("deflate", RAW_DEFLATED_PAGE),
        ("identity", b"page" * 1000),
        ("", b"page" * 1000),
    ],
    ids=str.split(
        "gzip x-gzip identity-gzip members empty-member trailer zlib raw-deflate identity none"
    ),
)
@pytest.mark.parametrize("at_once", [True, False])
def test_known_codings_are_taken_off(
    serve: Callable[..., Site], coding: str, body: bytes, *, at_once: bool
) -> None:
    """The page is unpacked however its bytes arrive, and the bytes received are kept."""

    def bytewise(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(HEAD + f"Content-Encoding: {coding}\r\n".encode())
        sock.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        for start in range(len(body)):
            sock.sendall(b"1\r\n" + body[start : start + 1] + b"\r\n")
        sock.sendall(b"0\r\n\r\n")

    site = serve(answered(body, f"Content-Encoding: {coding}") if at_once else bytewise)
    response = get(site.url)
    assert response.body == b"page" * 1000
    assert response.raw_body == body


@pytest.mark.parametrize(
    ("coding", "body", "reason"),
    [
        ("br", b"\x0b\x02\x80page\x03", "unsupported content coding br"),
        ("zstd", b"(\xb5/\xfd", "unsupported content coding zstd"),
        ("gzip, gzip", gzip.compress(GZIPPED), "unsupported content coding gzip, gzip"),
        ("deflate, gzip", gzip.compress(DEFLATED), "unsupported content coding"),
        ("gz\x7fip\xe9\t" + "x" * 500, b"a", "unsupported content coding"),
        ("gzip", b"not gzip", "bad gzip body"),
        ("gzip", GZIPPED[:-9], "bad gzip body: it ends early"),
        ("gzip", GZIPPED[:-8] + b"\0" * 8, "bad gzip body"),
        ("gzip", gzip.compress(b"") * 5000, "bad gzip body: over 4096 members"),
        ("deflate", DEFLATED[:20], "bad deflate body: it ends early"),
        ("deflate", b"\xff" * 20, "bad deflate body"),
    ],
    ids=range(11),
)
def test_a_body_that_cannot_be_unpacked_is_a_failure(
    serve: Callable[..., Site], coding: str, body: bytes, reason: str
) -> None:
    """Codings we did not ask for, nested ones and broken ones end the fetch with their name."""
    if "\x7f" in coding:
        coding = coding.replace("\x7f", "")
    error = failure(serve(answered(body, f"Content-Encoding: {coding}")).url)
    assert error.reason.startswith(reason)


def test_an_empty_body_needs_no_coding(serve: Callable[..., Site]) -> None:
    """A redirect that names a coding and has no body is fine."""
    for coding in ("gzip", "br"):
        site = serve(answered(b"", f"Content-Encoding: {coding}", status="301 Moved"))
        assert get(site.url).body == b""


def test_the_limit_is_exact(serve: Callable[..., Site]) -> None:
    """A body of exactly the limit is taken; one byte more is too large, packed or not."""
    for size, fits in ((LIMIT, True), (LIMIT + 1, False)):
        page = b"\0" * size
        sites = [
            serve(answered(page)),
            serve(b"HTTP/1.0 200 OK\r\n\r\n" + page),
            serve(answered(gzip.compress(page), "Content-Encoding: gzip")),
            serve(answered(zlib.compress(page), "Content-Encoding: deflate")),
        ]
        for site in sites:
            if fits:
                assert len(get(site.url).body) == LIMIT
            else:
                assert failure(site.url).reason == f"too large: over {LIMIT} bytes"


def _bomb(megabytes: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    zeros = b"\0" * (1 << 20)
    return b"".join([packer.compress(zeros) for _ in range(megabytes)]) + packer.flush()


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """Two gigabytes of zeros in two megabytes."""
    return _bomb(16) * 128


@pytest.mark.parametrize("status", ["200 OK", "301 Moved", "404 Not Found", "503 Busy"])
def test_a_bomb_goes_nowhere(serve: Callable[..., Site], bomb: bytes, status: str) -> None:
    """A small body that unpacks to gigabytes costs neither memory nor time.

    It is a failure, or in an error's answer no body at all: there the status is what counts.
    """
    assert len(bomb) < 10 * LIMIT
    site = serve(answered(bomb, "Content-Encoding: gzip", status=status))
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = time.monotonic()
    if status < "4":
        error = failure(site.url, body_limit=10 * LIMIT)
        assert error.reason == f"too large: over {10 * LIMIT} bytes"
    else:
        assert get(site.url, body_limit=10 * LIMIT).body == b""
    assert time.monotonic() - began_s < 1
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert grown_kib < 60 * 1024
    wait_until(site.closed.is_set, "the connection is closed")


def test_a_body_over_the_limit_is_not_read_to_its_end(serve: Callable[..., Site]) -> None:
    """An endless fast body is cut at the limit and its connection closed."""
    sent: list[int] = []

    def endless(sock: socket.socket) -> None:
        sock.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        while True:
            sent.append(sock.send(b"a" * 65536))

    site = serve(endless)
    assert failure(site.url).reason.startswith("too large")
    wait_until(site.closed.is_set, "the connection is closed")
    assert sum(sent) < 20 * LIMIT
    promised = serve(drip(head=HEAD + b"Content-Length: 99999999999\r\n\r\n", piece=b"a"))
    assert failure(promised.url, timeout_s=3).reason.startswith("too large")


@pytest.mark.parametrize("body", [GZIPPED[:-9], b"not gzip", gzip.compress(b"\0" * 2 * LIMIT)])
def test_an_errors_headers_count_though_its_body_is_unusable(
    serve: Callable[..., Site], body: bytes
) -> None:
    """A 429 with a broken or huge body still says how long to wait."""
    headers = ("Content-Encoding: gzip", "Retry-After: 7")
    response = get(serve(answered(body, *headers, status="429 Too Many Requests")).url)
    assert (response.status, response.header("retry-after")) == (429, "7")
    assert response.body == b""
