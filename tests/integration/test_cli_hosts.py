"""The commands for hosts: what they change, show, list and refuse."""

import pytest
import redis

from tests.integration.ctl import Ctl, ctl_json, json_lines
from throttle.frontier.bundle import Frontier


def test_adding_a_host_again_changes_it(throttlectl: Ctl) -> None:
    """A script may run add-host as often as it likes; the last one holds."""
    assert throttlectl("add-host", "A.Example:8080", "--interval", "30/m").stdout == (
        "added a.example: a request every 2s (operator), burst 1, concurrency 1\n"
    )
    assert throttlectl("add-host", "https://a.example/x", "--burst", "5").stdout == (
        "changed a.example: a request every 2s (operator), burst 5, concurrency 1\n"
    )
    throttlectl("set-host", "a.example", "--interval", "500ms", "--concurrency", "3")
    shown = ctl_json(throttlectl, "show-host", "a.example")
    assert (shown["interval"], shown["interval_source"]) == (0.5, "operator")
    assert (shown["burst"], shown["concurrency"]) == (5, 3)


def test_show_host_tells_what_is_known(throttlectl: Ctl, frontier: Frontier) -> None:
    """Every field that the manual names is there, and why the host waits."""
    throttlectl("add-url", "http://a.example/1", "http://a.example/2")
    shown = ctl_json(throttlectl, "show-host", "a.example")
    promised = {"host", "interval", "interval_source", "burst", "concurrency", "tokens", "depth"}
    assert promised | {"in_flight", "next_at", "waits_for", "robots"} <= set(shown)
    assert (shown["host"], shown["depth"], shown["in_flight"]) == ("a.example", 2, 0)
    assert (shown["interval"], shown["interval_source"]) == (2.0, "default")
    assert shown["next_at"] is None
    assert shown["waits_for"].startswith("beat, which issues the tokens")
    frontier.book.store("http://a.example", "unreachable", 600, failures=1, version="0")
    for role in ("issuer", "dispatcher"):
        frontier.census.pulse(role)
    text = throttlectl("show-host", "a.example").stdout
    assert "http://a.example/robots.txt, which cannot be had (asked for again in" in text
    record = ctl_json(throttlectl, "show-host", "a.example")["robots"]["http://a.example"]
    assert (record["state"], record["failures"]) == ("unreachable", 1)


def test_a_host_that_is_not_known_is_said_so(throttlectl: Ctl, frontier: Frontier) -> None:
    """A typing error in a name changes nothing and names the way out."""
    for command in (["set-host", "--burst", "2"], ["show-host"], ["pause"], ["resume"]):
        error = throttlectl(command[0], "b.example", *command[1:], ends=1).stderr
        assert error.startswith("throttlectl: b.example is not known; throttlectl add-host")
        assert len(error.splitlines()) == 1
    throttlectl("remove-host", "b.example", "--yes", ends=1)
    assert not list(frontier.hosts.keys())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--burst", "0"), "burst must be at least 1, got 0; to stop a host, pause it"),
        (("--burst", "-1"), "burst must be at least 1, got -1"),
        (("--concurrency", "0"), "concurrency must be at least 1, got 0"),
        (("--interval", "0"), "the interval must be above 0"),
        (("--burst", "10001"), "10001"),
        (("--burst", "1.5"), "1.5"),
        (("--interval", "soon"), "not a duration: 'soon'"),
        (("--interval", "-2s"), "-2s"),
        (("--interval", "nan"), "not a duration"),
        (("--interval", "999999d"), "at most 366 days"),
    ],
)
def test_a_pace_that_cannot_be_is_refused_in_words(
    throttlectl: Ctl, frontier: Frontier, arguments: tuple[str, ...], words: str
) -> None:
    """A burst of 0 would swallow every token without a word (D11): it never gets that far."""
    assert words in throttlectl("add-host", "a.example", *arguments, ends=2).stderr
    assert not frontier.hosts.exists("a.example")


def test_setting_nothing_is_a_usage_error(throttlectl: Ctl) -> None:
    """set-host without an option says which there are."""
    assert (
        "--interval, --burst or --concurrency"
        in throttlectl("set-host", "a.example", ends=2).stderr
    )


def test_listing_matches_here_and_not_in_redis(throttlectl: Ctl, redis_url: str) -> None:
    """A pattern finds hosts of all partitions; other keys of Redis are none of its business."""
    for name in ("b.example", "a.example", "a.test", "x.example"):
        throttlectl("add-host", name)
    with redis.Redis.from_url(redis_url) as client:
        client.set("throttle:{0}:host:ghost.example", "not a host")
    found = {
        line["host"] for line in json_lines(throttlectl("list-hosts", "*.EXAMPLE", "--json").stdout)
    }
    assert found == {"a.example", "b.example", "x.example"}
    rows = throttlectl("list-hosts").stdout.splitlines()
    assert [row.split()[0] for row in rows] == [
        "host",
        "a.example",
        "a.test",
        "b.example",
        "x.example",
    ]
    none = throttlectl("list-hosts", "nothing*")
    assert (none.stdout, none.stderr) == ("", "no host matches\n")


def test_a_paused_host_says_so_until_it_is_resumed(throttlectl: Ctl) -> None:
    """Pausing is seen at once, and undone by one command."""
    throttlectl("add-host", "a.example")
    throttlectl("pause", "a.example")
    shown = ctl_json(throttlectl, "show-host", "a.example")
    assert shown["paused"] is True
    assert shown["waits_for"] == "the operator, who paused it (throttlectl resume)"
    throttlectl("resume", "a.example")
    assert ctl_json(throttlectl, "show-host", "a.example")["paused"] is False


def test_removing_a_host_asks_first(throttlectl: Ctl, frontier: Frontier) -> None:
    """Without a person to ask, only --yes drops URLs."""
    throttlectl("add-url", "http://a.example/1", "http://a.example/2")
    assert "give --yes" in throttlectl("remove-host", "a.example", ends=2).stderr
    assert frontier.census.totals().waiting == 2
    done = throttlectl("remove-host", "a.example", "--yes")
    assert done.stdout == "removed a.example; 2 URLs dropped\n"
    assert frontier.census.totals().accepted == 0
    assert not frontier.hosts.exists("a.example")


def test_a_host_with_fetches_under_way_is_not_removed(throttlectl: Ctl, redis_url: str) -> None:
    """What is under way is waited for; after the time given the host stays, paused."""
    throttlectl("add-url", "http://a.example/1")
    (name,) = _host_records(redis_url, "a.example")
    with redis.Redis.from_url(redis_url) as client:
        client.hset(name, "in_flight", 1)
    error = throttlectl("remove-host", "a.example", "--yes", "--timeout", "300ms", ends=1).stderr
    assert "has 1 open fetch after 300ms; it stays paused" in error
    assert ctl_json(throttlectl, "show-host", "a.example")["paused"] is True


def _host_records(redis_url: str, host: str) -> list[bytes]:
    with redis.Redis.from_url(redis_url) as client:
        return [name for name in client.scan_iter() if name.endswith(f":host:{host}".encode())]
