"""The demo's site: real pages on many hosts, with links that lead somewhere."""

import re
from pathlib import Path

import pytest

from throttle.local.sample import HOSTS, PRIVATE, SampleSite, host_of, rewrite_links, sample_site

HREF = re.compile(r'href="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> SampleSite:
    """The site, made once."""
    return sample_site(tmp_path_factory.mktemp("sample"))


def page_of(site: SampleSite, url: str) -> Path:
    """The file behind an absolute URL of the site."""
    host, _, path = url.removeprefix("http://").partition(":__PORT__/")
    return site.folder / host / (path.partition("#")[0] or "index.html")


def test_there_are_many_pages_on_many_hosts(site: SampleSite) -> None:
    """A crawl has at least 200 pages on ten hosts to do, several on each."""
    assert site.pages >= 200
    assert len(site.hosts) >= 10
    for host in site.hosts:
        assert len(list((site.folder / host).glob("*.html"))) >= 5
    assert site.seeds(8080)[0] == "http://a.pydoc.example:8080/"
    assert f"127.0.0.1 {site.hosts[-1]}\n" in site.hosts_file()


def test_every_link_leads_to_a_page_of_the_site(site: SampleSite) -> None:
    """Not one link is dead or leaves this machine."""
    hrefs = {
        href
        for file in site.folder.glob("*/*.html")
        for href in HREF.findall(file.read_text(encoding="utf-8"))
        if not href.startswith("#")
    }
    assert hrefs - {PRIVATE}
    dead = [href for href in hrefs - {PRIVATE} if not page_of(site, href).is_file()]
    assert dead == []


def test_every_page_is_reached_from_any_first_page(site: SampleSite) -> None:
    """One seed is enough to find the whole site."""
    found, to_read = set(), [site.folder / HOSTS[3] / "index.html"]
    while to_read:
        page = to_read.pop()
        if page not in found:
            found.add(page)
            links = HREF.findall(page.read_text(encoding="utf-8"))
            to_read += [page_of(site, link) for link in links if link.startswith("http")]
    assert len(found) == site.pages


def test_each_host_links_into_what_its_rules_forbid(site: SampleSite) -> None:
    """A crawler that ignores robots.txt is caught on every host: the page is there."""
    for host in site.hosts:
        folder = site.folder / host
        assert "Disallow: /private/" in (folder / "robots.txt").read_text()
        assert f'href="{PRIVATE}"' in (folder / "index.html").read_text()
        assert (folder / PRIVATE.lstrip("/")).is_file()


def test_a_made_site_is_not_made_again(site: SampleSite) -> None:
    """The second demo starts at once, unless Python has changed."""
    mark = site.folder / HOSTS[0] / "index.html"
    before_ns = mark.stat().st_mtime_ns
    assert sample_site(site.folder) == site
    assert mark.stat().st_mtime_ns == before_ns


def test_links_to_unknown_pages_are_taken_off_with_their_text_kept() -> None:
    """File paths, the outside and missing modules leave only their words."""
    known = frozenset({"json"})
    text = (
        '<a href="json.html#loads">l</a> <a href="gone.html">g</a> <a href="file:/x.py">/x.py</a> '
        '<a href="https://www.python.org/">w</a> <a href="#here">h</a> <a name="n">n</a>'
    )
    there = f"http://{host_of('json')}:__PORT__/json.html#loads"
    assert rewrite_links(text, known) == (
        f'<a href="{there}">l</a> g /x.py w <a href="#here">h</a> <a name="n">n</a>'
    )
