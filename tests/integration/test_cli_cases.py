"""The commands for cases: what a refusal stops, who may end it, and what is kept of that."""

import getpass
from datetime import UTC, datetime, timedelta

from tests.integration.ctl import Ctl, ctl_json, json_lines
from tests.scripts.frontier import Rig, a_case
from throttle.model import End
from throttle.ops.health import State, examine
from throttle.settings import Settings

WHY = ("--why", "agreed with the operator of the site")


def _refused(rig: Rig, host: str = "a.example") -> None:
    """The first answer of `host` to a page is a refusal of us; one more URL waits."""
    rig.seed(f"http://{host}/1", f"http://{host}/2")
    started = rig.go(rig.claim_one())
    change = rig.change(host, refused_us=True, opened=0, case=a_case(host=host, reason="HTTP 403"))
    assert rig.answer(started, End.REFUSED, change=change).closed


def _capped(rig: Rig, host: str = "a.example") -> None:
    case = a_case("crawl_delay_capped", host, "robots.txt asks for 2d; applied is the cap, 1d")
    rig.book.store(f"http://{host}", "ok", 3600, crawl_delay_s=172_800, version="2", case=case)


def test_a_refusal_is_seen_everywhere(
    rig_ctl: Ctl, rig: Rig, redis_url: str, broker_url: str
) -> None:
    """cases, show-host, status and doctor all name the open case of a host that refuses us."""
    _refused(rig)
    (listed,) = json_lines(rig_ctl("cases", "list", "--json").stdout)
    assert (listed["host"], listed["kind"], listed["reason"]) == (
        "a.example",
        "refused",
        "HTTP 403",
    )
    assert "a.example" in rig_ctl("cases", "list").stdout
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert shown["refuses_us"] is True
    assert shown["next_at"] is None
    assert [case["kind"] for case in shown["cases"]] == ["refused"]
    assert shown["waits_for"].startswith("a person, since it refuses us (throttlectl cases show")
    assert "HTTP 403" in rig_ctl("show-host", "a.example").stdout
    assert ctl_json(rig_ctl, "status")["open_cases"] == 1
    assert "1 refused (throttlectl cases list)" in rig_ctl("status").stdout
    settings = Settings(redis_url=redis_url, broker_url=broker_url, namespace="test", partitions=1)
    (check,) = [check for check in examine(settings) if check.name == "cases"]
    assert (check.state, check.found) == (State.WARN, "open: 1 refused")
    assert "throttlectl cases list" in check.remedy


def test_who_when_and_why_are_kept(rig_ctl: Ctl, rig: Rig) -> None:
    """Closing with --resume lets the host go with a clean pace; the past can be read later."""
    _refused(rig)
    done = rig_ctl("cases", "close", "a.example", *WHY, "--who", "ada", "--resume")
    assert done.stdout == "closed refused of a.example; it goes on with a clean pace\n"
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["refuses_us"], shown["cases"], shown["refusals_in_a_row"]) == (False, [], 0)
    (closed,) = json_lines(rig_ctl("cases", "list", "--closed", "--json").stdout)
    assert (closed["closed_by"], closed["why"], closed["resumed"]) == ("ada", WHY[1], True)
    age = datetime.now(UTC) - datetime.fromisoformat(closed["closed_at"])
    assert timedelta(0) <= age < timedelta(minutes=1)
    told = ctl_json(rig_ctl, "cases", "show", "a.example")
    assert (told["open"], [one["kind"] for one in told["closed"]]) == ([], ["refused"])
    assert "ada" in rig_ctl("cases", "show", "a.example", "refused").stdout
    assert rig_ctl("cases", "list").stderr == "no open cases\n"
    again = rig_ctl("cases", "close", "a.example", *WHY, ends=1)
    assert again.stderr.startswith("throttlectl: a.example has no open case; throttlectl cases")


def test_a_refusal_that_is_accepted_keeps_the_host_stopped(rig_ctl: Ctl, rig: Rig) -> None:
    """Closed without --resume nothing more is fetched; a later --resume still lets it go."""
    _refused(rig)
    done = rig_ctl("cases", "close", "a.example", "refused", *WHY)
    assert "it stays stopped: throttlectl cases close a.example --resume" in done.stdout
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["refuses_us"], shown["cases"]) == (True, [])
    assert "it refused us" in rig_ctl("resume", "a.example", "--unblock").stdout
    assert ctl_json(rig_ctl, "show-host", "a.example")["refuses_us"] is True
    told = ctl_json(rig_ctl, "cases", "close", "a.example", *WHY, "--resume")
    assert [one["closed_by"] for one in told["closed"]] == [getpass.getuser()]
    assert ctl_json(rig_ctl, "show-host", "a.example")["refuses_us"] is False
    assert len(json_lines(rig_ctl("cases", "list", "--closed", "--json").stdout)) == 2


def test_only_a_refusal_can_be_resumed(rig_ctl: Ctl, rig: Rig) -> None:
    """A case about a cap stops nobody, and closing it leaves a refusal beside it as it is."""
    _refused(rig)
    _capped(rig)
    wrong = rig_ctl("cases", "close", "a.example", "crawl_delay_capped", *WHY, "--resume", ends=2)
    assert "stops no host; close it without --resume" in wrong.stderr
    rig_ctl("cases", "close", "a.example", "crawl_delay_capped", *WHY)
    shown = ctl_json(rig_ctl, "show-host", "a.example")
    assert (shown["refuses_us"], [case["kind"] for case in shown["cases"]]) == (True, ["refused"])
    _capped(rig, "b.example")
    error = rig_ctl("cases", "close", "b.example", *WHY, "--resume", ends=1).stderr
    assert "b.example is not stopped by a refusal" in error
    assert rig_ctl("cases", "close", "b.example", *WHY).stdout == (
        "closed crawl_delay_capped of b.example\n"
    )


def test_closing_needs_a_reason_and_a_case(rig_ctl: Ctl, rig: Rig) -> None:
    """A typing error closes nothing, and says what there is."""
    _refused(rig)
    assert "--why" in rig_ctl("cases", "close", "a.example", ends=2).stderr
    assert "--why takes" in rig_ctl("cases", "close", "a.example", "--why", " ", ends=2).stderr
    error = rig_ctl("cases", "close", "a.example", "refusd", *WHY, ends=1).stderr
    assert "a.example has no open case of kind refusd; throttlectl cases show" in error
    assert "no such case" in rig_ctl("cases", "show", "b.example", ends=1).stderr
    assert ctl_json(rig_ctl, "status")["open_cases"] == 1


def test_a_case_of_a_host_that_is_gone_can_be_closed(rig_ctl: Ctl, rig: Rig) -> None:
    """Closing makes no record of a host that was removed meanwhile."""
    _refused(rig)
    assert rig.hosts.remove("a.example")[0] == "removed"
    rig_ctl("cases", "close", "a.example", *WHY, "--resume")
    assert rig.record("a.example") == {}
    assert rig.cases.count_by_kind() == {}


def test_what_a_site_or_a_person_wrote_obeys_no_terminal(rig_ctl: Ctl, rig: Rig) -> None:
    """Escape codes in a reason are shown as text, in the table and in JSON."""
    _capped(rig)
    rig_ctl("cases", "close", "a.example", "--why", "a\x1b[31mb\nc", "--who", "x\x07")
    for arguments in (["list", "--closed"], ["show", "a.example"], ["list", "--closed", "--json"]):
        out = rig_ctl("cases", *arguments).stdout
        assert "\x1b" not in out
        assert "\x07" not in out
