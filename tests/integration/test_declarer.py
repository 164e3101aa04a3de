"""Declaring queues: changed arguments take effect, and nobody else's queue is touched."""

import asyncio
from urllib.parse import urlsplit

import pytest

from tests.integration.rabbit import aside, cut, depth, linked, message
from throttle.errors import BrokerError
from throttle.local.servers import PrivateRabbit
from throttle.tokens.declarer import Declarer
from throttle.tokens.publisher import Publisher
from throttle.tokens.topology import declare_crawl, token_queue_arguments


def test_a_changed_burst_takes_effect(broker_url: str) -> None:
    """Five becomes ten at once, without a crash and without another host's tokens."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            declarer = Declarer(link)
            publisher = Publisher(link)
            for queue in ("tokens.a", "tokens.b"):
                await declarer.ensure(queue, token_queue_arguments(5, 2.0))
                await publisher.publish([message(queue, str(n)) for n in range(20)], 10.0)
            await declarer.ensure("tokens.b", token_queue_arguments(5, 2.0))
            assert depth(broker_url, "tokens.b") == 5, "the same arguments keep the tokens"
            await declarer.ensure("tokens.a", token_queue_arguments(10, 2.0))
            await publisher.publish([message("tokens.a", str(n)) for n in range(20)], 10.0)
            assert depth(broker_url, "tokens.a") == 10
            assert depth(broker_url, "tokens.b") == 5

    asyncio.run(scenario())


def test_many_queues_are_declared_at_once_and_a_bad_one_costs_only_itself(broker_url: str) -> None:
    """An impossible name among a hundred hosts is told, and the hundred are served."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            declarer = Declarer(link, channels=4)
            arguments = token_queue_arguments(1, 2.0)
            names = [f"tokens.{n}" for n in range(100)]
            results = await asyncio.gather(
                *(declarer.ensure(name, arguments) for name in [*names, "q" * 256]),
                declarer.ensure("tokens.odd", {"x-max-length": "many"}),
                return_exceptions=True,
            )
            assert results[:100] == [None] * 100
            assert all(isinstance(result, BrokerError) for result in results[100:])
            assert "tokens.odd" in str(results[101])
            assert depth(broker_url, names[-1]) == 0

    asyncio.run(scenario())


def test_two_who_replace_the_same_queue_both_come_to_an_end(broker_url: str) -> None:
    """Two issuers with different settings quarrel; neither crashes nor hangs."""

    async def scenario() -> None:
        async with linked(broker_url) as one, linked(broker_url) as other:
            results = await asyncio.gather(
                *(
                    Declarer(link).ensure("tokens.a", token_queue_arguments(burst, 2.0))
                    for _ in range(5)
                    for link, burst in ((one, 5), (other, 10))
                ),
                return_exceptions=True,
            )
            assert all(result is None or isinstance(result, BrokerError) for result in results)
            await Declarer(one).ensure("tokens.a", token_queue_arguments(5, 2.0))

    asyncio.run(scenario())


def test_a_missing_right_names_the_queue_and_stops_nobody_else(
    rabbit_server: PrivateRabbit, broker_url: str
) -> None:
    """A user who may only touch `tokens.*` is told which queue was refused."""
    vhost = urlsplit(broker_url).path[1:]
    rabbit_server.ctl(
        "eval",
        'rabbit_auth_backend_internal:put_user(#{name => <<"narrow">>, password => <<"narrow">>,'
        ' tags => <<"">>}, <<"tests">>),'
        f'rabbit_auth_backend_internal:set_permissions(<<"narrow">>, <<"{vhost}">>,'
        ' <<"^tokens[.].*">>, <<".*">>, <<".*">>, <<"tests">>).',
    )
    url = broker_url.replace("guest:guest", "narrow:narrow")

    async def scenario() -> None:
        async with linked(url) as link:
            declarer = Declarer(link, channels=1)
            arguments = token_queue_arguments(1, 2.0)
            with pytest.raises(BrokerError, match=r"'other\.a'.*403") as caught:
                await declarer.ensure("other.a", arguments)
            assert caught.value.code == 403
            await declarer.ensure("tokens.a", arguments)

    asyncio.run(scenario())


def test_a_declarer_heals_with_its_link(rabbit_server: PrivateRabbit, broker_url: str) -> None:
    """Channels of a lost connection are not used again."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            declarer = Declarer(link)
            await declarer.ensure("tokens.a", token_queue_arguments(1, 2.0))
            await aside(cut, rabbit_server, broker_url)
            await link.open(10.0)
            await declarer.ensure("tokens.b", token_queue_arguments(1, 2.0))

    asyncio.run(scenario())


def test_a_crawl_queue_with_other_arguments_is_kept_and_explained(broker_url: str) -> None:
    """Work is never deleted to change a bound: the operator is told what to do."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            await declare_crawl(link, "crawl", length=10)
            await declare_crawl(link, "crawl", length=10)
            await Publisher(link).publish([message("crawl", "work")], 10.0)
            with pytest.raises(BrokerError, match=r"x-max-length.*delete_queue crawl"):
                await declare_crawl(link, "crawl", length=20)
            assert depth(broker_url, "crawl") == 1

    asyncio.run(scenario())
