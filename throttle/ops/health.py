"""Checks of the servers, the settings and the processes, each with what was found and a remedy."""

import asyncio
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pika import BasicProperties

from throttle.durations import format_duration
from throttle.errors import BrokerError, FrontierError, ServerUnreachable, SettingsError
from throttle.frontier.bundle import Frontier
from throttle.frontier.cases import ADDRESS
from throttle.frontier.scripts import Scripts, connect
from throttle.ops.waiting import SILENT_S
from throttle.settings import Settings
from throttle.tokens.link import Link
from throttle.tokens.publisher import Confirm, Message, Publisher
from throttle.tokens.topology import crawl_queue_arguments

REDIS_FROM = (7, 0)
RABBITMQ_FROM = (3, 10)

_OPEN_S = 3.0
_ANSWER_S = 5.0
_CONFIRM_S = 2.0

_ROLES = (
    ("beat", "issuer", "celery -A throttle beat"),
    ("dispatcher", "dispatcher", "throttlectl dispatch"),
    ("worker", "worker", "celery -A throttle worker"),
)


class State(StrEnum):
    """How a check came out; only `FAULT` keeps a crawl from being safe or from going on."""

    OK = "ok"
    WARN = "warn"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what was found, and what to do where it is not ok."""

    name: str
    state: State
    found: str
    remedy: str = ""
    unreachable: bool = False


def examine(settings: Settings) -> list[Check]:
    """Every check, those of a server that does not answer included; raises nothing for them."""
    return [
        *_redis(settings),
        *asyncio.run(_rabbitmq(settings)),
        *identity(settings),
        *_frontier(settings),
    ]


def redis_server(info: Mapping[str, Any], save: str | None) -> list[Check]:
    """What Redis says of itself: `info` as INFO answers, `save` its snapshot rule if told."""
    version = str(info.get("redis_version", ""))
    policy = str(info.get("maxmemory_policy", "unknown"))
    return [
        _version("Redis version", version, REDIS_FROM, "install a newer redis-server"),
        Check(
            "Redis eviction",
            State.OK if policy == "noeviction" else State.FAULT,
            f"maxmemory-policy {policy}",
            ""
            if policy == "noeviction"
            else "set maxmemory-policy noeviction in redis.conf: an evicted key is a lost URL or"
            " a forgotten clock",
        ),
        _persistence(info, save),
    ]


def _persistence(info: Mapping[str, Any], save: str | None) -> Check:
    name, remedy = "Redis persistence", "set appendonly yes in redis.conf"
    if int(info.get("aof_enabled", 0)):
        if info.get("aof_last_write_status", "ok") != "ok":
            fault = "the append-only file cannot be written"
            return Check(name, State.FAULT, fault, "make room on Redis's disk")
        return Check(name, State.OK, "append-only file")
    if save is None:
        found = "no append-only file; whether there are snapshots, Redis does not tell us"
        return Check(name, State.WARN, found, remedy)
    if save:
        found = f"snapshots only (save {save}): a crash forgets what came after the last one"
        return Check(name, State.WARN, found, remedy)
    return Check(name, State.FAULT, "none: a restart of Redis forgets the crawl", remedy)


def processes(ages: Mapping[str, float]) -> list[Check]:
    """Whether beat, a dispatcher and a worker did their round lately."""
    checks = []
    for name, role, command in _ROLES:
        age_s = ages.get(role)
        alive = age_s is not None and age_s < SILENT_S
        found = "never seen" if age_s is None else f"last round {format_duration(age_s)} ago"
        state = State.OK if alive else State.FAULT
        checks.append(Check(f"{name} alive", state, found, "" if alive else f"start {command}"))
    return checks


def identity(settings: Settings) -> list[Check]:
    """Whether sites can tell who crawls them and whom to write to."""
    checks = []
    for name, example in (("product", "examplebot"), ("contact", "https://example.org/bot")):
        value = str(getattr(settings, name))
        remedy = "" if value else f"set THROTTLE_{name.upper()}, for example to {example}"
        state = State.OK if value else State.FAULT
        checks.append(Check(name, state, value or "empty: workers will not start", remedy))
    return checks


def cases(kinds: Mapping[str, int]) -> Check:
    """Whether something waits for a person, `kinds` being how many cases of each are open."""
    if not kinds:
        return Check("cases", State.OK, "none open")
    remedy = "throttlectl cases list shows them, cases close HOST --why TEXT closes them"
    if ADDRESS in kinds:
        remedy += (
            f"; {ADDRESS}: set THROTTLE_ALLOW_NETS, start the workers again, then throttlectl"
            " refused retry HOST"
        )
    found = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    return Check("cases", State.WARN, f"open: {found}", remedy)


def _redis(settings: Settings) -> list[Check]:
    name = "Redis reachable"
    scripts = connect(settings.redis_url, timeout_s=_OPEN_S)
    try:
        (info,) = scripts.read([("INFO",)])
    except ServerUnreachable as error:
        remedy = "start it, and set THROTTLE_REDIS_URL; or let throttlectl up bring its own"
        return [Check(name, State.FAULT, str(error), remedy, unreachable=True)]
    except FrontierError as error:
        remedy = "give the user of THROTTLE_REDIS_URL the right to INFO"
        return [Check(name, State.WARN, str(error), remedy)]
    return [Check(name, State.OK, "answers"), *redis_server(info, _snapshots(scripts))]


def _snapshots(scripts: Scripts) -> str | None:
    """Redis's rule for snapshots ('' is none), or None where it may not be asked."""
    try:
        (reply,) = scripts.read([("CONFIG", "GET", "save")])
    except FrontierError:
        return None
    values = list(reply.values()) if isinstance(reply, dict) else reply[1::2]
    return values[0].decode() if values else None


async def _rabbitmq(settings: Settings) -> list[Check]:
    name = "RabbitMQ reachable"
    try:
        link = Link(settings.broker_url, name="throttlectl doctor")
    except SettingsError as error:
        remedy = "mend THROTTLE_BROKER_URL; on another machine, with a user of your own"
        return [Check(name, State.FAULT, str(error), remedy)]
    try:
        await link.open(_OPEN_S)
        return [
            Check(name, State.OK, f"answers at {link.peer}"),
            _version("RabbitMQ version", link.server_version, RABBITMQ_FROM, "install a newer one"),
            await _crawl_queue(link, settings.crawl_queue),
            await _takes_messages(link),
        ]
    except ServerUnreachable as error:
        remedy = "start it, and set THROTTLE_BROKER_URL; or let throttlectl up bring its own"
        return [Check(name, State.FAULT, str(error), remedy, unreachable=True)]
    finally:
        await link.close()


async def _crawl_queue(link: Link, queue: str) -> Check:
    """Declared again only where it exists: a check must not make what it looks for."""
    name = "crawl queue"
    try:
        async with asyncio.timeout(_ANSWER_S):
            channel = await link.channel()
            if not await channel.exists(queue):
                remedy = "start throttlectl dispatch, which declares it"
                return Check(name, State.WARN, f"{queue} is not there", remedy)
            await channel.declare(queue, crawl_queue_arguments(queue))
    except BrokerError as error:
        if error.code == 406:
            remedy = (
                "stop the dispatchers, let the workers empty it, delete it (rabbitmqctl"
                f" delete_queue {queue}) and start again"
            )
            return Check(name, State.FAULT, f"{queue} was declared otherwise: {error}", remedy)
        remedy = "give the user of THROTTLE_BROKER_URL the right to configure it"
        return Check(name, State.WARN, f"{queue} cannot be looked at: {error}", remedy)
    except TimeoutError:
        remedy = "look into RabbitMQ's log"
        return Check(name, State.FAULT, f"no answer within {_ANSWER_S:g} s", remedy)
    return Check(name, State.OK, queue)


async def _takes_messages(link: Link) -> Check:
    """Messages to a queue that nobody has: RabbitMQ returns them, unless an alarm is on.

    Two, since a connection is blocked by the first thing that it publishes during an alarm, and
    that one still passes.
    """
    name = "RabbitMQ takes messages"
    nowhere = f"throttlectl-doctor-{uuid.uuid4().hex}"
    publisher = Publisher(link)
    for _ in range(2):
        probe = Message(nowhere, b"", BasicProperties(message_id="probe"), persistent=False)
        (confirm,) = await publisher.publish([probe], _CONFIRM_S)
        if confirm is not Confirm.RETURNED:
            break
    else:
        return Check(name, State.OK, "no alarm")
    remedy = "rabbitmq-diagnostics alarms shows what it lacks: memory or disk"
    if isinstance(publisher.fault, BrokerError):
        remedy = "give the user of THROTTLE_BROKER_URL the right to publish"
    return Check(name, State.FAULT, str(publisher.fault or confirm), remedy)


def _frontier(settings: Settings) -> list[Check]:
    frontier = Frontier(settings)
    try:
        ages, open_cases = frontier.census.ages(), frontier.cases.count_by_kind()
    except ServerUnreachable:
        remedy = "make Redis reachable first"
        names = ("partitions", "cases", *(f"{name} alive" for name, _, _ in _ROLES))
        return [Check(name, State.WARN, "cannot be told without Redis", remedy) for name in names]
    except FrontierError as error:
        remedy = "give every process the same THROTTLE_PARTITIONS and THROTTLE_NAMESPACE"
        return [Check("partitions", State.FAULT, str(error), remedy)]
    agreed = f"{settings.partitions} in namespace {settings.namespace}"
    return [Check("partitions", State.OK, agreed), cases(open_cases), *processes(ages)]


def _version(name: str, text: str, least: tuple[int, int], remedy: str) -> Check:
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    wanted = ".".join(map(str, least))
    if not numbers:
        return Check(name, State.WARN, "it does not tell its version", f"use {wanted} or newer")
    if numbers < least:
        return Check(name, State.FAULT, text, f"{remedy}: {wanted} at least")
    return Check(name, State.OK, text)
