"""Forwarding as Celery tasks: a real Celery worker runs exactly what was granted."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from celery import Celery

from tests.integration.rabbit import empty, linked
from tests.servers import wait_until
from throttle.dispatch.celery_sink import CelerySink
from throttle.dispatch.sink import Forwarding
from throttle.model import Grant, GrantKind
from throttle.tokens.link import Link
from throttle.tokens.publisher import Publisher
from throttle.tokens.topology import declare_crawl

ROOT = Path(__file__).resolve().parents[2]
GRANTS = [
    Grant("g1", "one.example", GrantKind.PAGE, "http://one.example/a?b=c&d=%20"),
    Grant("g2", "two.example", GrantKind.ROBOTS, "https://two.example/robots.txt"),
]


@pytest.fixture
def app() -> Iterator[Celery]:
    """A Celery app that only encodes: it opens no connection."""
    app = Celery("test", set_as_current=False)
    yield app
    app.close()


@contextmanager
def _worker(url: str, record: Path) -> Iterator[None]:
    options = ["--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    command = [sys.executable, "-m", "celery", "-A", "tests.integration.recording_worker"]
    environment = {**os.environ, "RECORDING_BROKER": url, "RECORDING_FILE": str(record)}
    with subprocess.Popen([*command, "worker", *options], cwd=ROOT, env=environment) as process:
        try:
            yield
        finally:
            # Asked to end, it acknowledges what it ran; killed, the last message would come again.
            process.terminate()
            process.wait(timeout=20)


def _forward(url: str, app: Celery, grants: list[Grant], **crawl: int) -> list[Forwarding]:
    async def scenario() -> list[Forwarding]:
        async with linked(url) as link:
            if "length" in crawl:
                await declare_crawl(link, "crawl", **crawl)
            return await CelerySink(app, Publisher(link), "crawl", 10.0).forward(grants)

    return asyncio.run(scenario())


def test_a_celery_worker_runs_what_was_granted(
    app: Celery, broker_url: str, tmp_path: Path
) -> None:
    """The task has the grant's id, and its arguments are the grant."""
    record = tmp_path / "ran"
    assert _forward(broker_url, app, GRANTS, length=100) == [Forwarding.FORWARDED] * 2
    with _worker(broker_url, record):
        wait_until(
            lambda: record.exists() and record.read_text().count("\n") == 2,
            "both tasks ran",
            timeout_s=30,
        )
    assert [json.loads(line) for line in record.read_text().splitlines()] == [
        [
            grant.id,
            {"grant": grant.id, "key": grant.key, "url": grant.url, "kind": grant.kind.value},
        ]
        for grant in GRANTS
    ]
    assert empty(broker_url, "crawl") == []
    assert empty(broker_url, "crawl.dead") == []


def test_what_no_worker_will_get_is_returned(app: Celery, broker_url: str) -> None:
    """A missing queue and a full one give the URL back at once."""
    assert _forward(broker_url, app, GRANTS) == [Forwarding.RETURNED] * 2
    assert _forward(broker_url, app, GRANTS, length=1) == [
        Forwarding.FORWARDED,
        Forwarding.RETURNED,
    ]
    assert empty(broker_url, "crawl") == ["g1"]


def test_an_unreachable_rabbitmq_leaves_it_unknown(app: Celery) -> None:
    """Nothing is raised: the grant's expiry brings the URL back."""

    async def scenario() -> None:
        link = Link("amqp://someone:word@127.0.0.1:1/", name="test")
        sink = CelerySink(app, Publisher(link), "crawl", 0.3)
        assert await sink.forward([]) == []
        assert await sink.forward(GRANTS) == [Forwarding.UNKNOWN] * 2
        await link.close()

    asyncio.run(scenario())
