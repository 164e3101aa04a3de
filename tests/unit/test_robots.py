"""robots.txt as sites really write it: what it forbids is never fetched."""

import time

import pytest

from throttle.robots import ALLOW_ALL, DISALLOW_ALL, LIMIT, judge, parse

SITE = "http://a.example"
BAN = "User-agent: *\nDisallow: /\n"


def allows(text: str | bytes, path: str = "/x", product: str = "examplebot") -> bool:
    """Whether the robots.txt `text` lets `product` fetch `path`."""
    body = text if isinstance(text, bytes) else text.encode()
    return parse(body, product).allows(SITE + path)


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + BAN.encode(),
        b"\xef\xbb" + BAN.encode(),
        b"\xef" + BAN.encode(),
        b"\xff\xfe" + BAN.encode("utf-16-le"),
        b"\xfe\xff" + BAN.encode("utf-16-be"),
        b"\r\n\r\n" + BAN.replace("\n", "\r").encode(),
    ],
)
def test_a_byte_order_mark_hides_no_rule(body: bytes) -> None:
    """A ban on the first line holds under every mark and line end."""
    assert not allows(body)
    assert allows(body, "/robots.txt")


def test_a_byte_order_mark_elsewhere_spoils_one_line() -> None:
    """Only the line that the mark stands in is lost, as in the reference parser."""
    text = "User-agent: *\n\ufeffDisallow: /a\nDisallow: /b\n"
    assert allows(text, "/a")
    assert not allows(text, "/b")


@pytest.mark.parametrize(
    "between", ["Crawl-delay: 10", "Sitemap: http://a.example/s", "Host: x", "Nonsense: 1", "#", ""]
)
def test_only_a_rule_closes_the_list_of_agents(between: str) -> None:
    """Other lines between two User-agent lines leave both in one group (RFC 9309 2.2.1)."""
    text = f"User-agent: examplebot\n{between}\nUser-agent: otherbot\nDisallow: /private/\n"
    for product in ("examplebot", "otherbot"):
        assert not allows(text, "/private/", product)
        assert allows(text, "/", product)
    delay = parse(text.encode(), "examplebot").crawl_delay_s
    assert delay == (10.0 if "delay" in between else None)
    assert parse(text.encode(), "otherbot").crawl_delay_s is None


def test_a_crawl_delay_is_for_all_agents_named_just_before_it() -> None:
    """Two agents named together share the delay; the longest of several counts."""
    text = b"User-agent: a\nUser-agent: b\nCrawl-delay: 3\nDisallow: /x\nCrawl-delay: 2\n"
    assert parse(text, "a").crawl_delay_s == parse(text, "b").crawl_delay_s == 3.0


@pytest.mark.parametrize("between", ["", "Disallow: /x\n"])
def test_a_later_crawl_delay_is_for_the_later_agent(between: str) -> None:
    """Each agent keeps its own delay, in one group or in two."""
    text = f"User-agent: a\nCrawl-delay: 3\n{between}User-agent: b\nCrawl-delay: 9\n".encode()
    assert (parse(text, "a").crawl_delay_s, parse(text, "b").crawl_delay_s) == (3.0, 9.0)


def test_an_empty_disallow_closes_the_group_and_bans_nothing() -> None:
    """`Disallow:` without a path allows everything to its own group only."""
    text = "User-agent: examplebot\nDisallow:\nUser-agent: otherbot\nDisallow: /\n"
    assert allows(text)
    assert not allows(text, product="otherbot")


@pytest.mark.parametrize(
    ("agent", "ours"),
    [
        ("examplebot", True),
        ("ExampleBot", True),
        ("examplebot/2.1", True),
        ("examplebot (comment)", True),
        ("example", False),
        ("bot", False),
        ("examplebot2", False),
        ("examplebot-news", False),
        ("my-examplebot", False),
        ("example.bot", False),
        ("examplebot*", False),
        ("", False),
    ],
)
def test_only_the_whole_product_token_is_ours(agent: str, ours: bool) -> None:
    """`examplebot` obeys its own group, and nobody else's (RFC 9309 2.2.1)."""
    assert allows(f"User-agent: {agent}\nDisallow: /\n") is not ours


def test_our_own_group_replaces_the_one_for_all() -> None:
    """Groups that name us are joined, and then `*` says nothing to us."""
    text = (
        "User-agent: *\nDisallow: /all\nCrawl-delay: 9\n"
        "User-agent: EXAMPLEBOT\nDisallow: /one\n"
        "User-agent: examplebot\nDisallow: /two\n"
    )
    assert [allows(text, path) for path in ("/all", "/one", "/two")] == [True, False, False]
    assert parse(text.encode(), "examplebot").crawl_delay_s is None
    assert parse(text.encode(), "stranger").crawl_delay_s == 9.0
    assert not allows(text, "/all", "stranger")
    assert not allows(text, "/all", "")


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /a", "/abc", False),
        ("Disallow: /a", "/A", True),
        ("Disallow: /a/\nAllow: /a/b", "/a/b", True),
        ("Allow: /a/\nDisallow: /a/b", "/a/b", False),
        ("Allow: /a\nDisallow: /a", "/a", True),
        ("Disallow: /*.php$", "/x.php", False),
        ("Disallow: /*.php$", "/x.php?y", True),
        ("Disallow: /a*b*c", "/aXbYcZ", False),
        ("Disallow: *x", "/abcx", False),
        ("Disallow: /a?b=c", "/a?b=cd", False),
        ("Disallow: /\u30c4", "/%E3%83%84", False),
        ("Disallow: /%E3%83%84", "/%E3%83%84", False),
        ("Disallow: /%62%61%7A", "/baz", False),
        ("Disallow: /caf\u00e9", "/caf%c3%a9", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow : /a # why", "/a", False),
        ("disallow:/a", "/a", False),
        ("Disallow /a", "/a", False),
        ("Dissallow: /a", "/a", False),
        ("Disallow: /\nAllow: /index.html", "/", False),
        ("Disallow: /\nAllow: /index%2Ehtml", "/", False),
        ("Disallow: /\nAllow: /index.html", "/index.html", True),
        ("Disallow: /robots.txt\nDisallow: /", "/robots.txt", True),
        ("Disallow: /robots.txt", "/robots.txt.bak", False),
        ("Disallow: /a\u2028Allow: /", "/b", True),
        ("Disallow: /a\x0bAllow: /a", "/a%0BAllow:%20/a", False),
        ("Sitemap: x\nAllow: /", "/a", True),
    ],
)
def test_the_longest_matching_rule_decides(rules: str, path: str, allowed: bool) -> None:
    """Paths match as RFC 9309 2.2.2 and 2.2.3 say; a tie is allowed."""
    assert allows(f"User-agent: *\n{rules}\n", path) is allowed


def test_a_path_in_an_old_encoding_is_still_banned() -> None:
    """Bytes that are not UTF-8 ban the path they are percent-encoded in."""
    assert not allows(b"User-agent: *\nDisallow: /caf\xe9\n", "/caf%E9")
    assert allows(b"User-agent: *\nDisallow: /caf\xe9\n", "/cafe")


def test_rules_without_an_agent_are_nobodys() -> None:
    """A ban before the first User-agent line binds no one."""
    assert allows("Disallow: /\nUser-agent: otherbot\nDisallow: /\n")


@pytest.mark.parametrize(
    ("value", "seconds", "warned"),
    [
        ("10", 10.0, False),
        ("0", None, False),
        ("0.0", None, False),
        ("2.5", 2.5, False),
        (".5", 0.5, False),
        ("5.", 5.0, False),
        ("10 # c", 10.0, False),
        ("86400", 86400.0, False),
        ("999999999999", 315_360_000.0, False),
        ("9" * 5000, 315_360_000.0, False),
        ("0,5", None, True),
        ("-5", None, True),
        ("+5", None, True),
        ("inf", None, True),
        ("-inf", None, True),
        ("nan", None, True),
        ("1e300", None, True),
        ("1e3", None, True),
        ("1_0", None, True),
        ("10s", None, True),
        ("10 seconds", None, True),
        ("0x10", None, True),
        ("1.2.3", None, True),
        (".", None, True),
        ("", None, True),
        ("\u0663", None, True),
        ("\x1b[31m" + "9" * 1000 + "x", None, True),
    ],
)
def test_a_crawl_delay_is_plain_digits(value: str, seconds: float | None, warned: bool) -> None:
    """A delay is finite and above zero, or it is none; nonsense gives one short, safe warning."""
    rules = parse(f"User-agent: *\nCrawl-delay: {value}\n".encode(), "examplebot")
    assert rules.crawl_delay_s == seconds
    assert len(rules.warnings) == warned
    assert all(text.isprintable() and text.isascii() for text in rules.warnings)
    assert all(len(text) < 400 for text in rules.warnings)


@pytest.mark.parametrize("name", ["craw-delay", "Crawl delay", "CRAWLDELAY", "crawl-Delay "])
def test_misspelt_delays_are_heard(name: str) -> None:
    """Common spellings of Crawl-delay slow us all the same."""
    assert parse(f"User-agent: *\n{name}: 7\n".encode(), "examplebot").crawl_delay_s == 7.0


def test_warnings_are_few() -> None:
    """A file of nonsense cannot fill the log."""
    body = b"User-agent: *\n" + b"Crawl-delay: x\n" * 10_000
    assert len(parse(body, "examplebot").warnings) == 20


def test_the_first_500_kib_are_read_and_a_cut_line_is_not() -> None:
    """A rule inside the limit holds; the line that the limit cuts cannot change its meaning."""
    head = b"User-agent: *\nDisallow: /in\n"
    filler = b"#" * (LIMIT - len(head) - len(b"\nDisallow: /o")) + b"\n"
    cut = head + filler + b"Disallow: /other\nDisallow: /late\n"
    rules = parse(cut, "examplebot")
    assert not rules.allows(SITE + "/in")
    assert rules.allows(SITE + "/o")
    assert rules.allows(SITE + "/late")
    assert len(rules.warnings) == 1


@pytest.mark.parametrize(
    "text",
    [
        "User-agent: *\n" * 18_000 + "Allow: /\n" * 28_000,
        "User-agent: *\nDisallow: /" + "*a" * 250_000,
        "User-agent: *\n" + "".join(f"Disallow: *a{n}*b\n" for n in range(24_000)),
        "User-agent: *\n" + "".join(f"Disallow: *a{n}*b\n" for n in range(2_000)),
        "User-agent: *\n Disallow" + " " * 500_000 + ": /",
        "User-agent: " + "a" * 500_000,
        "\r" * LIMIT,
    ],
    ids=["agents", "stars", "wildcards", "most-wildcards", "spaces", "long-agent", "empty-lines"],
)
def test_a_hostile_file_costs_little(text: str) -> None:
    """Reading 500 KiB and judging a long URL takes seconds at the very worst, never minutes."""
    started = time.process_time()
    parse(text.encode(), "examplebot").allows(f"{SITE}/{'a' * 8000}")
    assert time.process_time() - started < 5


def test_too_many_wildcards_forbid_everything() -> None:
    """Rules that cost too much to try are not skipped: the site is left alone, with a word."""
    rules = parse(
        b"User-agent: *\n" + b"".join(b"Disallow: /%d*\n" % n for n in range(2001)), "examplebot"
    )
    assert not rules.allows(SITE + "/x")
    assert "2,000" in rules.warnings[0]


def test_the_two_constant_rules() -> None:
    """One allows everything, the other nothing but /robots.txt."""
    assert ALLOW_ALL.allows(SITE + "/x")
    assert not DISALLOW_ALL.allows(SITE + "/x")
    assert DISALLOW_ALL.allows(SITE + "/robots.txt")


@pytest.mark.parametrize("status", [200, 204, 299])
def test_a_file_is_in_force_for_its_ttl(status: int) -> None:
    """A good answer is stored as it came, with the delay that it asks for."""
    verdict = judge(status, b"User-agent: *\nCrawl-delay: 4\n", "examplebot", 3, ttl_s=86400.0)
    assert (verdict.state, verdict.until_s, verdict.crawl_delay_s) == ("ok", 86400.0, 4.0)
    assert verdict.body == b"User-agent: *\nCrawl-delay: 4\n"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451, 499, 301, 302, 307, 308])
def test_no_file_allows_everything(status: int) -> None:
    """4xx, and a redirect after five hops, mean that there are no rules (RFC 9309 2.3.1.3)."""
    verdict = judge(status, BAN.encode(), "examplebot", 0, ttl_s=86400.0)
    assert (verdict.state, verdict.body, verdict.until_s) == ("ok", b"", 86400.0)


@pytest.mark.parametrize("status", [None, 429, 500, 503, 599, 304, 100, 0, 999])
def test_an_unreachable_file_is_tried_again_later_and_later(status: int | None) -> None:
    """Nothing is fetched meanwhile; the retries back off from 30 seconds to an hour."""
    verdicts = [judge(status, b"", "examplebot", n, ttl_s=86400.0) for n in (0, 1, 2, 6, 7, 10**6)]
    assert {verdict.state for verdict in verdicts} == {"unreachable"}
    assert [verdict.until_s for verdict in verdicts] == [30.0, 60.0, 120.0, 1920.0, 3600.0, 3600.0]


def test_a_stored_file_that_was_too_long_reads_the_same() -> None:
    """What is kept of a huge file has the rules that the whole of it had."""
    body = b"User-agent: *\n" + b"Disallow: /aaaaaaa\n" * 50_000
    kept = judge(200, body, "examplebot", 0, ttl_s=60.0).body
    assert len(kept) == LIMIT + 1
    assert parse(kept, "examplebot").warnings == parse(body, "examplebot").warnings != ()
