"""throttlectl reset and drain: what a generation came to is kept, and the next starts clean."""

from tests.integration.ctl import Ctl, ctl_json
from throttle.frontier.bundle import Frontier
from throttle.model import Candidate


def test_reset_asks_for_a_yes_and_says_what_it_would_drop(
    throttlectl: Ctl, frontier: Frontier
) -> None:
    """Nothing is lost by a command that was typed too soon."""
    frontier.intake.add([Candidate("http://a.example/1"), Candidate("http://a.example/2")])
    refused = throttlectl("reset", ends=2)
    assert "2 waiting URLs" in refused.stderr
    assert "--yes" in refused.stderr
    assert frontier.census.count().accepted == 2


def test_reset_starts_clean_and_status_shows_what_was(throttlectl: Ctl, frontier: Frontier) -> None:
    """The generation that ended is listed with its counts and its time."""
    throttlectl("add-host", "a.example", "--interval", "7s")
    frontier.intake.add([Candidate("http://a.example/1"), Candidate("http://a.example/2")])
    said = throttlectl("reset", "--keep-policies", "--yes").stdout
    assert "generation 1 ended with 2 accepted" in said
    status = ctl_json(throttlectl, "status")
    assert (status["generation"], status["accepted"], status["waiting"]) == (2, 0, 0)
    (ended,) = status["generations"]
    assert (ended["number"], ended["totals"]["waiting"]) == (1, 2)
    assert ended["ended_at"].endswith("+00:00")
    assert ctl_json(throttlectl, "show-host", "a.example")["interval"] == 7
    assert ctl_json(throttlectl, "reset", "--yes")["generation"] == 3
    assert ctl_json(throttlectl, "show-host", "a.example")["interval"] == 2


def test_a_drained_generation_is_recorded(throttlectl: Ctl) -> None:
    """The final depths of a drained crawl stay in status until the next drain."""
    throttlectl("drain", "--timeout", "10s")
    (kept,) = ctl_json(throttlectl, "status")["generations"]
    assert kept["number"] == 1
    assert kept["totals"]["waiting"] == kept["totals"]["in_flight"] == 0


def test_status_counts_what_was_turned_away_by_reason(throttlectl: Ctl, frontier: Frontier) -> None:
    """A person sees which bound keeps URLs out."""
    throttlectl(
        "add-url", "http://a.example/1", "http://a.example/2", THROTTLE_MAX_PAGES_PER_HOST="1"
    )
    assert frontier.census.totals().turned_away == {"host_pages": 1}
    assert ctl_json(throttlectl, "status")["turned_away"] == {"host_pages": 1}
    assert "turned away: host_pages" in throttlectl("status").stdout


def test_another_kind_of_seen_set_is_refused_with_the_remedy(throttlectl: Ctl) -> None:
    """A crawl begun with an exact set is not gone on with by a Bloom filter by mistake."""
    throttlectl("add-url", "http://a.example/1")
    refused = throttlectl("add-url", "http://a.example/2", THROTTLE_SEEN="bloom", ends=1)
    assert "THROTTLE_SEEN" in refused.stderr
    assert "throttlectl reset" in refused.stderr
