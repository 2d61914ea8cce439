"""Of clients the log has their protocols, and which of them were lost, with how many deliveries."""

from collections.abc import AsyncIterator

import pytest
import trio

from core.harness import open_harness
from endpoints.client import Client
from endpoints.conftest import dial, endpoint_of, open_client, virtual_time  # noqa: F401  # a fixture
from endpoints.emqp.conftest import CALL
from endpoints.emqp.raw import RawPeer
from triomq.app import Broker, open_broker
from triomq.clients import open_amqp, open_dmp_feed, open_dmp_sink
from triomq.core import Head, Publish, traits_of
from triomq.endpoints import AMQP, EMQP, AMQPEndpoint
from triomq.endpoints.amqp.connection import AMQPServerConnection
from triomq.protocols.amqp import BasicAck, BasicConsume, BasicConsumeOk
from triomq.tracelog import recorder as recorder_module

from .conftest import Row, Traced


@pytest.fixture
async def broker(traced: Traced, virtual_time: None) -> AsyncIterator[Broker]:  # noqa: F811  # the fixture
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        broker.directory.trace(traced.recorder)
        yield broker


async def consuming(endpoint: AMQPEndpoint, **wishes: object) -> Client:
    """Connect a client that has two messages and has settled one."""
    client = await open_client(endpoint, **wishes)
    await client.declare("q")
    await client.send(1, "", "q", b"1", b"2")
    await client.call(1, BasicConsume("q"), BasicConsumeOk)
    await client.deliveries(2)
    await client.say(1, BasicAck(1))
    return client


def lost(traced: Traced) -> list[tuple[object, ...]]:
    names = ("consumer", "protocol", "error", "size")
    return [tuple(row[name] for name in names) for row in traced.take() if row["kind"] == "peer-lost"]


async def test_client_that_goes_without_a_word_is_lost_with_what_it_had(broker: Broker, traced: Traced) -> None:
    client = await consuming(endpoint_of(broker))
    await client.hang_up()
    await trio.sleep(5)
    ((consumer, *rest),) = lost(traced)
    assert rest == ["amqp", "the client went away without closing (memory)", 1]
    assert str(consumer).endswith("connection-1")


async def test_client_that_is_silent_is_lost(broker: Broker, traced: Traced) -> None:
    await consuming(endpoint_of(broker), heartbeat=10)
    await trio.sleep(60)
    assert [row[1:] for row in lost(traced)] == [("amqp", "no heartbeat came (memory)", 1)]


async def test_client_that_closes_in_order_or_has_nothing_is_not_lost(broker: Broker, traced: Traced) -> None:
    polite, idle = await consuming(endpoint_of(broker)), await open_client(endpoint_of(broker))
    await polite.leave()
    await idle.hang_up()
    await trio.sleep(5)
    assert not lost(traced)


async def test_silent_worker_is_lost_with_its_jobs(traced: Traced) -> None:
    async with (
        open_broker(EMQP(port=0, heartbeat=0.1, silence=0.3), drain=0.0) as broker,
        trio.open_nursery() as nursery,
    ):
        broker.directory.trace(traced.recorder)
        worker, client = RawPeer(broker.listening[0].port), RawPeer(broker.listening[0].port)
        nursery.start_soon(worker.run)
        nursery.start_soon(client.run)
        await worker.work("q", ready=1, extended=True)
        await client.join()
        await client.request(CALL)
        await worker.hear(b"REQUEST")
        found: list[tuple[object, ...]] = []
        with trio.fail_after(60):
            while not found:
                await trio.sleep(0.05)  # a thread of libzmq works
                found = [row for row in lost(traced) if row[-1]]
        nursery.cancel_scope.cancel()
    ((_, protocol, error, size),) = found
    assert (protocol, size) == ("emqp", 1)
    assert str(error).startswith("the peer is silent")


async def test_client_that_the_broker_lets_go_is_not_lost(broker: Broker, traced: Traced) -> None:
    await consuming(endpoint_of(broker), heartbeat=10)
    (connection,) = [child.actor for child in endpoint_of(broker).children.values()]
    assert isinstance(connection, AMQPServerConnection)
    connection.ending = "the broker is shutting down"
    await trio.sleep(60)
    assert not lost(traced)


async def test_rows_have_the_protocols_of_publisher_and_consumer(traced: Traced) -> None:
    with trio.fail_after(60):
        async with open_broker(AMQP(port=0)) as broker:
            broker.directory.trace(traced.recorder)
            url = f"amqp://127.0.0.1:{broker.listening[0].port}"
            async with open_amqp(url) as connection, connection.open_channel() as channel:
                for name in ("amqp", "dmp", "local"):
                    await channel.declare_queue(name, exclusive=name == "dmp")
                await channel.publish("", "amqp", b"1")
                await broker.publish("", "dmp", b"1")
                async with open_dmp_sink(channel, "") as sink, open_dmp_feed(channel, "dmp") as feed:
                    await sink.publish("local", b"1")
                    await anext(feed)
                async with channel.consume("amqp") as deliveries:
                    (await anext(deliveries)).accept()
                async with broker.queue("local").open_feed() as local:
                    (await anext(local)).accept()
    rows = {(row["kind"], row["queue"]): row.get("protocol") for row in traced.take()}
    assert [rows["queued", name] for name in ("amqp", "local")] == ["amqp", "dmp"]
    assert [rows["delivered", name] for name in ("amqp", "dmp", "local")] == ["amqp", "dmp", "local"]


async def test_session_that_has_ended_is_known_for_a_while(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_MOST_ENDED", 1)
    for session in (1, 2):
        traced.recorder.entered("domain", session, None, "amqp")
        traced.recorder.session_ended("domain", session)
    async with open_harness() as harness:
        harness.directory.trace(traced.recorder)
        for session in (1, 2, 3):
            head = Head(routing_key="q", traits=traits_of(publisher=session))
            harness.queue().ref.tell_nowait(Publish(head, [b"1"], 1))
    found: list[Row] = [row for row in traced.take() if row["kind"] == "queued"]
    assert [row.get("protocol") for row in found] == [None, "amqp", None]
