"""The one place that builds objects from settings."""

import asyncio
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from itertools import count
from pathlib import Path

from celery import Celery

from throttle.crawl.address import Resolver
from throttle.crawl.archive import WarcArchive, file_name, utc_now
from throttle.crawl.fetcher import Fetcher, boot_clock
from throttle.crawl.page import load_on_page
from throttle.crawl.robots_visit import RobotsVisit
from throttle.crawl.visit import Visit
from throttle.dispatch.celery_sink import CelerySink
from throttle.dispatch.dispatcher import Dispatcher
from throttle.errors import SettingsError
from throttle.frontier.census import Census
from throttle.frontier.claims import Claims
from throttle.frontier.hosts import Hosts
from throttle.frontier.intake import Intake
from throttle.frontier.keys import Keys
from throttle.frontier.leases import Leases
from throttle.frontier.refill import Refill
from throttle.frontier.rules import RobotsBook
from throttle.frontier.scripts import Scripts, connect
from throttle.frontier.startgate import StartGate
from throttle.frontier.wake import WakeListener
from throttle.model import HostPolicy
from throttle.settings import Settings
from throttle.tokens.issuer import Issuer
from throttle.tokens.link import Link
from throttle.tokens.publisher import Publisher
from throttle.tokens.puller import Puller
from throttle.tokens.topology import declare_crawl

_PUBLISH_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Frontier:
    """The frontier in Redis, as one process uses it; its parts are made when first asked for."""

    settings: Settings

    @cached_property
    def scripts(self) -> Scripts:
        """Calls on Redis, which has a default policy from the first call on."""
        scripts = connect(self.settings.redis_url)
        Hosts(scripts, self.keys, self._defaults).publish_defaults(replace=False)
        return scripts

    @cached_property
    def keys(self) -> Keys:
        """Names in Redis."""
        return Keys(self.settings.namespace, self.settings.partitions)

    @cached_property
    def book(self) -> RobotsBook:
        """robots.txt of origins."""
        return RobotsBook(self.scripts, self.keys, self.settings.product)

    @cached_property
    def intake(self) -> Intake:
        """add."""
        return Intake(
            self.scripts,
            self.keys,
            self.book,
            host_depth=self.settings.host_depth,
            max_pages=self.settings.max_pages,
        )

    @cached_property
    def hosts(self) -> Hosts:
        """Policies."""
        return Hosts(self.scripts, self.keys, self._defaults)

    @cached_property
    def census(self) -> Census:
        """Counts."""
        return Census(self.scripts, self.keys)

    @property
    def _defaults(self) -> HostPolicy:
        return HostPolicy(self.settings.interval, self.settings.burst, self.settings.concurrency)

    def leases(self, role: str) -> Leases:
        """Leases of this process in a role."""
        return Leases(
            self.scripts, self.keys, role=role, holder=process_name(), ttl_s=self.settings.lease_ttl
        )

    def listener(self, role: str, on_wake: Callable[[int | None], None]) -> WakeListener:
        """A thread that hears the wake-ups of a role."""
        return WakeListener(self.scripts.client, self.keys, role, on_wake)


def process_name() -> str:
    """A name that no other process ever has: machine, process id, and a random part."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:12]}"


async def dispatcher(settings: Settings, app: Celery, frontier: Frontier) -> Dispatcher:
    """A dispatcher with its links open. Raises `ServerUnreachable`."""
    leases = frontier.leases("dispatch")
    pulling = Link(settings.broker_url, name="throttle dispatcher pull")
    publishing = Link(settings.broker_url, name="throttle dispatcher forward")
    for link in (pulling, publishing):
        await link.open(_PUBLISH_TIMEOUT_S)
    unique, numbers = uuid.uuid4().hex[:12], count()
    return Dispatcher(
        Claims(
            frontier.scripts,
            frontier.keys,
            leases,
            grant_ttl_s=settings.grant_ttl,
            max_tries=settings.max_tries,
        ),
        leases,
        (pulling, publishing),
        Puller(pulling, settings.channels),
        CelerySink(app, Publisher(publishing), settings.crawl_queue, _PUBLISH_TIMEOUT_S),
        max_in_flight=settings.max_in_flight,
        batch=settings.batch,
        lease_ttl_s=settings.lease_ttl,
        new_nonce=lambda: f"{unique}.{next(numbers):x}.",
        prepare=lambda: declare_crawl(publishing, settings.crawl_queue),
        pulse=lambda: frontier.census.pulse("dispatcher"),
    )


async def run_dispatcher(settings: Settings, app: Celery, stop: asyncio.Event) -> None:
    """Dispatches until `stop` is set. Raises `ServerUnreachable` when it cannot begin."""
    frontier = Frontier(settings)
    made = await dispatcher(settings, app, frontier)
    loop = asyncio.get_running_loop()
    listener = frontier.listener(
        "dispatch", lambda part: loop.call_soon_threadsafe(made.agenda.ring, part)
    )
    listener.start()
    try:
        await made.run(stop)
    finally:
        await asyncio.to_thread(listener.stop)


def issuer(settings: Settings, frontier: Frontier) -> Issuer:
    """An issuer; its link opens when it first runs."""
    frontier.hosts.publish_defaults(replace=True)
    leases = frontier.leases("issue")
    return Issuer(
        Refill(frontier.scripts, frontier.keys, leases),
        leases,
        Link(settings.broker_url, name="throttle issuer"),
        batch=settings.batch,
        lease_ttl_s=settings.lease_ttl,
        publish_timeout_s=_PUBLISH_TIMEOUT_S,
        pulse=lambda: frontier.census.pulse("issuer"),
    )


@dataclass(frozen=True)
class Worker:
    """What one worker process holds: the visit, and what must be told and closed."""

    visit: Visit
    gate: StartGate
    archive: WarcArchive | None
    census: Census


def worker(settings: Settings) -> Worker:
    """Everything a worker process needs. Raises `SettingsError` without a product and a contact."""
    require_identity(settings)
    frontier = Frontier(settings)
    name = process_name()
    gate = StartGate(
        frontier.scripts, frontier.keys, worker=name, start_ttl_s=settings.start_ttl
    )
    archive = _archive(settings, name) if settings.archive else None
    visit = Visit(
        gate,
        frontier.book,
        frontier.intake,
        Fetcher(
            user_agent=settings.user_agent,
            resolver=Resolver(settings.hosts_file, settings.allow_nets),
            timeout_s=settings.fetch_timeout,
            connect_timeout_s=settings.connect_timeout,
            body_limit=settings.body_limit,
        ),
        load_on_page(settings.on_page, settings.product),
        RobotsVisit(frontier.book, product=settings.product, ttl_s=settings.robots_ttl),
        archive,
        follow_hosts=settings.follow_hosts,
        max_tries=settings.max_tries,
        valid_s=settings.fetch_timeout / 2,
        clock=boot_clock,
        new_request=lambda: uuid.uuid4().hex,
    )
    return Worker(visit, gate, archive, frontier.census)


def require_identity(settings: Settings) -> None:
    """Raises `SettingsError` unless sites can tell who crawls them and whom to write to."""
    for name, example in (("product", "examplebot"), ("contact", "https://example.org/bot")):
        if not getattr(settings, name):
            raise SettingsError(
                f"THROTTLE_{name.upper()} ({name} in throttle.toml) is empty; sites must be able to"
                f" tell who crawls them: set it, for example to {example}"
            )


def _archive(settings: Settings, name: str) -> WarcArchive:
    return WarcArchive(
        Path(settings.archive),
        file_name(started=utc_now(), pid=os.getpid(), worker=name),
        {"software": f"throttle/{version('throttle')}", "operator": settings.contact},
    )
