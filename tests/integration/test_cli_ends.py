"""The commands for ended URLs: each is listed with its reason, and the dead ones come back."""

import pytest

from tests.integration.ctl import Ctl, ctl_json, json_lines
from tests.scripts.frontier import Rig, pages
from throttle.model import End


def _end(rig: Rig, end: End, host: str, count: int) -> None:
    """`count` pages of `host` come to that end."""
    urls = pages(host, count)
    rig.robots_ok(*urls)
    rig.add(*urls)
    for _ in urls:
        rig.issue(host)
        rig.open_clock(host)
        rig.fetch(end)


def test_dead_urls_are_listed_and_wait_again(rig_ctl: Ctl, rig: Rig) -> None:
    """Of one host or of all, at most so many: none is lost on the way, the oldest come first."""
    _end(rig, End.DEAD, "a.example", 3)
    _end(rig, End.DEAD, "b.example", 2)
    listed = json_lines(rig_ctl("dead", "list", "--json").stdout)
    assert {(one["host"], one["url"]) for one in listed} == {
        *(("a.example", url) for url in pages("a.example", 3)),
        *(("b.example", url) for url in pages("b.example", 2)),
    }
    assert {(one["reason"], one["tries"], one["depth"]) for one in listed} == {("a reason", 0, 0)}
    assert "a reason" in rig_ctl("dead", "list", "b.example").stdout
    assert rig_ctl("dead", "retry", "a.example", "--most", "2").stdout == (
        "2 dead URLs wait again\n"
    )
    assert rig.waiting("http://a.example") == pages("a.example", 2)
    assert ctl_json(rig_ctl, "dead", "retry", "--all") == {"host": None, "retried": 3}
    totals = rig.audited()
    assert (totals.dead, totals.waiting) == (0, 5)
    none = rig_ctl("dead", "list")
    assert (none.stdout, none.stderr) == ("", "no dead URLs\n")
    assert rig_ctl("dead", "retry", "--all").stdout == "no dead URLs\n"


def test_more_dead_urls_than_one_step_takes_all_come_back(rig_ctl: Ctl, rig: Rig) -> None:
    """A long list is read and emptied in pieces."""
    _end(rig, End.DEAD, "a.example", 1)
    name = rig.key("dead:a.example")
    rig.client.rpush(name, *(f"r\n5 0 0 http://a.example/x{n}" for n in range(1200)))
    lines = json_lines(rig_ctl("dead", "list", "a.example", "--json").stdout)
    assert [line["url"] for line in lines][-1] == "http://a.example/x1199"
    assert len(lines) == 1201
    table = rig_ctl("dead", "list")
    assert len(table.stdout.splitlines()) == 1001
    assert table.stderr == "there are more than 1,000; --json lists all\n"
    assert ctl_json(rig_ctl, "dead", "retry", "a.example")["retried"] == 1201
    assert rig.client.llen(name) == 0
    assert rig.number("a.example", "waiting") == 1201


@pytest.mark.parametrize("arguments", [(), ("a.example", "--all"), ("--all", "--most", "0")])
def test_a_retry_says_of_what(rig_ctl: Ctl, rig: Rig, arguments: tuple[str, ...]) -> None:
    """Nothing is retried by leaving out a word."""
    _end(rig, End.DEAD, "a.example", 1)
    rig_ctl("dead", "retry", *arguments, ends=2)
    assert rig.audited().dead == 1


def test_refused_urls_are_listed_with_their_reason(rig_ctl: Ctl, rig: Rig) -> None:
    """A refusal of one page is visible, and is not among the dead."""
    _end(rig, End.REFUSED, "a.example", 2)
    listed = json_lines(rig_ctl("refused", "list", "a.example", "--json").stdout)
    assert [(one["url"], one["reason"]) for one in listed] == [
        (url, "a reason") for url in pages("a.example", 2)
    ]
    assert rig_ctl("dead", "list").stderr == "no dead URLs\n"
    error = rig_ctl("refused", "list", "b.example", ends=1).stderr
    assert "b.example is not known" in error


def test_refused_urls_wait_again(rig_ctl: Ctl, rig: Rig) -> None:
    """After a setting was mended they come back, their robots.txt asked for first."""
    _end(rig, End.REFUSED, "a.example", 2)
    rig.book.store_undialled("http://a.example", 300, "7", "address refused")
    rig_ctl("refused", "retry", ends=2)
    assert rig_ctl("refused", "retry", "a.example", "--most", "1").stdout == (
        "1 refused URL waits again\n"
    )
    assert ctl_json(rig_ctl, "refused", "retry", "--all") == {"host": None, "retried": 1}
    assert rig_ctl("refused", "retry", "--all").stdout == "no refused URLs\n"
    totals = rig.audited()
    assert (totals.refused, totals.waiting) == (0, 2)
    rig.issue("a.example")
    rig.open_clock("a.example")
    assert rig.claim_one().url == "http://a.example/robots.txt"
