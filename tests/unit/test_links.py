"""The links of a page: all that may be followed, none that may not, whatever the page is."""

import time

import pytest

from throttle.crawl.links import MAX_LINKS, PageLinks, extract

URL = "http://a.example/d/page"


def page(html: str | bytes, content_type: str | None = "text/html", **given: str) -> PageLinks:
    """What `html` says when it was fetched from `URL`."""
    return extract(html if isinstance(html, bytes) else html.encode(), URL, content_type, **given)


@pytest.mark.parametrize(
    ("html", "links"),
    [
        ("<a href=x>", ["d/x"]),
        ("<A HREF='/x'>", ["x"]),
        ('<a\nclass="b"\n href = "/x"\n>', ["x"]),
        ("<a/href=/x/>", ["x/"]),
        ("<area href='/x#y'>", ["x"]),
        ("<a href=/x><a href=/x#y><a href='/./x'>", ["x"]),
        ("<a href='/?a=1&amp;b=2&copy=3&#38;c&lt;'>", ["?a=1&b=2&copy=3&c%3C"]),
        ("<a href='/x' href='/no'>", ["x"]),
        ("<a href=' /x\n'>", ["x"]),
        ("<meta http-equiv=Refresh content='5; URL=/x'>", ["x"]),
        ("<meta http-equiv=refresh content='0;url=\"/x\"'>", ["x"]),
        ("<meta http-equiv=refresh content='5'>", []),
        ("<base href='/b/'><a href=x>", ["b/x"]),
        ("<a href=x><base target=_top><base href='/b/'><base href='/c/'>", ["b/x"]),
        ("<base href='javascript:1'><a href=x>", ["d/x"]),
        ("<a href=''><a href><a><a href='#top'>", []),
        ("<a href='mailto:x@a.example'><a href='JavaScript:1'><a href='data:,x'>", []),
        ("<a href=/x rel=nofollow><a href=/y rel='ugc NoFollow'>", []),
        ("<a href=/x rel='ugc sponsored'>", ["x"]),
        ("<iframe src=/x></iframe><frame src=/x><link rel=next href=/x><img src=/x>", []),
        ("<!-- <a href=/x> --><!--><a href=/y>", ["y"]),
        ("<script>'<a href=/x>'</script><style><a href=/y></style><a href=/z>", ["z"]),
        ("<textarea><a href=/x></textarea><title><a href=/y></title>", []),
        ("<img alt='<a href=/x>'><div title=\"a>b\"><a href=/y>", ["y"]),
        ("<a title=it's href=/x>", ["x"]),
        ("<?php <a href=/x> ?><a href=/y>", ["y"]),
        ("<abbr href=/x><address href=/y>", []),
        ("<a href=/x", []),
    ],
)
def test_links_are_read_as_a_browser_reads_them(html: str, links: list[str]) -> None:
    """Links that a browser shows are found once each; text that only looks like one is not."""
    assert page(html).links == tuple(f"http://a.example/{link}" for link in links)


def test_a_bad_link_spoils_no_other() -> None:
    """What cannot be crawled is told with its reason; the rest of the page survives."""
    found = page(
        "<a href='http://a..example/'><a href='http://[::1'><a href='http://u:p@b.example:99999/'>"
        "<a href='gopher:\x1b/x'><meta http-equiv=refresh content='0;url=file:///etc/passwd'>"
        "<a href='/x'>"
    )
    assert found.links == ("http://a.example/x",)
    assert found.invalid == (
        ("http://a..example/", "the host has an empty label"),
        ("http://[::1", "the host is not valid"),
        ("http://***@b.example:99999/", "the port is not a number up to 65535"),
        ("gopher:\N{REPLACEMENT CHARACTER}/x", "not an http or https URL"),
        ("file:///etc/passwd", "not an http or https URL"),
    )


def test_a_page_gives_only_so_many_links() -> None:
    """A flood of links from one page is cut at the limit, and the rest is counted."""
    found = page("".join(f"<a href=/{n}>" for n in range(MAX_LINKS + 7)))
    assert len(found.links) == MAX_LINKS
    assert found.dropped == 7


def test_a_flood_of_bad_links_is_counted_not_kept() -> None:
    """Invalid links cost bounded work and bounded room."""
    found = page("".join(f"<a href='http://a..b/{n}'>" for n in range(4 * MAX_LINKS + 3)))
    assert len(found.invalid) == 20
    assert found.dropped == 3


@pytest.mark.parametrize(
    ("meta", "header", "nofollow", "noindex"),
    [
        ("", "", False, False),
        ("<meta name=robots content=nofollow>", "", True, False),
        ("<META NAME='Robots' CONTENT='NoIndex, NoFollow'>", "", True, True),
        ("<meta name=robots content=none>", "", True, True),
        ("<meta name=ExampleBot content=nofollow>", "", True, False),
        ("<meta name=otherbot content=none>", "", False, False),
        ("<meta name=robots content=noarchive>", "noindex", False, True),
        ("", "nofollow", True, False),
        ("", "examplebot: noindex, nofollow", True, True),
        ("", "otherbot: noindex, nofollow", False, False),
        ("", "otherbot: noindex\nnofollow", True, False),
        ("", "max-snippet: 5, noindex", False, True),
    ],
)
def test_a_page_may_ask_not_to_be_followed(
    meta: str, header: str, nofollow: bool, noindex: bool
) -> None:
    """The wishes count in the page and in the header, for all robots or for us by name."""
    found = page(f"{meta}<a href=/x>", x_robots_tag=header, product="examplebot")
    assert (found.nofollow, found.noindex) == (nofollow, noindex)
    assert found.links == (() if nofollow else ("http://a.example/x",))


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<title>\u0416</title>".encode(), "text/html"),
        (b"\xef\xbb\xbf" + "<title>\u0416</title>".encode(), "text/html; charset=koi8-r"),
        (b"\xff\xfe" + "<title>\u0416</title>".encode("utf-16-le"), "text/html"),
        ("<title>\u0416</title>".encode("koi8-r"), "text/html; charset=KOI8-R"),
        ("<title>\u0416</title>".encode("cp1251"), 'text/html;charset="windows-1251"'),
        ("<meta charset=windows-1251><title>\u0416</title>".encode("cp1251"), "text/html"),
        ("<meta charset=utf-16><title>\u0416</title>".encode(), "text/html"),
        ("<title>\u0416</title>".encode(), "text/html; charset=base64"),
        ("<title>\u0416</title>".encode(), "text/html; charset=unicode_escape"),
        (b"<title>&#1046;</title>", "application/xhtml+xml; charset=nonsense"),
        ("\n<html><title>\u0416</title>".encode(), None),
    ],
)
def test_text_is_read_in_its_own_encoding(body: bytes, content_type: str | None) -> None:
    """The byte-order mark wins over the header, the header over the page, and no name breaks it."""
    assert page(body, content_type).title == "\u0416"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<a href=/x>", "application/pdf"),
        (b"<a href=/x>", "text/plain; charset=utf-8"),
        (b"%PDF-1.7 <a href=/x>", None),
        (b"<?xml version='1.0'?><a href='/x'/>", ""),
        (b"", None),
    ],
)
def test_only_html_has_links(body: bytes, content_type: str | None) -> None:
    """Other kinds of body give no links and a note."""
    found = page(body, content_type)
    assert found.links == ()
    assert found.note.startswith("not HTML")


def test_a_title_is_one_short_printable_line() -> None:
    """A title can be logged and shown as it is."""
    title = page(f"<title>\n A \x1b[31m &amp;\u2028 B {'x' * 9999}</title>").title
    assert title.startswith("A \N{REPLACEMENT CHARACTER}[31m & B x")
    assert len(title) == 200


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 400_000,
        "<p>" + "".join(f"<b a={n}>" for n in range(4_000)) + "</p>" + "<p>x</p>" * 4_000,
        "<a " + " ".join(f"a{n}" for n in range(300_000)) + ">",
        "<a " * 600_000,
        '<a x="' * 300_000,
        "<a href='" + "&amp" * 500_000 + "'>",
        "<!--" * 500_000,
        "<!--" + "-" * 2_000_000,
        "<script>" * 250_000,
        "<" * 2_000_000,
        "<a " + "=" * 2_000_000,
        "<meta http-equiv=refresh content='" + "0 " * 1_000_000 + "\0'>",
    ],
    ids=[
        "nested",
        "formatting",
        "attributes",
        "unclosed",
        "quotes",
        "references",
        "comments",
        "dashes",
        "scripts",
        "brackets",
        "equals",
        "refresh",
    ],
)
def test_a_hostile_page_costs_time_in_proportion(html: str) -> None:
    """Two megabytes of the worst markup take seconds at most, so a worker survives any page."""
    started = time.process_time()
    page(html)
    assert time.process_time() - started < 8
