"""A host that cannot be reached says why, and a setting that was wrong burns no URL for good."""

from collections.abc import Callable

from tests.crew import Crew
from tests.servers import wait_until
from throttle.frontier.cases import ADDRESS
from throttle.local.origin import Behaviour
from throttle.model import Candidate
from throttle.ops.waiting import waits_for

HOST = "a.example"
REMEDY = "if it is your own, set THROTTLE_ALLOW_NETS=127.0.0.0/8"


def test_a_refused_address_is_told_with_its_remedy_and_its_urls_come_back(
    crew: Callable[..., Crew],
) -> None:
    """A case, a line in the worker's log and show-host name the setting; then all come back."""
    made = crew(HOST, interval="20ms", allow_nets="")
    made.start_all()
    made.add(HOST, 2)
    totals = made.drained(timeout_s=30)
    assert (totals.refused, totals.done) == (2, 0)
    assert not made.origin.arrivals()
    (case,) = made.frontier.cases.open(HOST)
    assert case.kind == ADDRESS
    assert case.reason == (
        f"address refused: '{HOST}' is 127.0.0.1, loopback; {REMEDY}; then: throttlectl refused"
        f" retry {HOST}"
    )
    assert made.frontier.cases.count_by_kind() == {ADDRESS: 1}
    assert made.log("worker0").count(REMEDY) == 1
    (view,) = made.frontier.hosts.show([HOST])
    assert view.robots_fault == f"address refused: '{HOST}' is 127.0.0.1, loopback; {REMEDY}"
    # While its address is refused, nobody knows what its robots.txt forbids: a URL still waits.
    assert [answer.verdict for answer in made.add(HOST, 1, first=2)] == ["added"]
    assert made.drained(timeout_s=30).refused == 3

    made.kill("worker0")
    made.start("worker", "worker1", allow_nets="127.0.0.0/8")
    assert made.frontier.ends.retry("refused", [HOST]) == 3
    totals = made.drained(timeout_s=40)
    assert (totals.refused, totals.done) == (0, 3)
    assert made.frontier.hosts.show([HOST])[0].robots_fault == ""
    assert made.frontier.census.count().faults == ()


def test_a_robots_txt_that_cannot_be_had_says_why(crew: Callable[..., Crew]) -> None:
    """Nobody listens, no such name, an error: the reason stands with the host until it is over."""
    made = crew(HOST, "b.example", interval="20ms")
    made.origin.set("b.example", "/robots.txt", Behaviour(status=500))
    made.start_all()
    wanted = {
        HOST: (f"http://{HOST}:1/", "connection refused"),
        "b.example": (made.origin.url("b.example"), "HTTP 500"),
        "none.invalid": ("http://none.invalid/", "name does not resolve"),
    }
    made.frontier.intake.add([Candidate(url) for url, _ in wanted.values()])
    for host, (_, reason) in wanted.items():
        wait_until(
            lambda host=host: made.frontier.hosts.show([host])[0].robots_fault,
            "the reason is there",
            timeout_s=30,
        )
        (view,) = made.frontier.hosts.show([host])
        assert view.robots_fault == reason
        assert f"cannot be had: {reason} (asked" in waits_for(view, made.frontier.census.ages())
