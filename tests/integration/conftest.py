"""Raw sites, throttlectl and its frontier for the tests of this folder."""

import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.ctl import Ctl, ctl_command
from tests.integration.sites import Certificate, Handler, Site, request_of
from tests.scripts.frontier import Rig
from throttle.frontier.bundle import Frontier
from throttle.settings import Settings


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


@pytest.fixture
def ctl_environment(redis_url: str, tmp_path: Path) -> dict[str, str]:
    """Nothing but what the command needs; a RabbitMQ that is not there."""
    root = Path(__file__).resolve().parents[2]
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(root),
        "HOME": str(tmp_path),
        "THROTTLE_REDIS_URL": redis_url,
        "THROTTLE_BROKER_URL": "amqp://guest:guest@127.0.0.1:1//",
    }


@pytest.fixture
def throttlectl(ctl_environment: dict[str, str], tmp_path: Path) -> Ctl:
    """Runs throttlectl in an empty folder; asserts how it ends."""

    def call(
        *arguments: str, ends: int = 0, stdin: str | bytes = b"", **more: str
    ) -> subprocess.CompletedProcess[str]:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            ctl_command(*arguments),
            input=given,
            capture_output=True,
            cwd=tmp_path,
            env={**ctl_environment, **more},
            timeout=60,
            check=False,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == ends, (done.returncode, out, err)
        assert "Traceback" not in err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return call


@pytest.fixture
def rig(redis_url: str) -> Iterator[Rig]:
    """A frontier whose steps a test takes by hand; one request every two seconds."""
    made = Rig(redis_url, interval_s=2.0)
    yield made
    made.close()


@pytest.fixture
def rig_ctl(throttlectl: Ctl, rig: Rig) -> Ctl:
    """Runs throttlectl on the frontier of the rig."""
    return partial(throttlectl, THROTTLE_NAMESPACE="test", THROTTLE_PARTITIONS="1")


@pytest.fixture
def frontier(redis_url: str) -> Frontier:
    """The frontier that the commands work on."""
    return Frontier(Settings(redis_url=redis_url))
