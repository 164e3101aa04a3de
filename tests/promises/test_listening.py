"""What a site says changes its pace at the source, as the site itself sees it."""

import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.crew import Crew, share
from tests.promises.test_gap import TOLERANCE_S
from tests.servers import wait_until
from throttle.local.origin import Behaviour
from throttle.model import Candidate

HTML = (("Content-Type", "text/html"),)


def test_a_host_that_is_throttled_sees_hardly_anything(crew: Callable[..., Crew]) -> None:
    """429 to everything for a minute: at most burst + 6 requests, by whatever way URLs come."""
    throttled = ("all.example", "zero.example", "pages.example", "pageszero.example")
    made = crew("ok.example", *throttled, follow_hosts="true")
    made.origin.set("*", "*", Behaviour(status=429))
    made.origin.set("*", "/robots.txt", Behaviour(status=429))
    zero = Behaviour(status=429, headers=(("Retry-After", "0"),))
    for host in ("zero.example", "pageszero.example"):
        made.origin.set(host, "*", zero)
    made.origin.set("zero.example", "/robots.txt", zero)
    for host in ("pages.example", "pageszero.example", "ok.example"):
        made.origin.set(host, "/robots.txt", Behaviour(status=404))
    _ways_in(made, throttled)
    made.start_all(workers=2)
    wait_until(lambda: made.origin.arrivals("pageszero.example"), "it has begun", timeout_s=20)

    time.sleep(60.0)  # time itself is under test: what a minute of 429 amounts to

    for host in throttled:
        gaps = made.origin.gaps(host)
        assert len(gaps) + 1 <= 1 + 6, host
        pages = sorted(a.at_s for a in made.origin.arrivals(host) if a.path != "/robots.txt")
        widths = [later - earlier for earlier, later in pairwise(pages)]
        assert all(wide > narrow for narrow, wide in pairwise(widths)), (host, widths)
    assert len(made.origin.arrivals("pages.example")) >= 3
    count = made.frontier.census.count()
    assert (count.missing, count.faults) == (0, ())


def _ways_in(made: Crew, hosts: tuple[str, ...]) -> None:
    """URLs of `hosts` come by file, by command, by a page's links and by redirects."""
    seeds = made.directory / "seeds.txt"
    seeds.write_text("".join(made.origin.url(h, f"/f{n}\n") for h in hosts for n in range(5)))
    commands = [
        ["--file", str(seeds)],
        [made.origin.url(host, f"/c{number}") for host in hosts for number in range(5)],
    ]
    for arguments in commands:
        subprocess.run(
            [sys.executable, "-m", "throttle.cli.main", "add-url", *arguments],
            env=made.environment,
            check=True,
            capture_output=True,
        )
    links = "".join(
        f'<a href="{made.origin.url(h, f"/l{n}")}">x</a>' for h in hosts for n in (1, 2)
    )
    made.origin.set("ok.example", "/links", Behaviour(body=links.encode(), headers=HTML))
    urls = [made.origin.url("ok.example", "/links")]
    for number, host in enumerate(hosts):
        target = (("Location", made.origin.url(host, f"/r{number}")),)
        made.origin.set("ok.example", f"/r{number}", Behaviour(status=302, headers=target))
        urls.append(made.origin.url("ok.example", f"/r{number}"))
    made.frontier.intake.add([Candidate(url) for url in urls])


@pytest.mark.alone
def test_a_crawl_delay_slows_its_host_and_no_other(crew: Callable[..., Crew]) -> None:
    """Crawl-delay 3 on one of ten hosts at 0.5 s; when the site drops it, its pace comes back."""
    others = [f"h{number}.example" for number in range(9)]
    made = crew("slow.example", *others, interval="500ms")
    slow = Behaviour(body=b"User-agent: *\nCrawl-delay: 3\n")
    made.origin.set("slow.example", "/robots.txt", slow)
    made.start_all(workers=1)
    for host in ("slow.example", *others):
        made.add(host, 60)

    wait_until(
        lambda: len(made.origin.arrivals("slow.example")) >= 6, "five gaps at 3 s", timeout_s=30
    )
    before = made.origin.gaps("slow.example")
    assert min(before) >= 3.0 - TOLERANCE_S
    shares = [share(made.origin, host, 0.5) for host in others]
    assert sum(shares) / len(shares) >= 0.97

    made.origin.set("slow.example", "/robots.txt", Behaviour(body=b"User-agent: *\nDisallow:\n"))
    made.frontier.hosts.refresh_robots("slow.example")
    wait_until(
        lambda: len(made.origin.arrivals("slow.example")) >= len(before) + 12,
        "it goes at its own pace again",
        timeout_s=30,
    )
    after = made.origin.gaps("slow.example")[len(before) + 2 :]
    assert min(after) >= 0.5 - TOLERANCE_S
    assert max(after) < 1.0


def test_fifty_hosts_redirect_to_one(crew: Callable[..., Crew]) -> None:
    """Redirect targets pay at their own host: its crawl delay and its rules hold."""
    hosts = [f"h{number}.example" for number in range(50)]
    made = crew("b.example", *hosts, interval="1s", follow_hosts="true")
    made.origin.set(
        "b.example", "/robots.txt", Behaviour(body=b"User-agent: *\nCrawl-delay: 2\nDisallow: /9\n")
    )
    for number, host in enumerate(hosts):
        target = made.origin.url("b.example", f"/{number % 12}")
        made.origin.set(host, "*", Behaviour(status=302, headers=(("Location", target),)))
        made.add(host, 1)
    made.start_all(workers=1)

    totals = made.drained(timeout_s=90)

    paths = [arrival.path for arrival in made.origin.arrivals("b.example")]
    assert sorted(paths) == sorted(["/robots.txt", *(f"/{n}" for n in range(12) if n != 9)])
    assert min(made.origin.gaps("b.example")) >= 2.0 - TOLERANCE_S
    assert totals.outcomes["redirect"] == 50


def test_a_broken_host_gets_one_probe_per_cool_down(crew: Callable[..., Crew]) -> None:
    """Eight workers, a hundred URLs, a site that is broken: one probe, then a longer silence."""
    made = crew(
        "broken.example",
        interval="50ms",
        concurrency="8",
        burst="8",
        worker_threads="2",
        backoff_first="100ms",
        backoff_cap="100ms",
        breaker_failures="4",
        breaker_first="2s",
    )
    made.origin.set("broken.example", "*", Behaviour(status=500, delay_s=0.2))
    made.add("broken.example", 100)
    made.start_all(workers=8)
    wait_until(
        lambda: made.frontier.hosts.show(["broken.example"])[0].pace.opened >= 4,
        "three probes have failed",
        timeout_s=60,
    )

    pace_opened = made.frontier.hosts.show(["broken.example"])[0].pace.opened
    at = sorted(a.at_s for a in made.origin.arrivals("broken.example") if a.path != "/robots.txt")
    silences = [later - earlier for earlier, later in pairwise(at) if later - earlier >= 2.0]
    assert len(silences) == pace_opened - 1
    assert all(longer > 1.5 * shorter for shorter, longer in pairwise(silences))
    probes = at[-len(silences) :]
    assert all(later - earlier >= 2.0 for earlier, later in pairwise(probes))


def test_a_mended_host_is_crawled_again(crew: Callable[..., Crew]) -> None:
    """The first good probe closes the breaker, and the host goes on at its pace."""
    made = crew("a.example", interval="100ms", backoff_first="100ms", backoff_cap="200ms",
                breaker_failures="3", breaker_first="1s", max_tries="50")  # fmt: skip
    bad = [Behaviour(status=500)] * 5
    made.origin.set("a.example", "*", *bad, Behaviour())
    made.add("a.example", 20)
    made.start_all()

    wait_until(
        lambda: made.frontier.census.totals().done >= 15, "the host is crawled again", timeout_s=30
    )
    assert made.frontier.hosts.show(["a.example"])[0].pace.opened == 0


def test_a_host_that_refuses_us_is_left_alone(crew: Callable[..., Crew]) -> None:
    """403 as the first answer: not one request more until a person closes the case."""
    made = crew("no.example", "lone.example", interval="100ms")
    made.origin.set("no.example", "*", Behaviour(status=403))
    made.origin.set("lone.example", "/3", Behaviour(status=403))
    made.start_all()
    made.add("no.example", 20)
    made.add("lone.example", 20)

    wait_until(lambda: made.frontier.census.totals().done >= 19, "the other host is done", 30)

    shown = made.frontier.hosts.show(["no.example", "lone.example"])
    assert [view.refuses_us for view in shown] == [True, False]
    assert [a.path for a in made.origin.arrivals("no.example")] == ["/robots.txt", "/0"]
    totals = made.frontier.census.totals()
    assert (totals.refused, totals.waiting) == (2, 19)


def test_a_block_holds_from_the_moment_it_is_set(crew: Callable[..., Crew]) -> None:
    """After `block` returns, no request of that host starts, until its end."""
    made = crew("a.example", "b.example", interval="100ms")
    made.start_all()
    made.add("a.example", 100)
    made.add("b.example", 100)
    wait_until(lambda: made.frontier.census.totals().done >= 10, "the crawl is under way", 20)

    made.frontier.hosts.block("a.example", for_s=3.0)
    blocked_at_s = time.monotonic()
    wait_until(
        lambda: any(a.at_s > blocked_at_s + 1 for a in made.origin.arrivals("a.example")),
        "the host goes again",
        timeout_s=20,
    )

    at = sorted(a.at_s for a in made.origin.arrivals("a.example"))
    # One request may have passed the start gate before; it reaches the wire at once or never.
    assert not [moment for moment in at if 0.05 < moment - blocked_at_s < 3.0 - TOLERANCE_S]
    assert min(made.origin.gaps("b.example")) >= 0.1 - TOLERANCE_S
    assert max(made.origin.gaps("b.example")) < 1.0


def test_retry_after_holds_and_a_late_answer_does_not_shorten_it(
    crew: Callable[..., Crew],
) -> None:
    """Retry-After 4 while another request is under way: its good answer opens nothing."""
    made = crew("a.example", interval="100ms", concurrency="2", burst="2")
    made.origin.set("a.example", "/0", Behaviour(delay_s=1.0))
    made.origin.set(
        "a.example", "/1", Behaviour(status=429, headers=(("Retry-After", "4"),)), Behaviour()
    )
    made.add("a.example", 6)
    made.start_all()

    totals = made.drained(timeout_s=40)

    assert totals.done == 6
    refused_at_s = next(a.at_s for a in made.origin.arrivals("a.example") if a.status == 429)
    later = [a.at_s - refused_at_s for a in made.origin.arrivals("a.example")]
    assert not [s for s in later if 0.5 < s < 4.0]


def test_a_url_that_kills_its_worker_ends_by_itself(crew: Callable[..., Crew]) -> None:
    """A poisonous page is tried `max_tries` times and ends dead; those behind it are crawled."""
    made = crew("a.example", interval="100ms", max_tries="3", on_page="poison:on_page")
    (made.directory / "poison.py").write_text(
        "import os\nfrom throttle.crawl.page import Found\n\n\ndef on_page(page):\n"
        "    if page.url.endswith('/2'):\n        os._exit(1)\n    return Found()\n"
    )
    made.add("a.example", 6)
    made.start_all(workers=1)

    def supervised() -> bool:
        if made.processes["worker0"].poll() is not None:
            made.start("worker", "worker0")
        return bool(made.frontier.census.totals().dead)

    wait_until(supervised, "the poisonous page is dead", timeout_s=90, every_s=0.2)
    wait_until(
        lambda: supervised() and made.frontier.census.totals().done == 5,
        "the others are done",
        timeout_s=60,
        every_s=0.2,
    )
    assert sum(a.path == "/2" for a in made.origin.arrivals()) == 3
    assert made.frontier.census.count().missing == 0


def test_one_page_that_is_always_turned_away_starves_nobody(crew: Callable[..., Crew]) -> None:
    """A page that answers 429 for ever goes behind the others and comes to an end."""
    made = crew("a.example", interval="100ms", backoff_first="200ms", max_tries="3")
    made.origin.set("a.example", "/0", Behaviour(status=429))
    made.origin.set("a.example", "/1", Behaviour(status=429, headers=(("Retry-After", "1"),)))
    made.add("a.example", 12)
    made.start_all()

    wait_until(lambda: made.frontier.census.totals().done == 10, "the others are done", 30)
    made.add("a.example", 20, first=100)
    totals = made.drained(timeout_s=60)

    assert (totals.done, totals.dead) == (30, 2)


def test_a_turned_away_page_of_a_host_that_is_otherwise_done(crew: Callable[..., Crew]) -> None:
    """With nothing else to fetch, it is a host that is throttled: asked ever more rarely."""
    made = crew("a.example", interval="50ms", backoff_first="500ms")
    made.origin.set("a.example", "/0", Behaviour(status=503))
    made.add("a.example", 1)
    made.start_all()
    wait_until(lambda: len(made.origin.arrivals("a.example")) >= 5, "it was asked again", 20)

    gaps = made.origin.gaps("a.example")[1:]
    assert all(wide > 1.5 * narrow for narrow, wide in pairwise(gaps))
