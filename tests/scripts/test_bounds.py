"""add: how much of a host, of a page and of a site's depths is taken in, and what it answers."""

from collections.abc import Callable

from tests.scripts.frontier import Rig, pages
from throttle.model import Candidate, Verdict

ADDED, SEEN, FULL = Verdict.ADDED, Verdict.SEEN, Verdict.FULL


def link(url: str, depth: int = 1, hops: int = 0) -> Candidate:
    """A candidate that a page names."""
    return Candidate(url, depth, hops)


def away(rig: Rig) -> dict[str, int]:
    """How many candidates were turned away, by reason."""
    return rig.census.totals().turned_away


def test_pages_per_host_is_exact_over_batches_and_ends(rigs: Callable[..., Rig]) -> None:
    """A host gives as many pages as the bound in all; those that ended count, seen ones do not."""
    rig = rigs(max_pages_per_host=3)
    rig.seed("http://a.example/0")
    rig.fetch()

    answers = rig.answers([*pages("a.example", 5), *pages("b.example", 2)])

    assert [answer.verdict for answer in answers] == [SEEN, ADDED, ADDED, FULL, FULL, ADDED, ADDED]
    assert "max_pages_per_host" in answers[3].reason
    assert rig.number("a.example", "accepted") == 3
    assert away(rig) == {"host_pages": 2}
    assert rig.add(*pages("a.example", 4)) == [SEEN] * 3 + [FULL]
    assert rig.audited().accepted == 5


def test_links_deeper_than_the_bound_stay_outside(rigs: Callable[..., Rig]) -> None:
    """Links are followed as many steps from a seed as max_depth says; redirects are no steps."""
    rig = rigs(max_depth=2)
    answers = rig.intake.add([link("http://a.example/2", 2, hops=3), link("http://a.example/3", 3)])
    assert [answer.verdict for answer in answers] == [ADDED, Verdict.OUTSIDE]
    assert "max_depth" in answers[1].reason
    assert away(rig) == {"max_depth": 1}


def test_a_trap_is_refused_as_a_link_and_taken_as_a_seed(rig: Rig) -> None:
    """A person may mean a strange path; a page that links or redirects to one is a trap."""
    strange = "http://a.example/a/a/a/a"
    refused = rig.intake.add([link(strange), link(strange, 0, hops=1), link("http://a.example/a")])
    assert [answer.verdict for answer in refused] == [Verdict.TRAP, Verdict.TRAP, ADDED]
    assert refused[0].reason
    assert rig.add(strange) == [ADDED]
    assert away(rig) == {"trap": 2}


def test_a_page_brings_in_so_many_new_hosts_and_no_more(rig: Rig) -> None:
    """The first new hosts of a page are taken with all their links; known ones cost no room."""
    assert rig.add("http://known.example/") == [ADDED]
    named = [f"http://h{number}.example/{page}" for number in range(4) for page in range(2)]
    batch = [link(url) for url in (*named, "http://known.example/1")]

    answers = rig.intake.add(batch, max_new_hosts=3)

    assert [answer.verdict for answer in answers] == [ADDED] * 6 + [FULL] * 2 + [ADDED]
    assert "max_hosts_per_page" in answers[6].reason
    assert away(rig) == {"max_hosts_per_page": 2}
    assert not rig.hosts.exists("h3.example")


def test_the_ports_of_a_host_are_bounded(rig: Rig) -> None:
    """Sixteen origins of a host are taken: each has a robots.txt that costs a token."""
    urls = [f"http://a.example:{8000 + number}/" for number in range(18)]
    answers = rig.answers([*urls, f"{urls[0]}more", "https://a.example/", "http://b.example/"])
    verdicts = [answer.verdict for answer in answers]
    assert verdicts == [ADDED] * 16 + [FULL] * 2 + [ADDED, FULL, ADDED]
    assert "ports and schemes" in answers[16].reason
    assert away(rig) == {"origins": 3}
    rig.robots_ok(urls[0])
    assert rig.add(f"{urls[0]}x") == [ADDED]
    rig.audited()


def test_every_reason_is_counted(rigs: Callable[..., Rig]) -> None:
    """The totals tell how many candidates were turned away, and why; seen ones are not counted."""
    rig = rigs(max_pages=3, host_depth=2)
    rig.book.store("http://b.example", "ok", 60.0, version="1", body=b"User-agent: *\nDisallow: /")
    rig.add("no url", "http://b.example/")
    rig.add(*pages("a.example", 3))
    rig.intake.add([Candidate("http://new.example/", only_known_hosts=True)])
    rig.add(*pages("c.example", 1))
    rig.add("http://a.example/0", "http://d.example/")
    assert away(rig) == {
        "disallowed": 1,
        "host_depth": 1,
        "invalid": 1,
        "max_pages": 1,
        "outside": 1,
    }
