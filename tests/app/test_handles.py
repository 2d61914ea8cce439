"""What users hold: queues and sinks by name, whichever incarnation of their actors runs."""

import pytest
import trio
import trio.testing

from app.conftest import bodies, crash, fill, got, knock_out
from triomq.app import Broker, QueueHandle
from triomq.core import (
    Comparison,
    Condition,
    NoSuchQueue,
    NoSuchSink,
    Properties,
    QueueInUse,
    QueueNotEmpty,
    SinkInUse,
    make_predicate,
)
from triomq.errors import PreconditionFailed


async def test_handles_show_their_names(broker: Broker, queue: QueueHandle) -> None:
    assert repr(queue) == "<QueueHandle 'q'>"
    assert repr(broker.sink("amq.topic")) == "<SinkHandle 'amq.topic'>"


async def test_get_takes_one_message_or_none(broker: Broker, queue: QueueHandle) -> None:
    assert await queue.get() is None
    await fill(broker, b"1", b"2")
    delivery = await got(queue)
    assert delivery.body == b"1"
    assert (await queue.statistics()).ready == 1


async def test_queue_counts_its_messages(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"12", b"345", b"6")
    await queue.get()
    statistics = await queue.statistics()
    assert (statistics.ready, statistics.ready_bytes, statistics.unsettled, statistics.feeds) == (2, 4, 1, 0)
    assert (statistics.published, statistics.delivered, statistics.dropped) == (3, 1, 0)


async def test_purge_discards_ready_messages(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1", b"2", b"3")
    await queue.get()
    assert await queue.purge() == 2
    assert await queue.purge() == 0


async def test_queue_in_use_or_not_empty_is_not_deleted_if_asked(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1")
    with pytest.raises(QueueNotEmpty):
        await queue.delete(if_empty=True)
    async with queue.open_feed():
        with pytest.raises(QueueInUse):
            await queue.delete(if_unused=True)
    await queue.delete()
    await queue.delete()


async def test_queue_that_is_gone_is_not_found_and_may_come_again(broker: Broker, queue: QueueHandle) -> None:
    await queue.delete()
    for ask in (queue.get, queue.purge, queue.statistics):
        with pytest.raises(NoSuchQueue, match="'q'"):
            await ask()
    await broker.declare_queue("q")
    assert await queue.get() is None


async def test_handle_outlives_the_crash_of_its_queue(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1")
    crash(broker, "q")
    delivery = await got(queue)
    assert delivery.body == b"1"


async def test_question_waits_for_a_queue_that_is_being_restarted(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1")
    await knock_out(broker, "q")
    before = trio.current_time()
    assert (await queue.statistics()).ready == 1
    assert trio.current_time() - before >= 0.08


async def test_bindings_lead_from_sinks_to_queues_and_to_sinks(broker: Broker, queue: QueueHandle) -> None:
    shop = await broker.declare_sink("shop", "topic")
    mirror = await broker.declare_sink("mirror", "fanout")
    await shop.bind(mirror, "order.*")
    await mirror.bind(queue)
    await broker.publish("shop", "order.new", b"through")
    await shop.unbind(mirror, "order.*")
    await shop.unbind(mirror, "order.*")
    await broker.publish("shop", "order.new", b"nowhere")
    assert (await queue.statistics()).ready == 1


async def test_headers_sink_looks_at_headers(broker: Broker, queue: QueueHandle) -> None:
    from triomq.core import Properties

    sink = broker.sink("amq.headers")
    await sink.bind(queue, arguments={"x-match": "any", "n": 1, "m": 1})
    for headers in ({"n": 1}, {"m": 1, "n": 2}, {"o": 1}, None):
        await broker.publish("amq.headers", "", b"", Properties(headers=headers))
    assert (await queue.statistics()).ready == 2
    with pytest.raises(PreconditionFailed, match="x-match"):
        await sink.bind(queue, arguments={"x-match": "sometimes"})
    await sink.unbind(queue, arguments={"x-match": "any", "n": 1, "m": 1})


async def test_sink_in_use_is_not_deleted_if_asked(broker: Broker, queue: QueueHandle) -> None:
    sink = await broker.declare_sink("s")
    await sink.bind(queue, "k")
    with pytest.raises(SinkInUse):
        await sink.delete(if_unused=True)
    await sink.unbind(queue, "k")
    await sink.delete(if_unused=True)
    with pytest.raises(NoSuchSink):
        broker.sink("s")


async def test_binding_waits_for_a_sink_that_is_being_restarted(broker: Broker, queue: QueueHandle) -> None:
    sink = await broker.declare_sink("s", "fanout")
    ref = broker.directory.sinks["s"].ref
    for _ in range(2):
        await ref.wait_running()
        ref.crash(None, ValueError("a sink"))
    assert ref.state == "backing_off"
    before = trio.current_time()
    await sink.bind(queue)
    assert trio.current_time() - before >= 0.08
    await broker.publish("s", "", b"x")
    assert (await queue.statistics()).ready == 1


async def test_binding_may_ask_more_of_a_message_than_its_key(broker: Broker, queue: QueueHandle) -> None:
    shop = await broker.declare_sink("shop", "topic")
    dear = make_predicate([Condition("price", Comparison.AT_LEAST, 100)])
    await shop.bind(queue, "order.#", predicate=dear)
    for price in (99, 100):
        await broker.publish("shop", "order.new", b"%d" % price, Properties(headers={"price": price}))
    assert await bodies(queue, 1) == [(b"100", False)]
    await shop.unbind(queue, "order.#")  # another binding, which is not there
    await broker.publish("shop", "order.new", b"101", Properties(headers={"price": 101}))
    await shop.unbind(queue, "order.#", predicate=dear)
    await broker.publish("shop", "order.new", b"102", Properties(headers={"price": 102}))
    assert await bodies(queue, 1) == [(b"101", False)]
    assert await queue.get() is None


async def test_browse_returns_all_and_takes_nothing(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, *(b"%d" % number for number in range(5)))
    first = await queue.browse(limit=2)
    rest = await queue.browse(after=first[-1].id)
    assert [seen.body for seen in first + rest] == [b"0", b"1", b"2", b"3", b"4"]
    assert (await queue.statistics()).ready == 5
    assert await queue.browse(after=rest[-1].id) == []


async def test_discard_removes_messages_up_to_an_id(broker: Broker, queue: QueueHandle) -> None:
    await fill(broker, b"1", b"2", b"3")
    seen = await queue.browse(limit=2)
    await fill(broker, b"4")
    assert await queue.discard(seen[-1].id) == 2
    assert await bodies(queue, 2) == [(b"3", False), (b"4", False)]


async def test_feed_of_higher_priority_gets_messages_first(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed(prefetch=2) as low, queue.open_feed(prefetch=2, priority=1) as high:
        await fill(broker, b"1", b"2", b"3")
        assert [(await anext(high)).body for _ in range(2)] == [b"1", b"2"]
        assert (await anext(low)).body == b"3"


async def test_feed_with_no_local_gets_no_messages_of_this_program(broker: Broker, queue: QueueHandle) -> None:
    async with queue.open_feed(no_local=True) as strict:
        await fill(broker, b"1")
        with trio.move_on_after(1) as waited:
            await anext(strict)
        assert waited.cancelled_caught
