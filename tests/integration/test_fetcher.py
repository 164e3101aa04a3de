"""One request: what is sent and when, to which address, and what comes back."""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.sites import (
    AGENT,
    LOOPBACK,
    OK,
    Certificate,
    Site,
    answered,
    failure,
    fetcher,
    get,
    request_of,
)
from tests.servers import wait_until
from throttle.crawl.address import Resolver
from throttle.crawl.fetcher import boot_clock
from throttle.errors import AddressRefused, FetchError


def test_an_answer_comes_back_whole(serve: Callable[..., Site]) -> None:
    """Status, reason, headers in their spelling and order, body, address and times are kept."""
    site = serve(answered(b"hello", "X-One: a", "x-one: caf\xe9", status="299 Fine by me"))
    before_s = boot_clock()
    response = get(f"{site.url}p;a?b=c&b=&d#fragment")
    assert (response.status, response.reason) == (299, "Fine by me")
    assert response.http_version == "HTTP/1.1"
    assert response.headers[1:] == (("X-One", "a"), ("x-one", "caf\xe9"))
    assert response.body == response.raw_body == b"hello"
    assert response.address == "127.0.0.1"
    assert response.url == f"{site.url}p;a?b=c&b=&d"
    assert before_s <= response.sent_at_s <= response.sent_at_s + response.elapsed_s <= boot_clock()
    assert response.elapsed_s < 2


def test_a_request_holds_only_the_known_headers(serve: Callable[..., Site]) -> None:
    """No cookie, no login and no coding we cannot bound is ever sent."""
    site = serve(OK)
    asking = fetcher()
    url = f"http://user:secret@127.0.0.1:{site.port}/a?"
    response = asking.fetch(url, may_send=lambda: None)
    assert site.requests == [
        b"GET /a? HTTP/1.1\r\n"
        + f"Host: 127.0.0.1:{site.port}\r\nUser-Agent: {AGENT}\r\n".encode()
        + b"Accept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: close\r\n\r\n"
    ]
    head = "".join(f"{name}: {value}\r\n" for name, value in asking.request_headers(url))
    assert head.encode() in site.requests[0]
    assert "secret" not in response.url


def test_chunks_and_close_delimited_bodies_are_read_whole(serve: Callable[..., Site]) -> None:
    """Every way HTTP/1 has of ending a body works."""
    chunked = serve(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
    )
    assert get(chunked.url).body == b"abcde"
    old = serve(b"HTTP/1.0 200 OK\r\n\r\nabc")
    assert (get(old.url).body, get(old.url).http_version) == (b"abc", "HTTP/1.0")
    assert get(serve(b"HTTP/1.1 204 No Content\r\n\r\n").url).body == b""
    early = serve(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK)
    assert (get(early.url).status, get(early.url).body) == (200, b"ok")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_returned_and_not_followed(serve: Callable[..., Site], status: int) -> None:
    """Where a redirect leads is decided by the caller, who asks for a new grant."""
    other = serve(OK)
    site = serve(answered(b"", f"Location: {other.url}", status=f"{status} Moved"))
    response = get(site.url)
    assert (response.status, response.header("location")) == (status, other.url)
    assert other.connections == 0


def test_many_threads_share_one_fetcher(serve: Callable[..., Site]) -> None:
    """Answers of requests in flight together are never mixed."""

    def echo(sock: socket.socket) -> None:
        path = request_of(sock).split()[1]
        sock.sendall(answered(path))

    site = serve(echo, reads=False)
    shared = fetcher()

    def one(number: int) -> bytes:
        return shared.fetch(f"{site.url}{number}", may_send=lambda: None).body

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(one, range(256))) == [f"/{n}".encode() for n in range(256)]


def test_a_refused_start_sends_no_byte(serve: Callable[..., Site]) -> None:
    """When the permission ran out during the connect, the host sees nothing of the request."""
    got: list[bytes] = []
    site = serve(lambda sock: got.append(sock.recv(100)), reads=False)

    class TooOld(Exception):
        """The permission ran out."""

    refusal = TooOld()

    def refuse() -> None:
        raise refusal

    with pytest.raises(TooOld) as caught:
        fetcher().fetch(site.url, may_send=refuse)
    assert caught.value is refusal
    wait_until(site.closed.is_set, "the connection is closed")
    assert got == [b""]


@pytest.mark.parametrize("error", [OSError("mine"), FetchError("mine", sent_at_s=7.0)])
def test_the_callers_own_error_passes_unchanged(
    serve: Callable[..., Site], error: Exception
) -> None:
    """An exception of `may_send` is never taken for one of the network."""

    def refuse() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        fetcher().fetch(serve(OK).url, may_send=refuse)
    assert caught.value is error
    assert getattr(error, "sent_at_s", 7.0) == 7.0


def test_the_moment_of_sending_is_told_before_the_answer(serve: Callable[..., Site]) -> None:
    """Others may start by this request's wire time while the host still thinks."""
    told: list[float] = []
    go_on = threading.Event()

    def waiting(sock: socket.socket) -> None:
        go_on.wait(5)
        sock.sendall(OK)

    site = serve(waiting)

    def on_sent(sent_at_s: float) -> None:
        told.append(sent_at_s)
        go_on.set()

    response = fetcher().fetch(site.url, may_send=lambda: None, on_sent=on_sent)
    assert told == [response.sent_at_s]
    mine = OSError("mine")

    def failing(_sent_at_s: float) -> None:
        raise mine

    with pytest.raises(OSError, match="mine") as caught:
        fetcher().fetch(site.url, may_send=lambda: None, on_sent=failing)
    assert caught.value is mine


def test_the_stamp_is_taken_after_a_slow_connect(
    serve: Callable[..., Site], certificate: "Certificate"
) -> None:
    """The host's clock runs from when the bytes went out, not from when we began to connect."""
    greeted: list[float] = []

    def slow(sock: socket.socket) -> None:
        time.sleep(0.3)
        with certificate.server.wrap_socket(sock, server_side=True) as secured:
            greeted.append(boot_clock())
            request_of(secured)
            arrived.append(boot_clock())
            secured.sendall(OK)

    arrived: list[float] = []
    asked: list[float] = []
    site = serve(slow, reads=False)
    began_s = boot_clock()
    response = fetcher(ssl_context=certificate.client, resolver=certificate.resolver).fetch(
        f"https://site.example:{site.port}/", may_send=lambda: asked.append(boot_clock())
    )
    assert asked[0] >= began_s + 0.3
    assert response.sent_at_s >= asked[0]
    assert abs(response.sent_at_s - arrived[0]) < 0.15
    assert greeted


def test_a_failure_before_sending_costs_nothing(serve: Callable[..., Site]) -> None:
    """A host that could not be reached keeps its token."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = failure(f"http://127.0.0.1:{port}/")
    assert (error.reason, error.sent_at_s, error.sent) == ("connection refused", None, False)


def test_a_failure_after_sending_is_stamped(serve: Callable[..., Site]) -> None:
    """A request that reached the host and failed then costs its token."""
    before_s = boot_clock()
    error = failure(serve(b"").url)
    assert error.reason == "closed before answering"
    assert error.sent_at_s is not None
    assert before_s <= error.sent_at_s <= boot_clock()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1"])
def test_loopback_is_not_dialled_by_default(serve: Callable[..., Site], host: str) -> None:
    """Without an opened network, a local server sees no connection at all."""
    site = serve(OK)
    error = failure(f"http://{host}:{site.port}/", resolver=Resolver())
    assert isinstance(error, AddressRefused)
    assert error.sent_at_s is None
    assert site.connections == 0


def test_a_name_with_a_private_record_is_not_dialled(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    """One refused address among several keeps us from all of them."""
    site = serve(OK)
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 mixed.example\n10.0.0.1 mixed.example\n")
    resolver = Resolver(str(hosts), LOOPBACK)
    assert isinstance(
        failure(f"http://mixed.example:{site.port}/", resolver=resolver), AddressRefused
    )
    assert site.connections == 0


def test_the_address_dialled_is_the_one_checked(serve: Callable[..., Site]) -> None:
    """A name is resolved once per request, so a second answer cannot turn it elsewhere."""
    site = serve(OK)
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    resolver = Resolver(allow_nets=LOOPBACK, lookup=lambda _host, _port: answers.pop(0))
    assert get(f"http://turning.example:{site.port}/", resolver=resolver).address == "127.0.0.1"
    error = failure(f"http://turning.example:{site.port}/", resolver=resolver)
    assert isinstance(error, AddressRefused)
    assert site.connections == 1


def test_the_next_address_is_tried_when_one_is_dead(serve: Callable[..., Site]) -> None:
    """A host with one dead address among several is still fetched, once."""
    site = serve(OK)
    resolver = Resolver(
        allow_nets=LOOPBACK, lookup=lambda _host, _port: ["127.0.0.9", "::1", "127.0.0.1"]
    )
    assert get(f"http://a.example:{site.port}/", resolver=resolver).address == "127.0.0.1"
    assert site.connections == 1


def test_dns_that_hangs_ends_at_the_deadline() -> None:
    """A resolver that never answers holds a worker no longer than a slow host does."""
    release = threading.Event()

    def hanging(_host: str, _port: int) -> list[str]:
        release.wait(20)
        return []

    began_s = time.monotonic()
    error = failure(
        "http://slow.example/",
        resolver=Resolver(lookup=hanging),
        timeout_s=0.3,
    )
    release.set()
    assert "DNS" in error.reason
    assert 0.25 < time.monotonic() - began_s < 1
