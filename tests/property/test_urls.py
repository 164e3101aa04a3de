"""Properties of canonical URLs that hold for any text at all."""

from hypothesis import example, given
from hypothesis import strategies as st

from throttle.errors import InvalidURL
from throttle.urls import MAX_LENGTH, canonical, digest, host_key, origin_of, politeness_key

PIECES = st.sampled_from(
    [
        "a",
        "A.Example",
        "..",
        ".",
        ":",
        "@",
        "/",
        "//",
        "?",
        "#",
        "%",
        "%2e",
        "%41",
        "\\",
        "[::1]",
        "[",
        "xn--",
        "0x7f",
        "1",
        "80",
        "\u2460",
        "\u00df",
        "\u2603",
        "\t",
        " ",
        "\x00",
        "\x1b",
        "\u2028",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join))
URLS = st.builds(
    lambda scheme, rest: scheme + rest,
    st.sampled_from(["http://", "HTTPS://", "http://a.example/", "http://a.example:", "http:", ""]),
    TEXTS,
)


def accepted(url: str, base: str | None = None) -> str | None:
    """The canonical form of `url`, or None when it is refused as it should be."""
    try:
        return canonical(url, base)
    except InvalidURL:
        return None


@given(URLS)
@example("http://a.example./#x")
def test_a_canonical_url_is_its_own_canonical_url(url: str) -> None:
    """Storing a URL and reading it back never makes a second page of it."""
    once = accepted(url)
    if once is not None:
        assert canonical(once) == once
        assert canonical(once, "http://b.example/") == once


@given(URLS)
def test_a_canonical_url_has_a_key_and_can_be_sent(url: str) -> None:
    """No bucket is nameless, and no URL can break a log line, a header or a Redis key."""
    sent = accepted(url)
    if sent is not None:
        assert sent.isascii()
        assert sent.isprintable()
        assert not set(sent) & set(" #")
        assert len(sent) <= MAX_LENGTH
        key = politeness_key(sent)
        assert key
        assert not set(key) & set("@/{}*? ")
        assert not key.endswith(".")
        assert origin_of(sent) == origin_of(canonical("/", sent))
        assert host_key(sent) == key
        assert len(digest(sent)) == 16


@given(URLS, st.text(alphabet="xyz", min_size=4))
def test_user_names_and_passwords_are_dropped(url: str, secret: str) -> None:
    """Userinfo is neither kept in the URL nor shown in the error."""
    shown = ""
    try:
        shown = canonical(f"http://{secret}:{secret}@{url.partition('//')[2]}")
    except InvalidURL as error:
        shown = f"{error} {error.url}"
    assert f"{secret}:{secret}@" not in shown


@given(TEXTS)
def test_a_link_from_a_page_is_a_url_or_an_error(link: str) -> None:
    """Whatever a page links to, there is an answer, never another exception."""
    target = accepted(link, "https://a.example/d/e?f")
    assert target is None or target.startswith(("http://", "https://"))


@given(TEXTS)
def test_a_typed_host_is_a_key_or_an_error(typed: str) -> None:
    """A command never works on a host without a name, and takes back the key that it shows."""
    try:
        key = host_key(typed)
    except InvalidURL:
        return
    assert host_key(f"http://{key}/") == key
    assert key.startswith("-") or host_key(key) == key
