"""TLS by the host's name, and the standard proxies, which are no way round the guard."""

import base64
import socket
import threading
from collections.abc import Callable

import pytest

from tests.integration.sites import AGENT, HEAD, OK, Certificate, Site, drip, failure, fetcher, get
from throttle.crawl.address import Resolver
from throttle.crawl.proxies import Proxies
from throttle.errors import AddressRefused, SettingsError


def test_tls_is_verified_by_the_hosts_name(
    serve: Callable[..., Site], certificate: Certificate
) -> None:
    """The name in the URL is the one asked for and the one the certificate must have."""
    site = serve(OK, tls=certificate.server)
    given = {"ssl_context": certificate.client, "resolver": certificate.resolver}
    response = get(f"https://site.example:{site.port}/", **given)
    assert (response.body, response.address) == (b"ok", "127.0.0.1")
    assert certificate.asked_names == ["site.example"]
    error = failure(f"https://other.example:{site.port}/", **given)
    assert error.reason.startswith("TLS: certificate verify failed: Hostname mismatch")
    assert error.sent_at_s is None
    error = failure(f"https://site.example:{site.port}/", resolver=certificate.resolver)
    assert error.reason.startswith("TLS: certificate verify failed: self")
    assert len(site.requests) == 1


def test_a_port_without_tls_fails_in_plain_words(serve: Callable[..., Site]) -> None:
    """Encryption asked of a plain port is one failed fetch that cost no token."""
    site = serve(lambda sock: sock.sendall(OK), reads=False)
    error = failure(f"https://127.0.0.1:{site.port}/")
    assert error.reason.startswith("TLS: ")
    assert not error.sent


def _tunnel(sock: socket.socket, target: int, refuse: bytes = b"") -> None:
    """Answer one CONNECT by joining both sides."""
    if refuse:
        sock.sendall(refuse)
        return
    with socket.create_connection(("127.0.0.1", target)) as other:
        sock.sendall(b"HTTP/1.1 200 Joined\r\n\r\n")

        def pump(source: socket.socket, sink: socket.socket) -> None:
            try:
                while data := source.recv(65536):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                return

        back = threading.Thread(target=pump, args=(other, sock), daemon=True)
        back.start()
        pump(sock, other)
        back.join(5)


def test_an_http_proxy_gets_the_whole_url(serve: Callable[..., Site]) -> None:
    """Plain requests go through HTTP_PROXY, which stands in our own network, with its login."""
    proxy = serve(OK)
    proxies = Proxies({"http": f"http://me:se%20cret@127.0.0.1:{proxy.port}"})
    response = get("http://a.example:8080/p?q", resolver=Resolver(), proxies=proxies)
    assert (response.body, response.address) == (b"ok", "")
    head = proxy.requests[0].decode()
    assert head.startswith("GET http://a.example:8080/p?q HTTP/1.1\r\n")
    assert "\r\nHost: a.example:8080\r\n" in head
    assert base64.b64encode(b"me:se cret").decode() in head
    get("http://[2606:4700::1]/p", resolver=Resolver(), proxies=proxies)
    assert proxy.requests[1].startswith(b"GET http://[2606:4700::1]/p HTTP/1.1\r\n")


def test_a_connect_proxy_carries_tls(serve: Callable[..., Site], certificate: Certificate) -> None:
    """TLS goes through a tunnel; the permission is asked for the origin's request only."""
    origin = serve(OK, tls=certificate.server)
    proxy = serve(lambda sock: _tunnel(sock, origin.port))
    asked: list[tuple[int, int]] = []
    response = fetcher(
        ssl_context=certificate.client,
        resolver=Resolver(),
        proxies=Proxies({"https": f"127.0.0.1:{proxy.port}"}),
    ).fetch(
        "https://site.example/p",
        may_send=lambda: asked.append((len(proxy.requests), len(origin.requests))),
    )
    assert response.body == b"ok"
    assert asked == [(1, 0)]
    assert proxy.requests[0].startswith(b"CONNECT site.example:443 HTTP/1.1\r\n")
    assert AGENT.encode() not in proxy.requests[0]
    assert origin.requests[0].startswith(b"GET /p HTTP/1.1\r\nHost: site.example\r\n")


def test_a_proxy_that_refuses_costs_no_token(serve: Callable[..., Site]) -> None:
    """What fails between us and the proxy never reached the host."""
    proxy = serve(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
    proxies = Proxies({"https": f"http://127.0.0.1:{proxy.port}"})
    error = failure("https://a.example/", proxies=proxies)
    assert (error.reason, error.sent_at_s) == ("proxy: 407 Who are you", None)
    slow = serve(drip(head=HEAD + b"X: ", piece=b"a"))
    proxies = Proxies({"https": f"http://127.0.0.1:{slow.port}"})
    error = failure("https://a.example/", proxies=proxies, timeout_s=0.3)
    assert (error.reason, error.sent_at_s) == ("timed out after 300ms", None)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "http://0x7f.1/", "http://localhost/", "https://[::1]/"]
)
def test_a_proxy_is_not_a_way_round_the_guard(serve: Callable[..., Site], url: str) -> None:
    """Literal local addresses are refused before the proxy hears of them."""
    proxy = serve(OK)
    at = f"http://127.0.0.1:{proxy.port}"
    error = failure(url, resolver=Resolver(), proxies=Proxies({"http": at, "https": at}))
    assert isinstance(error, AddressRefused)
    assert proxy.connections == 0


def test_the_standard_variables_choose_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY, HTTPS_PROXY and NO_PROXY mean what they mean to other programs."""
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://one:3128")
    monkeypatch.setenv("https_proxy", "two")
    monkeypatch.setenv("NO_PROXY", ".direct.example,10.0.0.1")
    proxies = Proxies.from_environment()
    plain, secure = proxies.chosen("http", "a.example", 80), proxies.chosen("https", "a.example", 1)
    assert plain
    assert secure
    assert (plain.host, plain.port, secure.host, secure.port) == ("one", 3128, "two", 80)
    assert proxies.chosen("http", "a.direct.example", 80) is None
    assert proxies.chosen("https", "10.0.0.1", 443) is None
    monkeypatch.setenv("REQUEST_METHOD", "GET")
    assert Proxies.from_environment().chosen("http", "a.example", 80) is None


@pytest.mark.parametrize("value", ["socks5://a:1", "https://a", "http://", "http://me:pw@a:x"])
def test_a_proxy_of_another_kind_is_refused_without_its_password(value: str) -> None:
    """A proxy that cannot be used stops the start, and its password is not shown."""
    with pytest.raises(SettingsError, match="HTTP_PROXY") as caught:
        Proxies({"http": value})
    assert "pw" not in str(caught.value)
