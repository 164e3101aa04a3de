"""Pulling tokens: the right answer for every queue, whatever becomes of its neighbours."""

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

from tests.integration.rabbit import aside, cut, depth, linked, message
from tests.servers import wait_until
from throttle.local.servers import PrivateRabbit
from throttle.tokens.declarer import Declarer
from throttle.tokens.link import Link
from throttle.tokens.publisher import Publisher
from throttle.tokens.puller import Pulled, Puller
from throttle.tokens.topology import token_queue, token_queue_arguments


async def _fill(link: Link, queues: list[str], tokens: int, burst: int = 100) -> None:
    declarer = Declarer(link)
    arguments = token_queue_arguments(burst, 2.0)
    await asyncio.gather(*(declarer.ensure(queue, arguments) for queue in queues))
    messages = [message(queue, f"{n}") for queue in queues for n in range(tokens)]
    await Publisher(link).publish(messages, 10.0)


def test_answers_come_in_order_and_a_missing_queue_costs_only_its_own(broker_url: str) -> None:
    """Two hundred hosts without a queue take no token away from the hundred beside them."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await _fill(link, [f"full{n}" for n in range(100)], tokens=1)
            await _fill(link, [f"empty{n}" for n in range(100)], tokens=0)
            puller = Puller(link, channels=8)
            kinds = ["full", "missing", "empty", "missing"]
            queues = [f"{kinds[n % 4]}{n // 4}" for n in range(400)]
            answers = await puller.pull(queues)
            expected = {"full": Pulled.TOKEN, "missing": Pulled.MISSING, "empty": Pulled.EMPTY}
            assert answers == [expected[kinds[n % 4]] for n in range(400)]
            assert await puller.pull(["full0", "empty0"]) == [Pulled.EMPTY, Pulled.EMPTY]
            assert await puller.pull([]) == []

    asyncio.run(scenario())


def test_a_bucket_never_gives_more_than_its_burst(broker_url: str) -> None:
    """Ten tokens issued into a burst of two are two tokens, also when pulled all at once."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await _fill(link, ["tokens.host"], tokens=10, burst=2)
            assert depth(broker_url, "tokens.host") == 2
            answers = await Puller(link, channels=16).pull(["tokens.host"] * 10)
            assert Counter(answers) == {Pulled.TOKEN: 2, Pulled.EMPTY: 8}

    asyncio.run(scenario())


def test_a_host_of_250_bytes_gets_its_tokens(broker_url: str) -> None:
    """The name is hashed; a name that is too long all the same is missing, not a crash."""
    key = ".".join(["a" * 62] * 3) + "." + "b" * 62

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await _fill(link, [token_queue(key)], tokens=1)
            answers = await Puller(link, channels=2).pull(["tokens." + key, token_queue(key)])
            assert len("tokens." + key) == 258
            assert answers == [Pulled.MISSING, Pulled.TOKEN]

    asyncio.run(scenario())


def test_a_cut_connection_loses_answers_and_heals(
    rabbit_server: PrivateRabbit, broker_url: str
) -> None:
    """What was under way is lost, in order and without an error; the next pull works."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await _fill(link, ["tokens.host"], tokens=100)
            puller = Puller(link, channels=4, timeout_s=20.0)
            cutting = asyncio.create_task(aside(cut, rabbit_server, broker_url))
            answers = []
            while not cutting.done():
                answers += await puller.pull(["tokens.host"] * 50)
            await cutting
            assert set(answers) <= set(Pulled) - {Pulled.MISSING}
            await _fill(link, ["tokens.host"], tokens=1)
            assert await puller.pull(["tokens.host"]) == [Pulled.TOKEN]

    asyncio.run(scenario())


def test_channels_that_died_idle_are_not_asked(
    rabbit_server: PrivateRabbit, broker_url: str
) -> None:
    """A connection lost between two pulls costs no answer."""

    async def scenario() -> None:
        async with linked(broker_url) as link, linked(broker_url) as other:
            await _fill(other, ["tokens.host"], tokens=2)
            puller = Puller(link, channels=4)
            assert await puller.pull(["tokens.host"]) == [Pulled.TOKEN]
            await aside(cut, rabbit_server, broker_url)
            assert await puller.pull(["tokens.host"]) == [Pulled.TOKEN]

    asyncio.run(scenario())


def _stands_still(pid: int) -> bool:
    """Whether each thread has obeyed SIGSTOP: the last one may still answer after the kill."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def test_a_silent_rabbitmq_is_lost_and_its_late_answers_are_nobodys(
    own_rabbit: PrivateRabbit,
) -> None:
    """After a stall each answer belongs to the question that was asked last."""

    async def scenario() -> None:
        async with linked(own_rabbit.url) as link:
            await _fill(link, ["full"], tokens=8)
            await _fill(link, ["empty"], tokens=0)
            puller = Puller(link, channels=4, timeout_s=0.5)
            assert await puller.pull(["full"] * 4) == [Pulled.TOKEN] * 4
            os.kill(own_rabbit.pid, signal.SIGSTOP)
            wait_until(lambda: _stands_still(own_rabbit.pid), "every thread of RabbitMQ is stopped")
            try:
                assert await puller.pull(["full"] * 4) == [Pulled.LOST] * 4
                assert "did not answer every get" in str(puller.fault)
            finally:
                os.kill(own_rabbit.pid, signal.SIGCONT)
            patient = Puller(link, channels=4, timeout_s=10.0)
            assert await patient.pull(["empty"] * 4) == [Pulled.EMPTY] * 4
            assert await puller.pull(["empty", "missing"]) == [Pulled.EMPTY, Pulled.MISSING]

    asyncio.run(scenario())


def test_a_server_with_few_channels_is_enough(broker_url: str) -> None:
    """Where RabbitMQ allows fewer channels than were set, the pull is slower, not broken."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await _fill(link, ["tokens.host"], tokens=40)
        async with linked(broker_url + "?channel_max=2") as narrow:
            answers = await Puller(narrow, channels=64).pull(["tokens.host"] * 40)
            assert answers == [Pulled.TOKEN] * 40

    asyncio.run(scenario())


def test_a_link_that_is_down_loses_all_without_an_error() -> None:
    """The dispatcher is told, and by what, and goes on."""

    async def scenario() -> None:
        link = Link("amqp://someone:word@127.0.0.1:1/", name="test")
        puller = Puller(link, channels=4, timeout_s=0.2)
        assert await puller.pull(["a", "b"]) == [Pulled.LOST, Pulled.LOST]
        assert "127.0.0.1:1" in str(puller.fault)
        await link.close()

    asyncio.run(scenario())
