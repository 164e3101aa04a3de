"""The one place that builds objects from settings."""

import asyncio
import os
import random
import uuid
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path

from celery import Celery

from throttle.crawl.address import Resolver
from throttle.crawl.archive import WarcArchive, file_name, utc_now
from throttle.crawl.closing import Closing
from throttle.crawl.fetcher import Fetcher, boot_clock
from throttle.crawl.page import load_on_page
from throttle.crawl.reading import Reading
from throttle.crawl.robots_visit import RobotsVisit
from throttle.crawl.visit import Visit
from throttle.dispatch.celery_sink import CelerySink
from throttle.dispatch.claiming import Claiming
from throttle.dispatch.dispatcher import Dispatcher
from throttle.dispatch.expiry import Expiry
from throttle.dispatch.holding import Holding
from throttle.errors import SettingsError
from throttle.frontier.bundle import Frontier
from throttle.frontier.census import Census
from throttle.frontier.claims import Claims
from throttle.frontier.process import is_surely_dead, process_name
from throttle.frontier.refill import Refill
from throttle.frontier.startgate import StartGate
from throttle.settings import Settings
from throttle.tokens.agenda import Agenda
from throttle.tokens.issuer import Issuer
from throttle.tokens.link import Link
from throttle.tokens.publisher import Publisher
from throttle.tokens.puller import Puller
from throttle.tokens.topology import declare_crawl

_PUBLISH_TIMEOUT_S = 5.0


async def run_dispatcher(settings: Settings, app: Celery, stop: asyncio.Event) -> None:
    """Dispatches until `stop` is set. Raises `ServerUnreachable` when it cannot begin."""
    frontier, agenda = Frontier(settings), Agenda()
    made = await _dispatcher(settings, app, frontier, agenda)
    loop = asyncio.get_running_loop()
    listener = frontier.listener(
        "dispatch", lambda part: loop.call_soon_threadsafe(agenda.ring, part)
    )
    listener.start()
    try:
        await made.run(stop)
    finally:
        await asyncio.to_thread(listener.stop)


async def _dispatcher(
    settings: Settings, app: Celery, frontier: Frontier, agenda: Agenda
) -> Dispatcher:
    leases = frontier.leases("dispatch")
    claims = Claims(
        frontier.scripts,
        frontier.keys,
        leases,
        grant_ttl_s=settings.grant_ttl,
        max_tries=settings.max_tries,
    )
    holding = Holding(
        leases,
        claims,
        renew_s=min(settings.lease_ttl / 3, 1.0),
        on_gain=agenda.ring,
        pulse=lambda: frontier.census.pulse("dispatcher"),
    )
    pulling = Link(settings.broker_url, name="throttle dispatcher pull")
    publishing = Link(settings.broker_url, name="throttle dispatcher forward")
    for link in (pulling, publishing):
        await link.open(_PUBLISH_TIMEOUT_S)
    unique, numbers = uuid.uuid4().hex[:12], count()
    expiry = Expiry(claims, holding)
    claiming = Claiming(
        claims,
        holding,
        agenda,
        expiry,
        max_in_flight=settings.max_in_flight,
        batch=settings.batch,
        new_nonce=lambda: f"{unique}.{next(numbers):x}.",
    )
    return Dispatcher(
        claims,
        holding,
        Puller(pulling, settings.channels),
        CelerySink(app, Publisher(publishing), settings.crawl_queue, _PUBLISH_TIMEOUT_S),
        agenda=agenda,
        links=(pulling, publishing),
        claiming=claiming,
        expiry=expiry,
        prepare=lambda: declare_crawl(publishing, settings.crawl_queue),
    )


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
        frontier.scripts,
        frontier.keys,
        worker=name,
        start_ttl_s=settings.start_ttl,
        max_tries=settings.max_tries,
    )
    archive = _archive(settings, name) if settings.archive else None
    fetcher = Fetcher(
        user_agent=settings.user_agent,
        resolver=Resolver(settings.hosts_file, settings.allow_nets),
        timeout_s=settings.fetch_timeout,
        connect_timeout_s=settings.connect_timeout,
        body_limit=settings.body_limit,
    )
    reading = Reading(
        partial(frontier.intake.add, max_new_hosts=settings.max_hosts_per_page),
        fetcher,
        load_on_page(settings.on_page, settings.product),
        archive,
        follow_hosts=settings.follow_hosts,
        max_tries=settings.max_tries,
        now=utc_now,
    )
    visit = Visit(
        gate,
        frontier.book,
        fetcher,
        reading,
        RobotsVisit(
            frontier.book,
            product=settings.product,
            ttl_s=settings.robots_ttl,
            now=utc_now,
            retry_after_cap_s=settings.retry_after_cap,
        ),
        closing=Closing(
            gate, frontier.limits, chance=random.random, now=utc_now, max_tries=settings.max_tries
        ),
        valid_s=settings.fetch_timeout / 2,
        max_tries=settings.max_tries,
        clock=boot_clock,
        is_dead=is_surely_dead,
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
