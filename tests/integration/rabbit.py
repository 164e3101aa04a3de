"""What the tests of the RabbitMQ side share: a link closed at the end, and a look from outside."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pika
from pika import BasicProperties

from throttle.local.servers import PrivateRabbit
from throttle.tokens.broker import parameters
from throttle.tokens.link import Link
from throttle.tokens.publisher import Message


@asynccontextmanager
async def linked(url: str, name: str = "test") -> AsyncIterator[Link]:
    """An open link to `url`."""
    link = Link(url, name=name)
    try:
        await link.open(10.0)
        yield link
    finally:
        await link.close()


async def until(predicate: Callable[[], object], what: str, timeout_s: float = 10.0) -> None:
    """Wait while the event loop runs; fails naming `what` after `timeout_s` seconds."""
    end_s = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < end_s, f"not within {timeout_s:g} s: {what}"
        await asyncio.sleep(0.01)


def depth(url: str, queue: str) -> int:
    """How many messages lie ready in `queue`, asked over a connection of its own."""
    with pika.BlockingConnection(parameters(url, "outside")) as connection:
        return int(connection.channel().queue_declare(queue, passive=True).method.message_count)


def empty(url: str, queue: str) -> list[str]:
    """The message ids in `queue`, taken out in order."""
    with pika.BlockingConnection(parameters(url, "outside")) as connection:
        channel = connection.channel()
        ids = []
        while True:
            method, properties, _body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return ids
            ids.append(properties.message_id)


def message(queue: str, message_id: str, *, persistent: bool = False) -> Message:
    """A small message for `queue`."""
    return Message(queue, b"some work", BasicProperties(message_id=message_id), persistent)


def cut(rabbit: PrivateRabbit, url: str) -> None:
    """Have RabbitMQ close every connection to the virtual host of `url`."""
    vhost = urlsplit(url).path[1:] or "/"
    rabbit.ctl("close_all_connections", "--vhost", vhost, "cut by a test")


async def aside(call: Callable[..., object], *arguments: object) -> None:
    """Run what blocks in a thread, so that the event loop goes on."""
    await asyncio.get_running_loop().run_in_executor(None, call, *arguments)
