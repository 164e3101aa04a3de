"""Redirects and meta refresh: each hop pays, each loop ends in a recorded state."""

from collections.abc import Callable

import pytest

from tests.crew import Crew
from throttle.crawl.reading import MAX_HOPS
from throttle.frontier.census import Totals
from throttle.local.origin import Behaviour
from throttle.model import Candidate

HOST = "a.example"
HTML = (("Content-Type", "text/html"),)
REFRESH = b'<meta http-equiv="refresh" content="0; url=%s">'


def to(location: str, status: int = 302) -> Behaviour:
    """A redirect."""
    return Behaviour(status=status, headers=(("Location", location),), body=b"")


def refresh(target: str) -> Behaviour:
    """A page that sends its reader on."""
    return Behaviour(headers=HTML, body=REFRESH % target.encode())


def pages_fetched(made: Crew, host: str = HOST) -> list[str]:
    """The paths that the site was asked for, without robots.txt."""
    return [a.path for a in made.origin.arrivals(host) if a.path != "/robots.txt"]


def ended(made: Crew, *urls: str) -> Totals:
    """The totals once `urls` and all they lead to have come to an end; the audit must hold."""
    made.start_all()
    made.frontier.intake.add([Candidate(url) for url in urls])
    totals = made.drained(timeout_s=60)
    count = made.frontier.census.count()
    assert (count.missing, count.faults) == (0, ())
    return totals


def test_loops_and_chains_end(crew: Callable[..., Crew]) -> None:
    """Two pages that name each other, one that names itself, and a chain: each page once."""
    made = crew(HOST, interval="20ms")
    site = made.origin
    for status in (301, 302, 303, 307, 308):
        site.set(HOST, f"/self{status}", to(f"/self{status}", status))
    site.set(HOST, "/ping", to("/pong"))
    site.set(HOST, "/pong", to("/ping"))
    site.set(HOST, "/fresh", refresh("/fresh"))
    site.set(HOST, "/tick", refresh("/tock"))
    site.set(HOST, "/tock", refresh("/tick"))
    for hop in range(MAX_HOPS + 2):
        site.set(HOST, f"/hop{hop}", to(f"/hop{hop + 1}"))
    starts = [
        *(f"/self{s}" for s in (301, 302, 303, 307, 308)),
        "/ping",
        "/fresh",
        "/tick",
        "/hop0",
    ]

    totals = ended(made, *(site.url(HOST, path) for path in starts))

    fetched = pages_fetched(made)
    assert len(fetched) == len(set(fetched))
    assert {"/pong", "/tock", f"/hop{MAX_HOPS}"} <= set(fetched)
    assert f"/hop{MAX_HOPS + 1}" not in fetched
    assert totals.outcomes["redirect loop"] == totals.dead == 1
    assert totals.accepted == len(fetched)
    assert min(made.origin.gaps(HOST)) >= 0.019


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "gopher://a.example/", "data:text/html,x", "http://[::1"]
)
def test_a_redirect_to_no_page_ends_its_own(crew: Callable[..., Crew], target: str) -> None:
    """By Location the page ends `dead` with the reason; by meta refresh it has no link."""
    made = crew(HOST, interval="20ms")
    made.origin.set(HOST, "/", to(target))
    made.origin.set(HOST, "/refresh", refresh(target))
    totals = ended(made, made.origin.url(HOST), made.origin.url(HOST, "/refresh"))
    assert (totals.accepted, totals.dead, totals.done) == (2, 1, 1)
    assert totals.outcomes["redirect invalid"] == 1


def test_a_redirect_to_a_private_address_is_refused(crew: Callable[..., Crew]) -> None:
    """Neither the page nor its robots.txt is asked for, and the URL ends `refused`."""
    made = crew(HOST, interval="20ms", follow_hosts="true")
    made.origin.set(HOST, "/", to("http://169.254.169.254/latest/meta-data/"))
    made.origin.set(HOST, "/refresh", refresh("http://10.0.0.1/"))
    totals = ended(made, made.origin.url(HOST), made.origin.url(HOST, "/refresh"))
    assert (totals.accepted, totals.done, totals.refused) == (4, 2, 2)
    assert totals.outcomes["address refused"] == 2
    assert {a.host.partition(":")[0] for a in made.origin.arrivals()} == {HOST}


def test_fifty_hosts_that_redirect_to_one_pay_there(crew: Callable[..., Crew]) -> None:
    """The host they lead to is asked at its own pace, its robots.txt first and its bans kept."""
    many = [f"h{number}.example" for number in range(50)]
    made = crew(*many, "one.example", interval="20ms", follow_hosts="true")
    site = made.origin
    site.set(
        "one.example",
        "/robots.txt",
        Behaviour(body=b"User-agent: *\nCrawl-delay: 0.1\nDisallow: /9"),
    )
    for number, host in enumerate(many):
        site.set(host, "/", to(site.url("one.example", f"/{number % 20}")))

    totals = ended(made, *(site.url(host) for host in many))

    assert sorted(pages_fetched(made, "one.example")) == sorted(
        f"/{number}" for number in range(20) if number != 9
    )
    assert site.arrivals("one.example")[0].path == "/robots.txt"
    assert min(site.gaps("one.example")) >= 0.099
    assert totals.outcomes["redirect"] == 50


def test_a_site_that_links_ever_deeper_comes_to_an_end(crew: Callable[..., Crew]) -> None:
    """Relative links of a trap, a depth limit and a page limit: what was left out is counted."""
    made = crew(
        HOST, "b.example", "c.example", interval="10ms", max_depth="5", max_pages_per_host="8"
    )
    site = made.origin
    body = b'<a href="x/">deeper</a>'
    path = "/"
    for _ in range(6):
        site.set(HOST, path, Behaviour(headers=HTML, body=body))
        path += "x/"
    for number in range(10):
        next_one = f'<a href="/{number + 1}">next</a>'.encode()
        site.set("b.example", f"/{number}", Behaviour(headers=HTML, body=next_one))
    links = "".join(f'<a href="/{number}">x</a>' for number in range(10)).encode()
    site.set("c.example", "/", Behaviour(headers=HTML, body=links))

    totals = ended(made, site.url(HOST), site.url("b.example", "/0"), site.url("c.example"))

    assert sorted(pages_fetched(made)) == ["/", "/x/", "/x/x/", "/x/x/x/"]
    assert sorted(pages_fetched(made, "b.example")) == [f"/{number}" for number in range(6)]
    assert len(pages_fetched(made, "c.example")) == 8
    assert totals.turned_away == {"trap": 1, "max_depth": 1, "host_pages": 3}
    assert totals.done == totals.accepted == 4 + 6 + 8


def test_a_page_that_names_many_hosts_brings_in_a_few(crew: Callable[..., Crew]) -> None:
    """The first new hosts of a page are followed, fifty by default."""
    hosts = [f"h{number}.example" for number in range(6)]
    made = crew(HOST, *hosts, interval="20ms", follow_hosts="true", max_hosts_per_page="4")
    links = "".join(f'<a href="{made.origin.url(host)}">x</a>' for host in hosts)
    made.origin.set(HOST, "/", Behaviour(headers=HTML, body=links.encode()))
    totals = ended(made, made.origin.url(HOST))
    assert totals.done == 1 + 4
    assert totals.turned_away == {"max_hosts_per_page": 2}
