"""Two brokers that tell each other of their resources by class 61501; RestMS over HTTP at one, AMQP at the other.

Oslo has pipes and feeds (RestMS's words) of clients over HTTP, Rome exchanges and queues of clients over AMQP.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import trio

from endpoints.patience import patient
from endpoints.restms.caller import DEFAULT, DOMAIN, Caller, open_restms, read
from triomq.app import AMQP, Broker, Peer, Synchronise
from triomq.clients import AMQPChannel, BasicProperties, open_amqp
from triomq.errors import AccessRefused

HERE = AMQP(host="127.0.0.1", port=0)


patience = patient(60.0)


class Cities(NamedTuple):
    """Both brokers, a client over HTTP at Oslo, and one over AMQP at Rome."""

    oslo: Broker
    rome: Broker
    peers: tuple[Peer, Peer]
    caller: Caller
    channel: AMQPChannel

    async def told(self) -> None:
        """Wait until both know of each other's changes."""
        for peer in self.peers:
            await peer.wait_announced()


def url_of(broker: Broker) -> str:
    return f"amqp://guest:guest@127.0.0.1:{broker.listening[1].port}"


@asynccontextmanager
async def open_cities() -> AsyncIterator[Cities]:
    async with (
        open_restms(HERE, drain=0.1) as oslo,
        open_restms(HERE, drain=0.1) as rome,
        open_amqp(url_of(rome)) as connection,
        connection.open_channel() as channel,
    ):
        yield Cities(
            oslo,
            rome,
            (
                await oslo.synchronise(Synchronise(url_of(rome), origin="oslo", retry=0.01)),
                await rome.synchronise(Synchronise(url_of(oslo), origin="rome", retry=0.01)),
            ),
            Caller(oslo),
            channel,
        )


async def feeds(caller: Caller) -> dict[str, str]:
    """List the public feeds (RestMS's word) that no broker has of its own, with their types."""
    (domain,) = read(await caller.get(DOMAIN)).domains
    found = {feed.name or "": feed.type or "" for feed in domain.feeds}
    return {name: type_ for name, type_ in found.items() if name != "default" and not name.startswith("amq.")}


async def test_feed_and_pipe_of_http_are_an_exchange_and_a_queue_of_amqp_elsewhere() -> None:
    async with open_cities() as cities:
        caller, channel = cities.caller, cities.channel
        news = await caller.make_feed("news", "topic")
        private = (await caller.post(DOMAIN, '<feed type="fanout"/>')).headers["location"]
        pipe = await caller.make_pipe()
        await pipe.join(news, "weather.*")
        await pipe.join(private)
        await cities.told()
        properties = BasicProperties(content_type="text/plain", headers={"k": "v"}, message_id="7", delivery_mode=2)
        await channel.publish("news", "weather.rome", b"27 degrees", properties)
        await channel.publish("news", "sport.rome", b"nobody has asked")
        await channel.publish("", pipe.name, b"by its name")
        first = read(await caller.get(f"{pipe.path}?messages=9", Prefer="wait=30")).messages[0]
        assert (first.address, first.message_id, first.contents[0].type) == ("weather.rome", "7", "text/plain")
        assert [(header.name, header.value) for header in first.headers] == [("k", "v")]
        assert [await pipe.next(), await pipe.next()] == ["27 degrees", "by its name"]
        await caller.send(news, "5 degrees", address="weather.oslo")
        await channel.publish("news", "weather.rome", b"the last")
        assert [await pipe.next(), await pipe.next()] == ["5 degrees", "the last"]  # each once
        # Private names are no news to anybody.
        assert await feeds(Caller(cities.rome)) == await feeds(caller) == {"news": "topic"}


async def test_what_oslo_has_made_is_deleted_there_alone() -> None:
    async with open_cities() as cities:
        caller, there = cities.caller, Caller(cities.rome)
        news, work = await caller.make_feed("news", "topic"), await caller.make_feed("work", "rotator")
        pipe = await caller.make_pipe()
        join = await pipe.join(news)
        await cities.told()
        for feed in (news, work):
            assert (await there.get(feed)).status == 200
            assert (await there.delete(feed)).status == 403
            assert (await there.put(feed, '<feed title="ours"/>')).status == 403
        with pytest.raises(AccessRefused):
            await cities.channel.delete_exchange("news")
        for path in (join, pipe.path):
            assert (await there.get(path)).status == 404
        for path in (join, pipe.path, news, work):
            assert (await caller.delete(path)).status == 200
        await cities.told()
        assert await feeds(there) == {}
        assert list(cities.rome.directory.queues) == []


async def test_exchanges_and_queues_of_amqp_are_feeds_elsewhere_which_pipes_are_joined_to() -> None:
    async with open_cities() as cities:
        caller, channel = cities.caller, cities.channel
        await channel.declare_exchange("orders", "fanout")
        await channel.declare_queue("tasks")
        await channel.bind("tasks", "orders", "")
        await cities.told()
        assert await feeds(caller) == {"orders": "fanout", "tasks": "rotator"}
        for feed in ("orders", "tasks"):
            assert (await caller.delete(f"/restms/feed/{feed}")).status == 403
        pipe = await caller.make_pipe()
        await pipe.join("/restms/feed/orders")
        await cities.told()
        async with channel.consume("tasks") as tasks:
            await channel.publish("orders", "", b"from Rome")
            await caller.send("/restms/feed/orders", "from Oslo")
            await caller.send("/restms/feed/tasks", "for one of them")
            got = []
            async for task in tasks:
                with task:
                    got.append(task.body.decode())
                if len(got) == 3:
                    break
        assert sorted(got) == ["for one of them", "from Oslo", "from Rome"]
        assert sorted([await pipe.next(), await pipe.next()]) == ["from Oslo", "from Rome"]
        await caller.send(DEFAULT, "the last", address=pipe.name)
        await channel.publish("orders", "", b"behind it")
        assert sorted([await pipe.next(), await pipe.next()]) == ["behind it", "the last"]


async def test_request_of_http_is_answered_over_amqp_elsewhere() -> None:
    async with open_cities() as cities, trio.open_nursery() as nursery:
        caller, channel = cities.caller, cities.channel
        await channel.declare_queue("upper")
        replies = await caller.make_pipe()
        await cities.told()

        async def work() -> None:
            async with channel.consume("upper") as requests:
                async for request in requests:
                    with request:
                        found = request.properties
                        answer = BasicProperties(correlation_id=found.message_id)
                        await channel.publish("", found.reply_to or "", request.body.upper(), answer)

        nursery.start_soon(work)
        await caller.send("/restms/feed/upper", "who is there?", message_id="1", reply_to=replies.name)
        message = read(await caller.get((await replies.hrefs())[0])).messages[0]
        assert (message.correlation_id, message.contents[0].value) == ("1", "WHO IS THERE?")
        nursery.cancel_scope.cancel()


async def test_pipe_is_not_listed_and_cannot_be_read_elsewhere_over_http() -> None:
    async with open_cities() as cities:
        pipe = await cities.caller.make_pipe()
        await cities.told()
        there = Caller(cities.rome)
        assert (await there.get(pipe.path)).status == 404
        assert pipe.name not in (await there.get(DOMAIN)).body.decode()
        join = f'<join feed="/restms/feed/{pipe.name}"/>'
        assert (await there.post((await there.make_pipe()).path, join)).status == 404
