"""What an answer means for its URL and its host."""

from datetime import UTC, datetime

import pytest

from throttle.model import End, Observation, Outcome, Says
from throttle.outcome import ADDRESS_REFUSED, DISALLOWED, TOO_LARGE, judge

NOW = datetime(2026, 11, 6, 8, 47, 37, tzinfo=UTC)


def seen(observation: Observation, max_tries: int = 5) -> Outcome:
    """The outcome of `observation` now."""
    return judge(observation, max_tries=max_tries, now=NOW)


@pytest.mark.parametrize(
    ("status", "end", "name"),
    [
        (200, End.DONE, "done"),
        (204, End.DONE, "done"),
        (301, End.DONE, "redirect"),
        (304, End.DONE, "not modified"),
        (308, End.DONE, "redirect"),
        (400, End.DONE, "client error"),
        (401, End.REFUSED, "refused"),
        (403, End.REFUSED, "refused"),
        (404, End.DONE, "gone"),
        (405, End.DONE, "client error"),
        (408, End.AGAIN, "transient"),
        (410, End.DONE, "gone"),
        (418, End.DONE, "client error"),
        (425, End.AGAIN, "transient"),
        (429, End.BACK, "throttled"),
        (451, End.REFUSED, "refused"),
        (500, End.AGAIN, "transient"),
        (503, End.BACK, "throttled"),
        (599, End.AGAIN, "transient"),
        (100, End.AGAIN, "transient"),
        (999, End.AGAIN, "transient"),
    ],
)
def test_each_status_has_one_meaning(status: int, end: End, name: str) -> None:
    """Finished, refused, or tried again: a status decides, and every status is decided."""
    outcome = seen(Observation(status=status, location="http://b.example/"))
    assert (outcome.end, outcome.name) == (end, name)


def test_a_redirect_to_nowhere_says_so() -> None:
    """A redirect without a target ends the URL, with the reason."""
    assert seen(Observation(status=302)) == Outcome(
        End.DONE, "redirect", "no Location", says=Says.GOOD
    )


@pytest.mark.parametrize(
    ("lines", "asked_s"),
    [
        (("120",), 120.0),
        (("999999",), 999_999.0),
        (("Fri, 06 Nov 2026 08:49:37 GMT",), 120.0),
        (("junk", "60", "120"), 120.0),
        ((), None),
        (("0",), None),
        (("-1",), None),
        (("Fri, 06 Nov 2026 07:47:37 GMT",), None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_throttled_answer_says_what_the_host_asked_for(
    status: int, lines: tuple[str, ...], asked_s: float | None
) -> None:
    """A usable Retry-After is handed on as it is, the longest of several lines; any other counts
    as none, so that the host's own back-off grows."""
    for tries in (0, 3):
        outcome = seen(Observation(status=status, retry_after=lines, tries=tries))
        assert (outcome.says, outcome.retry_after_s) == (Says.THROTTLED, asked_s)
        assert (outcome.end, outcome.delay_s) == (End.BACK, 0.0)


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        (Observation(status=200), Says.GOOD),
        (Observation(status=301, location="/x"), Says.GOOD),
        (Observation(status=304), Says.GOOD),
        (Observation(status=404), Says.GOOD),
        (Observation(status=418), Says.GOOD),
        (Observation(status=401), Says.REFUSED),
        (Observation(status=403), Says.REFUSED),
        (Observation(status=451), Says.REFUSED),
        (Observation(status=429), Says.THROTTLED),
        (Observation(status=503), Says.THROTTLED),
        (Observation(status=500), Says.FAILED),
        (Observation(status=408), Says.FAILED),
        (Observation(status=100), Says.FAILED),
        (Observation(error="connection reset"), Says.FAILED),
        (Observation(status=500, tries=99), Says.FAILED),
        (Observation(error=f"{ADDRESS_REFUSED}: x"), None),
        (Observation(error=f"{TOO_LARGE}: x"), None),
        (Observation(error=f"{DISALLOWED}: x"), None),
    ],
)
def test_an_answer_speaks_of_its_host(observation: Observation, says: Says | None) -> None:
    """A missing page is a healthy host; what we refused ourselves says nothing of it."""
    assert seen(observation).says is says


def test_a_malformed_retry_after_is_shown_harmlessly() -> None:
    """The log line names what was sent, short and without control characters."""
    reason = seen(Observation(status=429, retry_after=("\x1b[31m\u2028" + "9x" * 999,))).reason
    assert reason.startswith("HTTP 429, Retry-After '\\x1b[31m\\u2028")
    assert reason.isprintable()
    assert len(reason) < 120


@pytest.mark.parametrize(
    ("tries", "delay_s"), [(0, 30.0), (1, 60.0), (6, 1920.0), (7, 3600.0), (10**6, 3600.0)]
)
def test_a_transient_failure_waits_longer_each_time(tries: int, delay_s: float) -> None:
    """The URL is postponed for up to an hour."""
    for observation in (
        Observation(status=500, tries=tries),
        Observation(error="connection reset", tries=tries),
    ):
        outcome = seen(observation, max_tries=10**7)
        assert (outcome.end, outcome.delay_s) == (End.AGAIN, delay_s)


@pytest.mark.parametrize(
    "observation",
    [
        Observation(error="time-out after 30 s", tries=4),
        Observation(status=500, tries=4),
    ],
)
def test_the_last_try_keeps_the_reason(observation: Observation) -> None:
    """A URL that used up its tries is dead, and a case can tell why."""
    outcome = seen(observation)
    assert outcome.end is End.DEAD
    assert outcome.reason in {"time-out after 30 s", "HTTP 500"}
    assert seen(Observation(status=500, tries=3)).end is End.AGAIN


@pytest.mark.parametrize("lines", [(), ("600",), ("0",)])
def test_being_throttled_costs_a_url_no_try(lines: tuple[str, ...]) -> None:
    """It is the host's word and not the URL's fault: however often, the URL comes again."""
    for tries in (0, 4, 10**6):
        outcome = seen(Observation(status=429, retry_after=lines, tries=tries))
        assert (outcome.end, outcome.name) == (End.BACK, "throttled")


@pytest.mark.parametrize(
    ("error", "name"),
    [(ADDRESS_REFUSED, "refused"), (TOO_LARGE, "refused"), (DISALLOWED, "disallowed")],
)
def test_what_would_end_the_same_way_is_not_tried_again(error: str, name: str) -> None:
    """A private address, a body over the limit or a robots.txt ban costs one try."""
    reason = f"{error}: as an example"
    assert seen(Observation(error=reason)) == Outcome(End.REFUSED, name, reason)
    assert seen(Observation(status=200, error=reason)).end is End.REFUSED


def test_a_broken_body_spoils_only_a_page_that_was_wanted() -> None:
    """Half a 200 is tried again; half an error page changes nothing."""
    assert seen(Observation(status=200, error="body broke off")).end is End.AGAIN
    assert seen(Observation(status=404, error="body broke off")).name == "gone"
    assert seen(Observation(status=429, error="body broke off")).name == "throttled"


def test_no_answer_at_all_is_transient() -> None:
    """An observation that says nothing is a failure, not a success."""
    assert seen(Observation()) == Outcome(
        End.AGAIN, "transient", "no answer", delay_s=30.0, says=Says.FAILED
    )
