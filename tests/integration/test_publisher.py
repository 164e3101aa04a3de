"""Publishing: what RabbitMQ did not take is never called confirmed."""

import asyncio
from collections import Counter

import pytest
from pika import BasicProperties

from tests.integration.rabbit import aside, empty, linked, message, until
from throttle.errors import ServerUnreachable, UsageError
from throttle.local.servers import PrivateRabbit
from throttle.tokens.publisher import Confirm, Message, Publisher
from throttle.tokens.topology import declare_crawl


def test_only_the_messages_for_a_missing_queue_are_returned(broker_url: str) -> None:
    """A queue that went away is told, message by message, in a batch of a thousand."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await declare_crawl(link, "crawl")
            batch = [message("crawl" if n % 3 else "missing", str(n)) for n in range(1000)]
            confirms = await Publisher(link).publish(batch, 10.0)
            expected = [Confirm.CONFIRMED if n % 3 else Confirm.RETURNED for n in range(1000)]
            assert confirms == expected
            assert empty(broker_url, "crawl") == [str(n) for n in range(1000) if n % 3]

    asyncio.run(scenario())


def test_a_full_queue_refuses_what_it_does_not_take(broker_url: str) -> None:
    """The count of confirmed messages is the count in the queue."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await declare_crawl(link, "crawl", length=3)
            publisher = Publisher(link)
            confirms = await publisher.publish([message("crawl", str(n)) for n in range(50)], 10.0)
            confirmed = [str(n) for n in range(50) if confirms[n] is Confirm.CONFIRMED]
            assert set(confirms) == {Confirm.CONFIRMED, Confirm.REFUSED}
            assert empty(broker_url, "crawl") == confirmed
            assert await publisher.publish([message("crawl", "late")], 10.0) == [Confirm.CONFIRMED]

    asyncio.run(scenario())


def test_a_message_that_cannot_be_written_costs_only_itself(broker_url: str) -> None:
    """One host with an impossible name stops nobody else's tokens."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await declare_crawl(link, "crawl")
            batch = [message("crawl", "a"), message("q" * 256, "b"), message("crawl", "c")]
            assert await Publisher(link).publish(batch, 10.0) == [
                Confirm.CONFIRMED,
                Confirm.REFUSED,
                Confirm.CONFIRMED,
            ]
            assert empty(broker_url, "crawl") == ["a", "c"]

    asyncio.run(scenario())


def test_a_message_without_an_id_is_refused() -> None:
    """A returned message could not be told from its neighbours."""
    with pytest.raises(UsageError, match="message_id"):
        Message("crawl", b"", BasicProperties(), persistent=True)


def test_nothing_confirmed_is_lost_when_rabbitmq_is_killed(own_rabbit: PrivateRabbit) -> None:
    """Killed in the middle of a publish: confirmed is there after the restart, the rest is told."""
    batches = 40
    size = 500

    async def scenario() -> None:
        async with linked(own_rabbit.url) as link:
            await declare_crawl(link, "crawl")
            publisher = Publisher(link)
            confirmed: set[str] = set()
            unknown = 0
            killing: asyncio.Task[None] | None = None
            for batch in range(batches):
                messages = [message("crawl", f"{batch}-{n}", persistent=True) for n in range(size)]
                publishing = asyncio.create_task(publisher.publish(messages, 2.0))
                if batch == 3:
                    killing = asyncio.create_task(aside(own_rabbit.kill))
                confirms = await publishing
                for sent, confirm in zip(messages, confirms, strict=True):
                    if confirm is Confirm.CONFIRMED:
                        confirmed.add(sent.properties.message_id)
                unknown += Counter(confirms)[Confirm.UNKNOWN]
                if unknown:
                    break
            assert killing is not None
            await killing
            assert unknown
            assert not link.connected
            with pytest.raises(ServerUnreachable, match=r"RabbitMQ at 127\.0\.0\.1"):
                await link.channel()
            assert "RabbitMQ at" in str(publisher.fault)
            await aside(own_rabbit.restart)
            after = await publisher.publish([message("crawl", "after", persistent=True)], 30.0)
            assert after == [Confirm.CONFIRMED]
            assert publisher.fault is None
            kept = set(empty(own_rabbit.url, "crawl"))
            assert confirmed
            assert confirmed | {"after"} <= kept

    asyncio.run(scenario())


def test_a_memory_alarm_is_unknown_and_shown_and_ends(own_rabbit: PrivateRabbit) -> None:
    """A blocked RabbitMQ is named as such, floods nobody afterwards, and is used again."""

    async def scenario() -> None:
        async with (
            linked(own_rabbit.url) as link,
            linked(own_rabbit.url) as idle,
            linked(own_rabbit.url) as leaving,
        ):
            await declare_crawl(link, "crawl")
            publisher = Publisher(link)
            first = [message("crawl", "first")]
            assert await publisher.publish(first, 10.0) == [Confirm.CONFIRMED]
            await aside(own_rabbit.ctl, "set_vm_memory_high_watermark", "0.0001")
            hung = [message("crawl", f"hung{n}") for n in range(5)]
            assert Confirm.UNKNOWN in await publisher.publish(hung, 1.0)
            assert "memory" in link.blocked
            assert "memory" in str(publisher.fault)
            assert not idle.blocked, "a link that publishes nothing is not blocked"
            for n in range(3):
                held = [message("crawl", f"held{n}")]
                assert await publisher.publish(held, 0.2) == [Confirm.UNKNOWN]
            await Publisher(leaving).publish(hung, 0.2)
            async with asyncio.timeout(5):
                await leaving.close()
            assert not leaving.connected, "a shutdown during an alarm does not hang"
            await aside(own_rabbit.ctl, "set_vm_memory_high_watermark", "0.9")
            await until(lambda: not link.blocked, "the alarm is over")
            batch = [message("crawl", "last"), message("missing", "stray")]
            assert await publisher.publish(batch, 10.0) == [Confirm.CONFIRMED, Confirm.RETURNED]
            ids = empty(own_rabbit.url, "crawl")
            assert [kept for kept in ids if not kept.startswith("hung")] == ["first", "last"]

    asyncio.run(scenario())
