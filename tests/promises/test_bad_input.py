"""Bad input gets a clear refusal or the right key, and never stops its neighbours."""

from collections.abc import Callable

import pika

from tests.crew import Crew
from tests.servers import wait_until
from throttle.local.origin import Behaviour
from throttle.model import Candidate, HostPolicy, Verdict

LONG_HOST = ".".join(["a" * 60, "b" * 60, "c" * 60, "d" * 60, "example"])

ONE_PAGE = (
    "HTTP://A.Example:{port}/",
    "http://a.example:{port}",
    "http://a.example.:{port}/",
    "http://a.example:0{port}/#x",
    "http://u:p@a.example:{port}/",
    "http://a.example:{port}/././",
)

REFUSED = (
    "http://a..example/",
    "http://" + "a" * 64 + ".example/",
    "http://[::1",
    "http://]::1[/",
    "http://a.example:99999/",
    "http://a.example:-1/",
    "http://a.example:abc/",
    "http:///p",
    "http:/p",
    "http:a.example/p",
    "http://a\u2100b.example/",
    "",
    "ftp://a.example/",
    "http://a.example/" + "x" * 9000,
)


def test_one_page_in_six_spellings_is_fetched_once(crew: Callable[..., Crew]) -> None:
    """Case, default spellings, userinfo and trailing dots name one host with one bucket."""
    made = crew("a.example", interval="100ms")
    made.start_all()
    spelt = [text.format(port=made.origin.port) for text in ONE_PAGE]
    answers = made.frontier.intake.add([Candidate(text) for text in spelt])

    totals = made.drained(timeout_s=30)

    assert [a.verdict for a in answers] == [Verdict.ADDED] + [Verdict.SEEN] * 5
    assert totals.done == 1
    assert list(made.frontier.hosts.keys()) == ["a.example"]
    assert sorted(a.path for a in made.origin.arrivals()) == ["/", "/robots.txt"]
    assert not any("authorization" in a.headers for a in made.origin.arrivals())


def test_what_cannot_be_crawled_is_refused_with_a_reason(crew: Callable[..., Crew]) -> None:
    """Each bad URL of a batch is answered by itself; the good ones beside it are crawled."""
    made = crew("ok.example", "exa_mple.example", "xy--z.example", interval="100ms")
    made.start_all()
    good = [made.origin.url(h) for h in ("ok.example", "exa_mple.example", "xy--z.example")]
    mixed = [url for pair in zip(REFUSED, good * 5, strict=False) for url in pair]

    answers = made.frontier.intake.add([Candidate(url) for url in mixed])

    refused = [answer for answer in answers[::2] if answer.verdict is Verdict.INVALID]
    assert len(refused) == len(REFUSED)
    assert all(answer.reason for answer in refused)
    assert made.drained(timeout_s=30).done == 3
    assert sorted(made.frontier.hosts.keys()) == [
        "exa_mple.example", "ok.example", "xy--z.example",
    ]  # fmt: skip


def test_a_bad_link_costs_its_page_nothing(crew: Callable[..., Crew]) -> None:
    """The good links of a page that has bad ones are followed."""
    made = crew("a.example", interval="50ms")
    links = "".join(f'<a href="{url}">x</a>' for url in (*REFUSED, "/good"))
    made.origin.set(
        "a.example",
        "/0",
        Behaviour(body=links.encode(), headers=(("Content-Type", "text/html; charset=utf-8"),)),
    )
    made.start_all()
    made.add("a.example", 1)

    made.drained(timeout_s=30)

    assert "/good" in {arrival.path for arrival in made.origin.arrivals()}


def test_a_name_too_long_for_a_queue_is_crawled_too(crew: Callable[..., Crew]) -> None:
    """A legal host whose queue's name would pass 255 bytes gets its tokens like any other."""
    made = crew(LONG_HOST, "ok.example", interval="100ms")
    made.add(LONG_HOST, 3)
    made.add("ok.example", 3)
    made.start_all()

    assert made.drained(timeout_s=30).done == 6
    assert len(made.origin.arrivals(LONG_HOST)) == 4


def test_a_queue_that_cannot_be_declared_holds_up_its_host_only(
    crew: Callable[..., Crew], broker_url: str
) -> None:
    """An exclusive queue of somebody else's in the way of one host's tokens stops that host."""
    made = crew("bad.example", "ok.example", interval="100ms")
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    connection.channel().queue_declare("tokens.bad.example", exclusive=True)
    made.add("bad.example", 3)
    made.add("ok.example", 10)
    made.start_all()

    wait_until(lambda: made.frontier.census.totals().done == 10, "the other host is done", 30)
    shown = made.frontier.hosts.show(["bad.example"])[0]
    connection.close()

    assert "tokens.bad.example" in shown.issue_fault
    assert made.frontier.census.totals().waiting == 3


def test_burst_and_pace_of_a_live_host_change_at_once(crew: Callable[..., Crew]) -> None:
    """Burst 5 to 10 and back, and a slower interval, need no restart and lose no URL."""
    made = crew("a.example", "b.example", interval="100ms")
    made.frontier.hosts.set_policy("a.example", HostPolicy(burst=5))
    made.add("a.example", 60)
    made.add("b.example", 60)
    made.start_all()
    done = made.frontier.census.totals
    wait_until(lambda: done().done >= 20, "the crawl is under way", timeout_s=20)

    made.frontier.hosts.set_policy("a.example", HostPolicy(burst=10))
    wait_until(lambda: done().done >= 60, "it goes on", timeout_s=20)
    made.frontier.hosts.set_policy("a.example", HostPolicy(burst=1, interval_s=0.3))
    changed = len(made.origin.arrivals("a.example"))
    totals = made.drained(timeout_s=60)

    assert totals.done == 120
    # One request may have been under way when the command returned; all later ones are at 0.3 s.
    assert min(made.origin.gaps("a.example")[changed + 1 :], default=0.3) >= 0.295
    assert min(made.origin.gaps("b.example")) >= 0.095
