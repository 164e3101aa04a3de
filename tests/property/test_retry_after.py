"""Properties of Retry-After that hold for any header and any time."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from throttle.model import End, Observation, Says
from throttle.outcome import judge
from throttle.retry_after import LONGEST_S, parse_retry_after

TIMES = st.datetimes(timezones=st.just(UTC))
FORMS = st.sampled_from(["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT"])
DATES = st.builds(lambda when, form: when.strftime(form), TIMES, FORMS)
VALUES = st.one_of(
    st.text(), DATES, st.integers().map(str), st.floats().map(str), st.text(alphabet="0123456789 ")
)


@given(st.lists(VALUES, max_size=4), TIMES)
def test_any_header_gives_a_wait_or_nothing(values: list[str], now: datetime) -> None:
    """Never an exception, never a wait that is zero, negative or endless."""
    wait_s = parse_retry_after(values, now)
    assert wait_s is None or 0 < wait_s <= LONGEST_S


@given(st.integers(1, 10**9), TIMES)
def test_whole_seconds_are_taken_as_they_are(seconds: int, now: datetime) -> None:
    """A proper number is obeyed, up to ten years."""
    assert parse_retry_after((str(seconds),), now) == min(seconds, LONGEST_S)


@given(
    st.integers(0, 7_000_000_000),
    st.integers(1, 10**8),
    FORMS,
)
def test_a_date_is_as_far_ahead_as_it_says(now_s: int, ahead_s: int, form: str) -> None:
    """Both date forms with a zone give the wait back, in every century."""
    now, when = (datetime.fromtimestamp(moment, UTC) for moment in (now_s, now_s + ahead_s))
    assert parse_retry_after((when.strftime(form),), now) == ahead_s


@given(
    st.builds(
        Observation,
        status=st.one_of(st.none(), st.integers(0, 1000)),
        location=st.one_of(st.none(), st.text()),
        retry_after=st.lists(VALUES, max_size=3).map(tuple),
        error=st.text(),
        tries=st.integers(0, 10**6),
    ),
    st.integers(1, 1000),
    TIMES,
)
def test_every_observation_has_an_outcome(
    observation: Observation, max_tries: int, now: datetime
) -> None:
    """A URL that comes again waits, or its host was throttled; none is tried after its last try."""
    outcome = judge(observation, max_tries=max_tries, now=now)
    assert outcome.retry_after_s is None or 0 < outcome.retry_after_s <= LONGEST_S
    assert 0 <= outcome.delay_s <= 3600
    if outcome.end is End.AGAIN:
        assert observation.tries + 1 < max_tries
        assert outcome.delay_s > 0
    else:
        assert (outcome.end is End.BACK) == (outcome.says is Says.THROTTLED)
        assert outcome.delay_s == 0
