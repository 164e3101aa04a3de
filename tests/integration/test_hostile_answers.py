"""Hosts that drip, break off or talk nonsense end as one failed fetch, in time."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.sites import HEAD, OK, Handler, Site, drip, failure, fetcher
from tests.servers import wait_until
from throttle.errors import FetchError, SettingsError

SLOW: dict[str, Handler] = {
    "no answer": lambda sock: sock.recv(1),
    "a head byte by byte": drip(head=HEAD + b"X: ", piece=b"a"),
    "endless header lines": drip(head=HEAD, piece=b"X: a\r\n"),
    "endless 1xx": drip(piece=b"HTTP/1.1 103 Early\r\n\r\n"),
    "a body byte by byte": drip(head=HEAD + b"Content-Length: 100000\r\n\r\n", piece=b"a"),
    "a body without end": drip(head=b"HTTP/1.0 200 OK\r\n\r\n", piece=b"a"),
    "endless chunks": drip(
        head=HEAD + b"Transfer-Encoding: chunked\r\n\r\n", piece=b"1;a=b\r\na\r\n"
    ),
    "a chunk header without end": drip(
        head=HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", piece=b"a"
    ),
    "gzip that gives nothing": drip(
        head=HEAD + b"Content-Encoding: gzip\r\nContent-Length: 999999\r\n\r\n\x1f\x8b\x08\x08"
        b"\0\0\0\0\0\0",
        piece=b"a",
    ),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_slow_host_ends_at_the_deadline(serve: Callable[..., Site], name: str) -> None:
    """However a host drips, one request never outlasts its total time."""
    site = serve(SLOW[name])
    began_s = time.monotonic()
    error = failure(site.url, timeout_s=0.4)
    took_s = time.monotonic() - began_s
    assert error.reason == "timed out after 400ms"
    assert error.sent
    assert 0.35 < took_s < 1.2
    wait_until(site.closed.is_set, "the connection is closed")


def test_a_tls_handshake_that_hangs_ends(serve: Callable[..., Site]) -> None:
    """A port that accepts and never greets costs the connect time, and no token."""
    site = serve(lambda sock: sock.recv(1) and sock.recv(1 << 20) and sock.recv(1), reads=False)
    error = failure(f"https://127.0.0.1:{site.port}/", connect_timeout_s=0.2)
    assert (error.reason, error.sent) == ("no connection in 200ms", False)


def test_slow_hosts_do_not_stop_the_rest(serve: Callable[..., Site]) -> None:
    """Twenty dripping hosts leave the other threads their full speed."""
    slow, good = serve(SLOW["a body byte by byte"]), serve(OK)
    shared = fetcher(timeout_s=1.5)

    def stuck(_number: int) -> str:
        with pytest.raises(FetchError) as caught:
            shared.fetch(slow.url, may_send=lambda: None)
        return caught.value.reason

    with ThreadPoolExecutor(24) as pool:
        waiting = [pool.submit(stuck, number) for number in range(20)]
        wait_until(lambda: len(slow.requests) == 20, "the slow hosts are asked")
        began_s = time.monotonic()
        for _ in range(10):
            assert shared.fetch(good.url, may_send=lambda: None).body == b"ok"
        assert time.monotonic() - began_s < 1
        assert not any(future.done() for future in waiting)
        assert {future.result() for future in waiting} == {"timed out after 1.5s"}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "closed before answering"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "closed before answering"),
        (b"garbage\r\n\r\n", "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nX\0: a\r\n\r\n", "bad HTTP"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "closed in mid-answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 200_000, "bad HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000, "bad HTTP"),
        (b"HTTP/1.1 103 Early\r\n\r\n" * 60_000 + OK, "bad HTTP: no answer in 524288 bytes"),
    ],
    ids=range(14),
)
def test_broken_http_fails_in_plain_words(
    serve: Callable[..., Site], answer: bytes, reason: str
) -> None:
    """No answer, however broken, raises anything but one failed fetch with its reason."""
    error = failure(serve(answer).url)
    assert error.reason.startswith(reason)
    assert error.sent


def test_a_reset_fails_in_plain_words(serve: Callable[..., Site]) -> None:
    """A connection that is reset is one failed fetch, also in mid-body."""

    def reset(sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    assert failure(serve(reset).url).reason == "connection reset"

    def half(sock: socket.socket) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        time.sleep(0.05)
        reset(sock)

    assert failure(serve(half).url).reason == "connection reset"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/a\r\nX-Evil: 1",
        "http://127.0.0.1:{port}/a HTTP/1.1\r\nX-Evil:1\r\n\r\nGET /b",
        "http://127.0.0.1:{port}/\0",
        "http://127.0.0.1:{port}/caf\xe9",
        "http://127.0.0.1:{port}\r\nX-Evil: 1/",
        "http://127.0.0.1:99999/",
        "http://:{port}/",
        "http://[::1/",
        "http:///p",
        "ftp://127.0.0.1:{port}/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/",
        "data:,x",
        "",
    ],
)
def test_a_url_cannot_carry_a_second_request(serve: Callable[..., Site], url: str) -> None:
    """A URL that is not plain http is refused before any connection."""
    site = serve(OK)
    error = failure(url.format(port=site.port))
    assert error.reason.startswith("bad URL")
    assert error.sent_at_s is None
    assert site.connections == 0


@pytest.mark.parametrize(
    "agent", ["", "a\r\nX-Evil: 1", "a\nb", "a\0b", " a", "caf\xe9", "a\x1b[1m"]
)
def test_a_user_agent_cannot_carry_a_header(agent: str) -> None:
    """A wrong product or contact stops the start."""
    with pytest.raises(SettingsError, match="User-Agent"):
        fetcher(user_agent=agent)
