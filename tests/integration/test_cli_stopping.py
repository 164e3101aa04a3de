"""The commands that stop a host and let it go: from their return on, what they say holds."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.integration.ctl import Ctl, ctl_json
from tests.scripts.frontier import Rig
from throttle.frontier.startgate import PaceChange, Reply
from throttle.model import BlockedBy, End, Says
from throttle.pace import Limits, Pace, Seen, observe


def test_a_block_holds_from_the_return_on(rig_ctl: Ctl, rig: Rig) -> None:
    """What was claimed before and not yet started is given back at the gate."""
    rig.seed("http://a.example/1")
    grant = rig.claim_one()
    done = rig_ctl("block", "a.example", "--for", "1h")
    assert done.stdout.startswith("blocked a.example until 20")
    assert done.stdout.endswith(" (1h)\n")
    assert rig.start(grant)[0] is Reply.EARLY
    assert rig.claim() == []
    for role in ("issuer", "dispatcher"):
        rig.census.pulse(role)
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert shown["blocked_by"] == "operator"
    assert "the end of the operator's block (over in " in shown["waits_for"]
    assert "operator" in rig_ctl("show-host", "a.example").stdout


def test_a_block_is_only_extended_until_it_is_taken_away(rig_ctl: Ctl, rig: Rig) -> None:
    """A shorter one says that the longer one stays; --unblock ends it at once."""
    rig.seed("http://a.example/1")
    until = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    told = ctl_json(rig_ctl, "block", "a.example", "--until", until.isoformat())
    assert told["blocked_until"] == until.isoformat()
    shorter = rig_ctl("block", "a.example", "--for", "1h").stdout
    assert "it was blocked for longer already" in shorter
    assert "it is blocked still: --unblock ends that" in rig_ctl("resume", "a.example").stdout
    assert rig.claim() == []
    assert rig_ctl("resume", "a.example", "--unblock").stdout == "resumed a.example\n"
    assert ctl_json(rig_ctl, "show-host", "a.example")["blocked_until"] is None
    assert len(rig.claim()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give one of --for"),
        (("--for", "1h", "--until", "2030-01-01"), "give one of --for"),
        (("--for", "0s"), "over already"),
        (("--until", "2020-01-01T00:00:00Z"), "over already; it is 20"),
        (("--until", "9999-12-31T23:59:59Z"), "at most 366 days"),
        (("--until", "tomorrow"), "not a time: 'tomorrow'; write 2030-01-31T18:00:00Z"),
        (("--for", "400d"), "at most 366 days"),
    ],
)
def test_a_block_that_cannot_be_is_refused_in_words(
    rig_ctl: Ctl, rig: Rig, arguments: tuple[str, ...], words: str
) -> None:
    """The host goes on as before."""
    rig.seed("http://a.example/1")
    assert words in rig_ctl("block", "a.example", *arguments, ends=2).stderr
    assert len(rig.claim()) == 1


def test_resume_takes_back_off_and_breaker_away(rig_ctl: Ctl, rig: Rig) -> None:
    """A person who knows better than the clocks says so; the pace starts clean."""
    rig.seed("http://a.example/1", "http://a.example/2")
    started = rig.go(rig.claim_one())
    change = rig.change("a.example", opened=1, breaker_s=600, block_s=300)
    assert rig.answer(started, change=change).closed
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["breaker"]["state"], shown["breaker"]["opened"]) == ("open", 1)
    assert (shown["blocked_by"], shown["concurrency"]) == ("back-off", 1)
    rig_ctl("resume", "a.example", "--unblock")
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["breaker"]["state"], shown["blocked_until"]) == ("closed", None)
    assert shown["back_off"] == {"level": 0, "last_step": None, "forgiven_at": None}


def test_robots_txt_is_asked_for_again(rig_ctl: Ctl, rig: Rig) -> None:
    """The next thing fetched of the host is its robots.txt."""
    rig.seed("http://a.example/1")
    done = rig_ctl("refresh-robots", "a.example").stdout
    assert done == "1 robots.txt of a.example will be asked for again before its next page\n"
    assert rig.claim_one().url == "http://a.example/robots.txt"
    rig_ctl("add-host", "b.example")
    assert ctl_json(rig_ctl, "refresh-robots", "b.example")["origins"] == 0


def test_each_layer_is_shown_with_its_source(rig_ctl: Ctl, rig: Rig) -> None:
    """Default, operator and robots.txt: what each asks, what is applied, and which one rules."""
    rig_ctl("add-url", "http://a.example/1")
    rig_ctl("set-host", "a.example", "--interval", "500ms")
    rig.book.store("http://a.example", "ok", 3600, crawl_delay_s=172_800, version="1")
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["interval"], shown["interval_source"]) == (86_400, "robots.txt")
    assert shown["layers"] == {
        "default": 2.0,
        "operator": 0.5,
        "robots_asked": 172_800,
        "robots_applied": 86_400,
        "robots_capped": True,
    }
    text = rig_ctl("show-host", "a.example").stdout
    assert "2d asked, 1d applied (capped)" in text
    rig.book.store("http://a.example", "ok", 3600, version="2")
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["interval"], shown["layers"]["robots_asked"]) == (0.5, None)
    rig_ctl("set-host", "a.example", "--interval", "default")
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["interval"], shown["interval_source"]) == (2.0, "default")


def test_burst_and_concurrency_go_back_to_the_default(rig_ctl: Ctl, rig: Rig) -> None:
    """One may be set while another goes back."""
    rig_ctl("add-host", "a.example", "--burst", "5", "--concurrency", "3")
    told = ctl_json(rig_ctl, "set-host", "a.example", "--burst", "default", "--interval", "1s")
    assert (told["burst"], told["concurrency"], told["interval"]) == (1, 3, 1.0)
    told = ctl_json(rig_ctl, "set-host", "a.example", "--concurrency", "default")
    assert (told["concurrency"], told["interval_source"]) == (1, "operator")
    assert "defaults" in rig_ctl("set-host", "a.example", "--burst", "defaults", ends=2).stderr


def test_the_back_off_is_shown_with_its_steps(rig_ctl: Ctl, rig: Rig) -> None:
    """Level, last step and when it is forgiven, as the answers left them."""
    rig.seed("http://a.example/1")
    started = rig.go(rig.claim_one())
    seen = Seen(Says.THROTTLED, started.now_s, started.now_s + 1)
    change = PaceChange(started.pace, observe(Pace(), seen, Limits(), 0.0))
    assert rig.answer(started, End.BACK, change=change).closed
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert shown["back_off"]["level"] == 1
    assert shown["blocked_by"] == BlockedBy.BACK_OFF
    last, forgiven = (
        datetime.fromisoformat(shown["back_off"][name]) for name in ("last_step", "forgiven_at")
    )
    assert (forgiven - last).total_seconds() == pytest.approx(10 + 1800)
    assert "step 1, taken" in rig_ctl("show-host", "a.example").stdout
