"""Properties of link extraction that hold for any page at all."""

from hypothesis import given
from hypothesis import strategies as st

from throttle.crawl.links import MAX_LINKS, extract
from throttle.urls import canonical

PIECES = st.sampled_from(
    [
        "<a href=",
        "<a ",
        "href='",
        '"',
        "'",
        ">",
        "/>",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "=",
        " ",
        "<base href=",
        "<meta http-equiv=refresh content='0;url=",
        "&amp;",
        "&#x1b;",
        "/x",
        "http://",
        "a..b",
        "\x00",
        "\u2028",
        "<title>",
        "</title>",
        "<?",
        "</a>",
        "<area href=//b.example>",
    ]
)
BODIES = st.one_of(
    st.binary(),
    st.text().map(lambda text: f"<a href='{text}'>".encode("utf-8", "replace")),
    st.lists(PIECES, max_size=30).map(lambda pieces: "".join(pieces).encode()),
)
TYPES = st.one_of(
    st.none(), st.just("text/html"), st.text().map(lambda t: f"text/html;charset={t}")
)


@given(BODIES, TYPES, st.one_of(st.none(), st.text()))
def test_any_page_gives_links_or_none(
    body: bytes, content_type: str | None, x_robots_tag: str | None
) -> None:
    """No page raises; every link is canonical, stands once, and every text can be logged."""
    found = extract(body, "http://a.example/d/", content_type, x_robots_tag=x_robots_tag)
    assert len(set(found.links)) == len(found.links) <= MAX_LINKS
    assert all(canonical(link) == link for link in found.links)
    assert all(text.isprintable() and len(text) <= 200 for text, _ in found.invalid)
    assert found.title.isprintable()
    assert found.note.isprintable()
