"""Starts the raw sites of tests/integration/sites.py for the tests of this folder."""

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.sites import Certificate, Handler, Site, request_of


@pytest.fixture
def serve() -> Iterator[Callable[..., Site]]:
    """Starts sites: give bytes to answer with, or what to do with the socket after the request."""
    sites: list[Site] = []

    def start(
        answer: bytes | Handler, *, reads: bool = True, tls: ssl.SSLContext | None = None
    ) -> Site:
        def handle(sock: socket.socket) -> None:
            if reads:
                site.requests.append(request_of(sock))
            try:
                if callable(answer):
                    answer(sock)
                else:
                    sock.sendall(answer)
            finally:
                site.closed.set()

        site = Site(handle, tls)
        sites.append(site)
        return site

    yield start
    for site in sites:
        site.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    """A certificate that only this test's client trusts."""
    return Certificate(tmp_path)
