"""Properties of robots.txt rules that hold for any bytes at all."""

import math

from hypothesis import given
from hypothesis import strategies as st

from throttle.robots import judge, parse

LINES = st.sampled_from(
    [
        "User-agent: *",
        "User-agent: examplebot",
        "User-agent: other",
        "User-agent: example",
        "Disallow: /",
        "Disallow: /a",
        "Allow: /a*b$",
        "Disallow:",
        "Allow: /index.html",
        "Allow: *",
        "Crawl-delay: 5",
        "Crawl-delay: 0",
        "Crawl-delay: 1e9",
        "Sitemap: x",
        "# c",
        "",
        "Junk",
    ]
)
FILES = st.one_of(
    st.binary(),
    st.lists(LINES, max_size=20).map(lambda lines: "\n".join(lines).encode()),
    st.builds(
        lambda head, tail: b"User-agent: *\nDisallow: " + head + tail, st.binary(), st.binary()
    ),
)
PATHS = st.sampled_from(["/", "/a", "/ab", "/aXb", "/index.html", "/%FF?x=1", "//x", "/a$b"])


@given(FILES, PATHS)
def test_any_bytes_give_rules(body: bytes, path: str) -> None:
    """No file breaks the reader; /robots.txt stays open; a delay is finite and above zero."""
    rules = parse(body, "examplebot")
    assert rules.allows(f"http://a.example{path}") in {True, False}
    assert rules.allows("http://a.example/robots.txt")
    delay = rules.crawl_delay_s
    assert delay is None or (delay > 0 and math.isfinite(delay))
    assert all(text.isprintable() and len(text) < 400 for text in rules.warnings)


@given(FILES)
def test_a_ban_at_the_end_holds_whatever_stood_before(body: bytes) -> None:
    """Nothing earlier in a file can hide a whole group that names us."""
    ban = b"\nDisallow: /x\nUser-agent: examplebot\nDisallow: /banned-for-good-and-all\n"
    rules = parse(b"#\n" + body + ban, "examplebot")
    assert not rules.allows("http://a.example/banned-for-good-and-all")


@given(FILES, st.sampled_from(["Crawl-delay: 7", "crawl-delay:7 # slow", "Craw-delay: 7.0"]))
def test_nothing_makes_a_site_faster_than_it_asks(body: bytes, line: str) -> None:
    """A Crawl-delay for us holds, whatever else the file says before or after it."""
    ours = f"\nDisallow: /x\nUser-agent: examplebot\n{line}\nDisallow: /\n".encode()
    for whole in (b"#\n" + body + ours, ours + body):
        delay = parse(whole, "examplebot").crawl_delay_s
        assert delay is not None
        assert delay >= 7.0


@given(
    st.one_of(st.none(), st.integers(-1, 1000)),
    FILES,
    st.integers(0, 10**9),
    st.integers(60, 86400),
)
def test_every_answer_has_a_verdict(
    status: int | None, body: bytes, failures: int, ttl_s: int
) -> None:
    """No status fails open by accident: only 2xx, 3xx and 4xx without 429 let pages through."""
    verdict = judge(status, body, "examplebot", failures, ttl_s=float(ttl_s))
    assert verdict.until_s > 0
    if status is None or not 200 <= status < 500 or status == 429:
        assert verdict.state == "unreachable"
        assert verdict.until_s <= 3600
    if verdict.state == "ok":
        assert verdict.until_s == ttl_s
        assert verdict.crawl_delay_s == parse(verdict.body, "examplebot").crawl_delay_s
