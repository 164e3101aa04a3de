"""URLs as sites and people spell them: one spelling per page, one key per host, or a reason."""

import pytest

from throttle.errors import InvalidURL
from throttle.urls import (
    MAX_LENGTH,
    canonical,
    digest,
    host_key,
    origin_of,
    politeness_key,
    robots_url,
)

LONG_HOST = ".".join(["a" * 49] * 5)


@pytest.mark.parametrize(
    "spelling",
    [
        "HTTP://A.Example:80/",
        "http://a.example",
        "http://a.example./",
        "http://a.example:0080/#x",
        "http://a.example:/",
        "http://u:p@a.example/",
        "http://a.example/././",
        "  http://a.exa\tmple/\r\n",
        "http:\u002f/\uff41.example/",
    ],
)
def test_spellings_of_one_page_are_one_url(spelling: str) -> None:
    """A page is fetched once and pays one bucket, however its link is spelt."""
    assert canonical(spelling) == "http://a.example/"


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/%7euser",
        "http://a.example/~user",
        "http://a.example/?b=2&a=1",
        "http://a.example/?a=1&b=2",
        "http://a.example/;jsessionid=AB",
        "https://a.example:8443/",
        "http://exa_mple.example/",
        "http://xy--z.example/",
        "http://localhost/",
        "http://[::1]:8080/",
        f"http://{LONG_HOST}/",
    ],
)
def test_what_sites_may_tell_apart_is_left_alone(url: str) -> None:
    """Query order, session ids and unusual but legal hosts stay as they are."""
    assert canonical(url) == url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://\N{SNOWMAN}.example/", "http://xn--n3h.example/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://\u2460\u2461\u2466.0.0.1/", "http://127.0.0.1/"),
        ("http://[::FFFF:1.2.3.4]/", "http://[::ffff:102:304]/"),
        ("http://a.example/\x00\x1b[31m \u2028", "http://a.example/%00%1B[31m%20%E2%80%A8"),
        ("http://a.example/a b?c d'#e f", "http://a.example/a%20b?c%20d%27"),
    ],
)
def test_the_result_is_printable_ascii(url: str, expected: str) -> None:
    """What is stored and logged has no space, control character or look-alike digit."""
    assert canonical(url) == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "it is empty"),
        (" \t\n", "it is empty"),
        ("http://a..example/", "the host has an empty label"),
        ("http://.a.example/", "the host has an empty label"),
        ("http://a.example../", "the host has an empty label"),
        ("http://%2e/", "the host has an empty label"),
        (f"http://{'a' * 64}.example/", "the host has a label longer than 63 bytes"),
        (f"http://{LONG_HOST}.aaaa/", "the host is longer than 253 bytes"),
        ("http://[::1", "the host is not valid"),
        ("http://]::1[/", "the host is not valid"),
        ("http://\u2100.example/", "the host is not valid"),
        ("http://a.exa\x00mple/", "the host is not valid"),
        ("http://a.example:99999/", "the port is not a number up to 65535"),
        ("http://a.example:-1/", "the port is not a number up to 65535"),
        ("http://a.example:abc/", "the port is not a number up to 65535"),
        ("http:///p", "no host"),
        ("http:/p", "no host"),
        ("http:a.example/p", "no host"),
        ("http:\\\\a.example/p", "no host"),
        ("//a.example/", "not an http or https URL"),
        ("a.example", "not an http or https URL"),
        ("ftp://a.example/", "not an http or https URL"),
        ("file:///etc/passwd", "not an http or https URL"),
        ("javascript:alert(1)", "not an http or https URL"),
        ("http://a.example{x}/", "the host has a character that no DNS name has"),
        ("http://*/", "the host has a character that no DNS name has"),
        ("http://;x/", "the host has a character that no DNS name has"),
        ("http://a.example/\ud800", "it is not Unicode text"),
        ("http://a.example/" + "a" * MAX_LENGTH, "longer than 8,192 characters"),
        (
            "http://a.example/" + "\u00e9" * 3000,
            "longer than 8,192 characters when percent-encoded",
        ),
    ],
)
def test_what_cannot_be_crawled_is_refused_with_the_reason(url: str, reason: str) -> None:
    """A bad URL says what is wrong with it; it is never cut or guessed at."""
    with pytest.raises(InvalidURL) as refused:
        canonical(url)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "url",
    [
        "http://secret:word@a..example/",
        "http://secret:word@@a b/",
        "http://secret:wo/rd@a.example/",
        "https:secret:word@a.example",
        "ftp://secret:word@a.example/",
        "secret:word@a.example",
        "http://secret:word@" + "a" * 9000,
        "http://" + "secret" * 2000 + "@a.example/",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    """Neither the error's text nor its URL repeats a user name or password."""
    with pytest.raises(InvalidURL) as refused:
        canonical(url)
    shown = f"{refused.value} {refused.value.url}"
    assert "secret" not in shown
    assert "rd@" not in shown
    assert "***@" in shown


def test_an_error_is_one_line_without_escapes() -> None:
    """A hostile URL cannot steer the terminal or start a new log line."""
    with pytest.raises(InvalidURL) as refused:
        canonical("ftp://a\x1b[31m\u2028\x85" + "x" * 1_000_000)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("../x?y#z", "http://a.example/x?y"),
        ("//b.example", "http://b.example/"),
        ("/p", "http://a.example/p"),
        ("http:/p", "http://a.example/p"),
        ("https://u:p@b.example./", "https://b.example/"),
        ("?q", "http://a.example/d/e?q"),
    ],
)
def test_a_link_is_resolved_against_its_page(link: str, expected: str) -> None:
    """Relative links mean what they mean in a browser."""
    assert canonical(link, "http://a.example/d/e") == expected


@pytest.mark.parametrize(
    ("url", "key", "origin"),
    [
        ("http://a.example/x", "a.example", "http://a.example"),
        ("https://a.example/", "a.example", "https://a.example"),
        ("http://a.example:8080/?u=http://b.example/", "a.example", "http://a.example:8080"),
        ("http://[::1]/", "[::1]", "http://[::1]"),
        ("http://[::1]:81/@x", "[::1]", "http://[::1]:81"),
    ],
)
def test_all_ports_of_a_host_share_one_key_but_not_one_robots_txt(
    url: str, key: str, origin: str
) -> None:
    """Politeness is owed to the machine; robots.txt speaks for one origin."""
    assert politeness_key(url) == key
    assert origin_of(url) == origin
    assert robots_url(origin) == f"{origin}/robots.txt"


@pytest.mark.parametrize("url", ["", "http:/p", "http:///p", "a.example"])
def test_there_is_no_empty_key(url: str) -> None:
    """Text that is not a canonical URL gives an error, never a bucket without a name."""
    with pytest.raises(InvalidURL):
        politeness_key(url)
    with pytest.raises(InvalidURL):
        origin_of(url)


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("A.Example.", "a.example"),
        (" a.example ", "a.example"),
        ("http://a.example/x", "a.example"),
        ("HTTPS://u:p@a.example:8443", "a.example"),
        ("a.example:8080", "a.example"),
        ("localhost", "localhost"),
        ("exa_mple.example", "exa_mple.example"),
        ("\N{SNOWMAN}.example", "xn--n3h.example"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("[::1]:80", "[::1]"),
    ],
)
def test_a_person_may_type_a_host_in_many_ways(typed: str, key: str) -> None:
    """A command finds the host's bucket from a name, a name with a port, or a URL."""
    assert host_key(typed) == key


@pytest.mark.parametrize(
    "typed",
    [
        "",
        " ",
        "-rf",
        "--help",
        "$(touch x)",
        "`x`",
        ";x",
        "a b",
        "a.example\nb.example",
        "*",
        "*.example",
        ":",
        "a.example{x}",
        "../../etc",
        "a.example/x",
        "u@a.example",
        "ftp://a.example/",
        "a..example",
    ],
)
def test_what_is_no_host_name_is_refused(typed: str) -> None:
    """An option, a pattern, a path or a shell trick is an error that shows what was typed."""
    with pytest.raises(InvalidURL) as refused:
        host_key(typed)
    assert "http://" not in str(refused.value)


def test_a_digest_is_sixteen_bytes_and_tells_urls_apart() -> None:
    """The seen set can hold digests in place of URLs."""
    assert len(digest("http://a.example/")) == 16
    assert digest("http://a.example/") != digest("http://a.example/x")
