"""The site with the arrival log: what all promises about gaps are measured with."""

import http.client
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers import wait_until
from throttle.errors import LocalServerError
from throttle.local.origin import Behaviour, Ending, Origin


def get(
    origin: Origin, host: str, path: str, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", origin.port, timeout=10)
    try:
        connection.request(method, path, headers={"Host": f"{host}:{origin.port}"})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def in_threads(count: int, call: Callable[[], object]) -> list[threading.Thread]:
    """Start `call` in `count` threads."""
    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_every_host_and_path_has_a_page_and_no_rules(origin: Origin) -> None:
    """Without a word the site serves a titled page everywhere, and robots.txt is a 404."""
    status, headers, body = get(origin, "a.example", "/n?x=<1>")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"<title>/n?x=&lt;1&gt; at a.example</title>" in body
    assert get(origin, "a.example", "/robots.txt")[0] == 404


def test_the_log_tells_who_asked_for_what_and_when(origin: Origin) -> None:
    """An arrival lies between the sending and the answer, on the caller's monotonic clock."""
    before_s = time.monotonic()
    get(origin, "A.example", "/one")
    between_s = time.monotonic()
    get(origin, "b.example", "/robots.txt", "HEAD")
    after_s = time.monotonic()
    one, two = origin.arrivals()
    assert (one.host, one.path, one.method, one.status) == ("a.example", "/one", "GET", 200)
    assert (two.host, two.path, two.method, two.status) == ("b.example", "/robots.txt", "HEAD", 404)
    assert one.headers["host"] == f"A.example:{origin.port}"
    assert one.done_s is not None
    assert two.done_s is not None
    assert before_s < one.at_s < one.done_s < between_s < two.at_s < two.done_s < after_s
    assert origin.arrivals("b.example") == [two]


def test_gaps_count_every_request_of_the_host(origin: Origin) -> None:
    """Pages and robots.txt alike are in the gaps; other hosts are not."""
    for path in ("/robots.txt", "/1", "/2"):
        get(origin, "a.example", path)
        get(origin, "b.example", path)
    at_s = [arrival.at_s for arrival in origin.arrivals("a.example")]
    assert origin.gaps("a.example") == [at_s[1] - at_s[0], at_s[2] - at_s[1]]
    assert min(origin.gaps("a.example")) > 0


def test_the_stamp_is_the_first_byte_not_the_last(origin: Origin) -> None:
    """A request that trickles in arrived when it began."""
    with socket.create_connection(("127.0.0.1", origin.port)) as client:
        client.sendall(b"GET /slow HT")
        sent_s = time.monotonic()
        get(origin, "other.example", "/")
        later_s = time.monotonic()
        client.sendall(b"TP/1.1\r\nHost: a.example\r\n\r\n")
        assert client.recv(20).startswith(b"HTTP/1.1 200")
    (arrival,) = origin.arrivals("a.example")
    assert arrival.at_s < later_s
    assert arrival.at_s - sent_s < 0.5


def test_requests_open_at_once_are_counted_per_host(origin: Origin) -> None:
    """Three held requests are seen as three open, each done only when its client leaves."""
    origin.set("a.example", "*", Behaviour(ending=Ending.HANG))
    clients = []
    for number in range(3):
        client = socket.create_connection(("127.0.0.1", origin.port))
        client.sendall(b"GET /%d HTTP/1.1\r\nHost: a.example\r\n\r\n" % number)
        clients.append(client)
        wait_until(
            lambda n=number: len(origin.arrivals("a.example")) == n + 1, "the request is there"
        )
    get(origin, "b.example", "/")
    held = origin.arrivals("a.example")
    assert [arrival.open_now for arrival in held] == [1, 2, 3]
    assert [arrival.done_s for arrival in held] == [None, None, None]
    assert (origin.max_open("a.example"), origin.max_open("b.example")) == (3, 1)
    for client in clients:
        client.close()
    wait_until(
        lambda: all(arrival.done_s for arrival in origin.arrivals("a.example")),
        "the site has seen the clients leave",
    )
    assert [arrival.status for arrival in origin.arrivals("a.example")] == [0, 0, 0]
    origin.set("a.example", "*", Behaviour())
    get(origin, "a.example", "/after")
    assert origin.arrivals("a.example")[-1].open_now == 1


def test_requests_one_after_another_never_count_as_two(origin: Origin) -> None:
    """A client that waits for each answer is never seen with two open."""
    for number in range(300):
        get(origin, "a.example", f"/{number}")
    assert len(origin.arrivals("a.example")) == 300
    assert origin.max_open("a.example") == 1


def test_the_nearest_behaviour_wins_and_star_leaves_robots_alone(origin: Origin) -> None:
    """Host and path beat host, host beats path, path beats all; robots.txt is set by name."""
    origin.set("*", "*", Behaviour(500))
    origin.set("*", "/p", Behaviour(501))
    origin.set("a.example", "*", Behaviour(502))
    origin.set("a.example", "/p", Behaviour(503))
    seen = [
        get(origin, host, path)[0] for host in ("a.example", "b.example") for path in ("/p", "/q")
    ]
    assert seen == [503, 502, 501, 500]
    assert get(origin, "a.example", "/robots.txt")[0] == 404
    rules = b"User-agent: *\nDisallow: /x\n"
    origin.set("a.example", "/robots.txt", Behaviour(body=rules))
    assert get(origin, "a.example", "/robots.txt")[2] == rules


def test_behaviours_in_a_row_serve_one_request_each(origin: Origin) -> None:
    """Twice a 429 and then pages for good."""
    told = (("Retry-After", "7"),)
    origin.set("a.example", "*", Behaviour(429, told), Behaviour(503), Behaviour())
    answers = [get(origin, "a.example", "/") for _ in range(4)]
    assert [status for status, _, _ in answers] == [429, 503, 200, 200]
    assert answers[0][1]["Retry-After"] == "7"


def test_delay_and_drip_take_their_time(origin: Origin) -> None:
    """The request stays open through the delay and every piece of the body."""
    origin.set("a.example", "/delay", Behaviour(delay_s=0.1))
    origin.set("a.example", "/drip", Behaviour(body=b"abcdef", drip_s=0.03, drip_bytes=2))
    get(origin, "a.example", "/delay")
    assert get(origin, "a.example", "/drip")[2] == b"abcdef"
    delayed, dripped = origin.arrivals("a.example")
    assert delayed.done_s is not None
    assert dripped.done_s is not None
    assert delayed.done_s - delayed.at_s >= 0.1
    assert dripped.done_s - dripped.at_s >= 0.09


def test_connections_can_be_cut_closed_and_reset(origin: Origin) -> None:
    """Half a body, no answer at all, and a reset are what the client really gets."""
    origin.set("a.example", "/cut", Behaviour(body=b"x" * 100, ending=Ending.CUT))
    origin.set("a.example", "/close", Behaviour(ending=Ending.CLOSE))
    origin.set("a.example", "/reset", Behaviour(ending=Ending.RESET))
    origin.set("a.example", "/raw", Behaviour(raw=b"nonsense\r\n\r\n"))
    with pytest.raises(http.client.IncompleteRead) as cut:
        get(origin, "a.example", "/cut")
    assert len(cut.value.partial) == 50
    with pytest.raises(http.client.RemoteDisconnected):
        get(origin, "a.example", "/close")
    with pytest.raises(ConnectionResetError):
        get(origin, "a.example", "/reset")
    with pytest.raises(http.client.BadStatusLine):
        get(origin, "a.example", "/raw")
    assert [arrival.status for arrival in origin.arrivals()] == [200, 0, 0, 200]


def test_large_bodies_and_kept_connections_work(origin: Origin) -> None:
    """A body larger than any buffer arrives whole, and the connection serves the next request."""
    body = bytes(range(256)) * 40_000
    origin.set("a.example", "/large", Behaviour(body=body))
    connection = http.client.HTTPConnection("127.0.0.1", origin.port, timeout=10)
    for path, length in (("/large", len(body)), ("/small", None), ("/large", len(body))):
        connection.request("GET", path, headers={"Host": "a.example"})
        got = connection.getresponse().read()
        assert length is None or got == body
    connection.close()
    assert origin.max_open("a.example") == 1


def test_clear_forgets_arrivals_and_behaviours(origin: Origin) -> None:
    """One site can serve several measurements."""
    origin.set("a.example", "*", Behaviour(503))
    get(origin, "a.example", "/")
    origin.clear()
    assert origin.arrivals() == []
    assert get(origin, "a.example", "/")[0] == 200
    assert len(origin.arrivals()) == 1


def test_a_stopped_site_refuses_and_comes_back_on_its_port(origin: Origin) -> None:
    """Down is down: no connection; the log stays readable, and a start brings the port back."""
    port = origin.port
    get(origin, "a.example", "/")
    origin.stop()
    assert len(origin.arrivals()) == 1
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with pytest.raises(LocalServerError, match="not running"):
        origin.set("a.example", "*", Behaviour())
    origin.start()
    assert (origin.port, origin.arrivals()) == (port, [])
    assert get(origin, "a.example", "/")[0] == 200


def test_a_folder_of_pages_is_served_under_its_hosts(tmp_path: Path) -> None:
    """`index.html` is `/`, the real port stands in the links, and what is not there is a 404."""
    pages = tmp_path / "pages" / "a.example"
    pages.mkdir(parents=True)
    (pages / "index.html").write_text('<a href="http://b.example:__PORT__/x">x</a>')
    (pages / "robots.txt").write_text("User-agent: *\nDisallow:\n")
    origin = Origin(tmp_path / "origin", pages=tmp_path / "pages")
    origin.start()
    try:
        assert (
            get(origin, "a.example", "/")[2].decode()
            == f'<a href="{origin.url("b.example", "/x")}">x</a>'
        )
        assert get(origin, "a.example", "/robots.txt")[1]["Content-Type"].startswith("text/plain")
        assert get(origin, "b.example", "/")[0] == 404
    finally:
        origin.stop()


def test_the_site_is_faster_than_what_it_measures(origin: Origin) -> None:
    """Its own work on a request is short: 1,500 a second leave it idle most of the time."""
    path = Path(f"/proc/{origin.pid}/schedstat")
    get(origin, "a.example", "/")
    before_ns = int(path.read_text().split()[0])

    def ask() -> None:
        for _ in range(250):
            get(origin, "a.example", "/x")

    for thread in in_threads(4, ask):
        thread.join()
    spent_s = (int(path.read_text().split()[0]) - before_ns) / 1e9
    assert len(origin.arrivals("a.example")) == 1001
    assert spent_s / 1000 < 1 / 1500
