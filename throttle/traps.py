"""Tells URLs that only a trap would have: its links lead deeper and deeper, without end."""

from collections import Counter

MOST_EQUAL = 3
"""How often the same segment may stand in a path."""

MOST_IN_A_ROW = 2
"""How often a group of two or more segments may stand in a path right behind itself."""


def trap_in(url: str) -> str:
    """Why the canonical `url` looks as if a trap had made it, in a few words, or nothing.

    Only the path is looked at, segment by segment: the same one for a fourth time, or a group of
    segments for a third time in a row. The time taken grows with the length of the URL.
    """
    path = url.partition("://")[2].partition("?")[0].partition("/")[2]
    segments = path.removesuffix("/").split("/")
    times = Counter(segments)
    if max(times.values()) > MOST_EQUAL:
        return f"a segment of its path stands there more than {MOST_EQUAL} times"
    if _has_a_group_in_a_row(segments, times):
        return f"a group of segments stands in its path more than {MOST_IN_A_ROW} times in a row"
    return ""


def _has_a_group_in_a_row(segments: list[str], times: Counter[str]) -> bool:
    """Whether two or more segments come three times, one group right behind the other.

    Each segment of such a group stands in the path three times and no more, at equal distances:
    the length of the group. So does each of its neighbours, as many as the group is long.
    """
    places: dict[str, list[int]] = {}
    for place, segment in enumerate(segments):
        if times[segment] == MOST_EQUAL:
            places.setdefault(segment, []).append(place)
    distance = {
        first: second - first
        for first, second, third in places.values()
        if second - first == third - second
    }
    in_a_row = before = 0
    for place in range(len(segments)):
        here = distance.get(place, 0)
        in_a_row = in_a_row + 1 if here == before else 1
        if in_a_row >= here > 1:
            return True
        before = here
    return False
