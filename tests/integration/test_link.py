"""The link to RabbitMQ: clear words when it cannot be made, and healing when it is lost."""

import asyncio
import time

import pytest

from tests.integration.rabbit import aside, cut, linked, message
from throttle.errors import ServerUnreachable, SettingsError
from throttle.local.servers import PrivateRabbit
from throttle.tokens.broker import refuse_guest
from throttle.tokens.link import Link
from throttle.tokens.publisher import Confirm, Publisher
from throttle.tokens.topology import declare_crawl


def _open_error(url: str, timeout_s: float) -> str:
    async def scenario() -> str:
        link = Link(url, name="test")
        try:
            with pytest.raises(ServerUnreachable) as caught:
                await link.open(timeout_s)
        finally:
            await link.close()
        return str(caught.value)

    return asyncio.run(scenario())


def test_a_closed_port_is_named_with_the_remedy() -> None:
    """The message says where and what to do, and never the password."""
    words = _open_error("amqp://someone:hidden-word@127.0.0.1:1/", 0.3)
    assert "127.0.0.1:1:" in words
    assert "nothing listens there" in words
    assert "THROTTLE_BROKER_URL" in words
    assert "hidden-word" not in words


def test_an_unknown_host_is_named() -> None:
    """A misspelt host name reads differently from a server that is down."""
    words = _open_error("amqp://someone:hidden-word@no-such-host.invalid:5672/", 1.0)
    assert "no-such-host.invalid:5672" in words
    assert "hidden-word" not in words


def test_a_wrong_password_is_told_at_once(broker_url: str) -> None:
    """Nobody waits for a timeout to learn that the password is wrong."""
    began_s = time.monotonic()
    words = _open_error(broker_url.replace("guest:guest", "guest:hidden-word"), 30.0)
    assert time.monotonic() - began_s < 10
    assert "refuses the user or the password" in words
    assert "hidden-word" not in words


def test_a_missing_virtual_host_is_named(broker_url: str) -> None:
    """The end of the URL is pointed at."""
    words = _open_error(broker_url + "-nosuch", 30.0)
    assert "-nosuch" in words
    assert "virtual host" in words


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "amqp://a:b@host:port/", "amqp://a@host/", ""]
)
def test_a_url_that_is_none_is_a_settings_error(url: str) -> None:
    """The setting is named, not a line of a client library."""
    with pytest.raises(SettingsError, match="THROTTLE_BROKER_URL"):
        Link(url, name="test")


def test_guest_is_refused_away_from_this_machine() -> None:
    """The user whose password everybody knows never travels over a network."""
    with pytest.raises(SettingsError, match=r"user guest at rabbit\.example"):
        Link("amqp://guest:guest@rabbit.example/", name="test")
    with pytest.raises(SettingsError, match="user guest"):
        Link("amqp://rabbit.example", name="test")
    for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1"):
        refuse_guest("guest", host)
    refuse_guest("crawler", "rabbit.example")


@pytest.mark.parametrize("path", ["", "/", "//", "/%2F"])
def test_the_virtual_host_is_read_as_celery_reads_it(
    rabbit_server: PrivateRabbit, path: str
) -> None:
    """One URL serves both: `//` and nothing mean the virtual host `/`."""

    async def scenario() -> None:
        async with linked(f"amqp://guest:guest@127.0.0.1:{rabbit_server.port}{path}") as link:
            assert link.connected

    asyncio.run(scenario())


def test_a_connection_bears_its_name(rabbit_server: PrivateRabbit, broker_url: str) -> None:
    """An operator sees in RabbitMQ which process holds a connection."""

    async def scenario() -> None:
        async with linked(broker_url, "throttle dispatcher 7"):
            listed: list[str] = []
            await aside(
                lambda: listed.append(rabbit_server.ctl("list_connections", "client_properties"))
            )
            assert "throttle dispatcher 7" in listed[0]

    asyncio.run(scenario())


def test_what_waits_on_a_lost_connection_fails_at_once_and_the_link_heals(
    rabbit_server: PrivateRabbit, broker_url: str
) -> None:
    """A cut connection costs what was under way, not a timeout, and no restart."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            channel = await link.channel()
            waiting = channel.expect()
            await aside(cut, rabbit_server, broker_url)
            with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1"):
                async with asyncio.timeout(5):
                    await waiting
            assert not channel.is_open
            with pytest.raises(ServerUnreachable):
                await channel.delete("crawl")
            await link.open(10.0)
            await declare_crawl(link, "crawl")

    asyncio.run(scenario())


def test_the_loop_may_stand_still(rabbit_server: PrivateRabbit, broker_url: str) -> None:
    """Beat runs the loop for moments only: a connection lost meanwhile is healed in the next."""
    loop = asyncio.new_event_loop()
    link = Link(broker_url, name="test")
    publisher = Publisher(link)
    try:
        loop.run_until_complete(link.open(10.0))
        loop.run_until_complete(declare_crawl(link, "crawl"))
        for moment in ("before", "after"):
            confirms = loop.run_until_complete(
                publisher.publish([message("crawl", moment)], timeout_s=10.0)
            )
            if moment == "before":
                assert confirms == [Confirm.CONFIRMED]
                cut(rabbit_server, broker_url)
        # The batch that met the dead connection may be unknown; the one after it is not.
        assert confirms in ([Confirm.UNKNOWN], [Confirm.CONFIRMED])
        confirms = loop.run_until_complete(publisher.publish([message("crawl", "third")], 10.0))
        assert confirms == [Confirm.CONFIRMED]
    finally:
        loop.run_until_complete(link.close())
        loop.close()


def test_a_closed_link_stays_closed(broker_url: str) -> None:
    """Nothing reconnects behind the back of whoever closed it."""

    async def scenario() -> None:
        async with linked(broker_url) as link:
            pass
        assert not link.connected
        with pytest.raises(ServerUnreachable, match="closed by us"):
            await link.open(1.0)

    asyncio.run(scenario())
