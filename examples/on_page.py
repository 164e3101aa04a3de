"""User code: follow only links below /library/, and store each page's title and size.

Run it with `THROTTLE_ON_PAGE=examples.on_page:on_page` and `THROTTLE_ARCHIVE=warc`: the records lie
beside the pages in the WARC files, as JSON metadata records.
"""

from urllib.parse import urlsplit

from throttle.crawl.links import extract
from throttle.crawl.page import Found, Page


def on_page(page: Page) -> Found:
    """Gives the links to follow and the records to store of one page."""
    found = extract(page.response.body, page.url, page.response.header("content-type"))
    links = [link for link in found.links if urlsplit(link).path.startswith("/library/")]
    record = {"url": page.url, "title": found.title, "bytes": len(page.response.body)}
    return Found(links=links, records=[record])
