"""Which URLs look as if a trap had made them, judged at each bound."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttle.traps import trap_in

SITE = "http://a.example"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a/b/c",
        "/a/a/a",
        "/a/x/a/y/a",
        "/a/b/a/b",
        "/a/b/a/b/",
        "/a/b/c/a/b/c/a/b",
        "/a/b/x/a/b/x/a/c/x",
        "/2026/01/01/01",
        "/web/2026/http://b.example/",
        "/?a=/b/b/b/b/b",
    ],
)
def test_a_path_within_the_bounds_is_no_trap(path: str) -> None:
    """Dates, archives and short repetitions are crawled."""
    assert trap_in(SITE + path) == ""


@pytest.mark.parametrize(
    "path",
    [
        "/a/a/a/a",
        "/x/a/y/a/z/a/a",
        "/a/x/a/y/a/z/a/",
        "/a/b/a/b/a/b",
        "/a/b/a/b/a/b/",
        "/x/a/b/a/b/a/b/y?q",
        "/a/b/c/a/b/c/a/b/c",
        "/x/y/a/b/c/a/b/c/a/b/c/z",
        "//////x",
    ],
)
def test_a_path_that_repeats_itself_is_a_trap(path: str) -> None:
    """A segment for the fourth time, or a group of segments for the third time in a row."""
    assert "times" in trap_in(SITE + path)


def _reference(segments: list[str]) -> bool:
    """The rule as it is said, whatever it costs."""
    if any(segments.count(one) > 3 for one in segments):
        return True
    return any(
        segments[i : i + n] == segments[i + n : i + 2 * n] == segments[i + 2 * n : i + 3 * n]
        for n in range(2, len(segments) // 3 + 1)
        for i in range(len(segments) - 3 * n + 1)
    )


@given(
    st.lists(st.sampled_from("abcd"), max_size=3),
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6),
    st.integers(1, 4),
    st.lists(st.sampled_from("abcdxy"), max_size=3),
)
def test_the_quick_rule_is_the_rule_as_said(
    before: list[str], group: list[str], times: int, after: list[str]
) -> None:
    """Looking at distances finds the same traps as comparing every group with its neighbours."""
    segments = before + group * times + after
    assert bool(trap_in(f"{SITE}/{'/'.join(segments)}")) == _reference(segments)


def test_the_longest_url_is_judged_quickly() -> None:
    """A page full of long URLs made to be slow costs its worker milliseconds."""
    path = "/".join(f"{number % 1300:x}" for number in range(2400))
    began_s = time.process_time()
    trap_in(f"{SITE}/{path}")
    assert time.process_time() - began_s < 0.1
