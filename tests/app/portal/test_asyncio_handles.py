"""Queues and sinks in asyncio."""

from app.portal.conftest import with_asyncio
from triomq.app.portal import AsyncioBroker


@with_asyncio
async def test_a_queue_is_counted_and_purged(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q", max_length=2)
    for _ in range(3):
        await broker.publish("", "q", b"x")
    assert (await queue.statistics()).ready == 2
    assert await queue.purge() == 2
    assert repr(queue) == "<AsyncioQueue 'q'>"


@with_asyncio
async def test_a_delivery_that_was_got_alone_is_put_back(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    await broker.publish("", "q", b"x")
    first = await queue.get()
    assert first is not None
    first.requeue()
    again = await queue.get()
    assert again is not None
    assert again.redelivered


@with_asyncio
async def test_a_sink_is_bound_unbound_and_deleted(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    sink = await broker.declare_sink("s", "fanout", auto_delete=False)
    await sink.bind(queue)
    await broker.publish("s", "", b"1")
    await sink.unbind(queue)
    await broker.publish("s", "", b"2")
    assert (await queue.statistics()).ready == 1
    await sink.delete(if_unused=True)
    assert repr(sink) == "<AsyncioSink 's'>"


@with_asyncio
async def test_a_queue_is_looked_into(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    for body in (b"1", b"2", b"3"):
        await broker.publish("", "q", body)
    first, second = await queue.browse(limit=2)
    assert (first.body, second.body) == (b"1", b"2")
    assert await queue.discard(first.id) == 1
    assert [left.body for left in await queue.browse()] == [b"2", b"3"]
