"""What holds for threads and for asyncio alike: brokers, domains, sinks, queues and feeds through a portal."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import signature
from pathlib import Path

import pytest
import trio

from app.portal.conftest import OpenBroker, fill, in_both, ruin, take, with_both
from triomq.app import AMQP, DomainHandle, QueueHandle, SinkHandle, StreamHandle, open_broker
from triomq.app.portal import (
    AsyncioBroker,
    AsyncioDomain,
    AsyncioQueue,
    AsyncioSink,
    AsyncioStream,
    BlockingDomain,
    BlockingQueue,
    BlockingSink,
    BlockingStream,
)
from triomq.app.portal.arguments import (
    BrokerArguments,
    FeedArguments,
    QueueArguments,
    ReadArguments,
    SinkArguments,
    StreamArguments,
)
from triomq.core import Comparison, Condition, Inequivalent, InExclusiveUse, NoSuchQueue, Properties, make_predicate
from triomq.errors import ActorStopped, ConfigError, NotFound, RestartLimitExceeded, Unroutable


@with_both
async def test_message_published_is_got_and_settled(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    shop = await broker.declare_sink("shop", "topic")
    await shop.bind(queue, "order.*")
    await broker.publish(shop, "order.new", b"42", Properties(message_id="7"))
    delivery = await queue.get()
    assert delivery is not None
    assert (delivery.body, delivery.sink, delivery.key) == (b"42", "shop", "order.new")
    assert delivery.properties.message_id == "7"
    assert not delivery.redelivered
    delivery.accept()
    assert await queue.get() is None


@with_both
async def test_broker_is_used_by_many_at_once(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    await asyncio.gather(*[broker.publish("", "q", str(number).encode()) for number in range(200)])
    found = await asyncio.gather(*[queue.get() for _ in range(200)])
    assert sorted(int(delivery.body) for delivery in found if delivery) == list(range(200))


@with_both
async def test_errors_of_the_broker_are_raised_by_the_call(broker: AsyncioBroker) -> None:
    await broker.declare_queue("q")
    with pytest.raises(Inequivalent):
        await broker.declare_queue("q", max_length=1)
    with pytest.raises(Unroutable):
        await broker.publish("amq.topic", "nobody", b"", mandatory=True)
    with pytest.raises(NoSuchQueue):
        broker.queue("other")
    with pytest.raises(ValueError, match="'blue'"):
        await broker.declare_sink("s", "blue")  # type: ignore[arg-type]  # that is the mistake


@with_both
async def test_handles_are_found_by_name(broker: AsyncioBroker) -> None:
    await fill(broker, b"")
    queue, sink = broker.queue("q"), broker.sink("amq.topic")
    assert (queue.name, sink.name) == ("q", "amq.topic")
    assert (await queue.statistics()).ready == 1
    assert repr(queue) == "<AsyncioQueue 'q'>"
    assert repr(sink) == "<AsyncioSink 'amq.topic'>"


@in_both
async def test_domains_are_apart(opener: OpenBroker) -> None:
    async with opener(domains=["a", "b"]) as broker:
        await broker.declare_queue("q")
        with pytest.raises(NoSuchQueue):
            broker.domain("b").queue("q")
        assert broker.domain("a").queue("q").name == "q"
        with pytest.raises(NotFound):
            broker.domain("c")


@with_both
async def test_endpoint_listens_and_stops_listening(broker: AsyncioBroker) -> None:
    listening = await broker.listen(AMQP(host="127.0.0.1", port=0))
    assert listening.address == ("127.0.0.1", listening.port)
    assert [other.port for other in broker.listening] == [listening.port]
    _, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    writer.close()
    await listening.aclose()
    assert broker.listening == []


@in_both
async def test_idle_is_waited_for(opener: OpenBroker) -> None:
    async with opener() as broker:
        queue = await fill(broker, b"")
        delivery = await queue.get()
        assert delivery is not None
        waiting = asyncio.create_task(broker.wait_idle())
        await asyncio.sleep(0)
        assert not waiting.done()
        delivery.accept()
        await waiting


@in_both
async def test_store_is_backed_up_and_opened_again(opener: OpenBroker, tmp_path: Path) -> None:
    async with opener(data_dir=tmp_path / "data", store_host="thread") as broker:
        await fill(broker, b"x")
        await broker.back_up(tmp_path / "copy")
    async with opener(data_dir=tmp_path / "copy", store_host="thread") as broker:
        assert await take(broker.queue("q"), 1) == [(b"x", False)]


@with_both
async def test_queue_is_counted_purged_and_deleted(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q", max_length=2)
    for _ in range(3):
        await broker.publish("", "q", b"x")
    assert (await queue.statistics()).ready == 2
    assert await queue.purge() == 2
    assert await queue.get() is None
    await queue.delete(if_unused=True, if_empty=True)
    with pytest.raises(NoSuchQueue):
        broker.queue("q")


@with_both
async def test_queue_is_browsed_and_discarded_from(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1", b"2", b"3")
    first, second = await queue.browse(limit=2)
    assert (first.body, second.body) == (b"1", b"2")
    assert await queue.discard(first.id) == 1
    assert [left.body for left in await queue.browse()] == [b"2", b"3"]


@with_both
async def test_delivery_that_was_got_alone_is_put_back(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"x")
    first = await queue.get()
    assert first is not None
    first.requeue()
    again = await queue.get()
    assert again is not None
    assert again.redelivered
    again.accept()
    assert (await queue.statistics()).unsettled == 0


@with_both
async def test_sink_is_bound_unbound_and_deleted(broker: AsyncioBroker) -> None:
    queue = await broker.declare_queue("q")
    sink = await broker.declare_sink("s", "fanout")
    other = await broker.declare_sink("t", "fanout", auto_delete=False)
    await sink.bind(other)
    await other.bind(queue)
    await broker.publish("s", "", b"1")
    await sink.unbind(other)
    await broker.publish("s", "", b"2")
    assert (await queue.statistics()).ready == 1
    await other.delete()
    await sink.delete(if_unused=True)


@with_both
async def test_binding_asks_for_headers_besides(broker: AsyncioBroker) -> None:
    queue, sink = await broker.declare_queue("q"), broker.sink("amq.topic")
    blue = make_predicate([Condition("colour", Comparison.EQUAL, "blue")])
    await sink.bind(queue, "k", predicate=blue)
    for colour in ("red", "blue"):
        await broker.publish("amq.topic", "k", b"", Properties(headers={"colour": colour}))
    assert (await queue.statistics()).ready == 1
    await sink.unbind(queue, "k", predicate=blue)
    await broker.publish("amq.topic", "k", b"", Properties(headers={"colour": "blue"}))
    assert (await queue.statistics()).ready == 1


@with_both
async def test_feed_yields_messages_that_are_there_and_that_come(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1", b"2")
    found: list[bytes] = []
    async with queue.open_feed() as feed:
        async for delivery in feed:
            with delivery:
                found.append(delivery.body)
            if len(found) == 2:
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, fill(broker, b"3"))
            if len(found) == 3:
                break
    assert found == [b"1", b"2", b"3"]
    statistics = await queue.statistics()
    assert (statistics.ready, statistics.unsettled, statistics.feeds) == (0, 0, 0)


@with_both
async def test_feed_that_is_left_puts_back_what_is_unsettled_and_marks_what_was_seen(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1", b"2", b"3", b"4")
    async with queue.open_feed() as feed:
        await anext(feed)
        (await anext(feed)).accept()
    assert await take(queue, 3) == [(b"1", True), (b"3", False), (b"4", False)]


@with_both
async def test_feed_that_closes_does_not_deliver_again_what_it_puts_back(broker: AsyncioBroker) -> None:
    queue = await fill(broker, *[b"x"] * 6)
    async with queue.open_feed(prefetch=2):
        pass
    assert await take(queue, 6) == [(b"x", False)] * 6


@with_both
async def test_delivery_block_accepts_or_puts_back(broker: AsyncioBroker) -> None:
    queue = await fill(broker, b"1")
    async with queue.open_feed(prefetch=1) as feed:
        with pytest.raises(KeyError), await anext(feed):
            raise KeyError
        again = await anext(feed)
        assert again.redelivered
        again.reject()
        again.requeue()  # a second settling does nothing
    assert (await queue.statistics()).ready == 0


@with_both
async def test_feed_ends_when_its_queue_is_deleted(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed() as feed:
        await queue.delete()
        assert [delivery async for delivery in feed] == []


@with_both
async def test_feed_that_was_closed_ends_its_iteration(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed() as feed:
        pass
    assert [delivery async for delivery in feed] == []


@with_both
async def test_feed_that_cannot_be_opened_raises_the_reason(broker: AsyncioBroker) -> None:
    queue = await fill(broker)
    async with queue.open_feed(exclusive=True):
        with pytest.raises(InExclusiveUse):
            async with queue.open_feed():
                raise AssertionError
    await queue.delete()
    with pytest.raises(NoSuchQueue):
        async with queue.open_feed():
            raise AssertionError


@in_both
async def test_start_that_fails_raises_its_error_bare(opener: OpenBroker) -> None:
    with pytest.raises(ConfigError, match="open to other machines"):
        async with opener(AMQP(host="0.0.0.0", port=0)):
            raise AssertionError


@in_both
async def test_calls_after_the_block_raise_that_it_was_left(opener: OpenBroker) -> None:
    async with opener() as broker:
        queue = await broker.declare_queue("q")
    with pytest.raises(ActorStopped, match="was left"):
        await broker.publish("", "q", b"")
    with pytest.raises(ActorStopped, match="was left"):
        await queue.get()


@in_both
async def test_feed_that_waits_when_the_block_is_left_raises(opener: OpenBroker) -> None:
    async def consume(queue: AsyncioQueue, waits: asyncio.Event) -> None:
        async with queue.open_feed() as feed:
            waits.set()
            await anext(feed)

    async with opener() as broker:
        waits = asyncio.Event()
        task = asyncio.create_task(consume(await broker.declare_queue("q"), waits))
        await waits.wait()
    with pytest.raises(ActorStopped):
        await task


async def crash(opener: OpenBroker, use: Callable[[AsyncioBroker], Awaitable[object]]) -> None:
    """Let a broker fail as a whole, and go on in its block."""
    async with opener() as broker:
        queue = await broker.declare_queue("q")
        async with queue.open_feed() as feed:
            await asyncio.to_thread(ruin, broker.portal)
            with pytest.raises((RestartLimitExceeded, trio.BrokenResourceError)):
                await anext(feed)
        await use(broker)


async def do_nothing(broker: AsyncioBroker) -> None:
    pass


async def raise_what_follows(broker: AsyncioBroker) -> None:
    raise trio.BrokenResourceError("the domain of this feed is gone")


async def raise_its_own(broker: AsyncioBroker) -> None:
    raise KeyError("mine")


async def call(broker: AsyncioBroker) -> None:
    with pytest.raises(RestartLimitExceeded):
        broker.queue("q")
    await broker.publish("", "q", b"")


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("use", [do_nothing, raise_what_follows, call])
@in_both
async def test_crash_of_the_broker_is_raised_by_feeds_calls_and_the_block(
    opener: OpenBroker, use: Callable[[AsyncioBroker], Awaitable[None]]
) -> None:
    with pytest.raises(RestartLimitExceeded):
        await crash(opener, use)


@pytest.mark.usefixtures("quiet_log")
@in_both
async def test_error_of_the_block_goes_before_a_crash_and_notes_it(opener: OpenBroker) -> None:
    with pytest.raises(KeyError) as caught:
        await crash(opener, raise_its_own)
    assert "RestartLimitExceeded" in "".join(caught.value.__notes__)


@in_both
async def test_error_of_the_block_comes_out_as_it_is(opener: OpenBroker) -> None:
    with pytest.raises(KeyError) as caught:
        async with opener():
            raise KeyError("mine")
    assert not hasattr(caught.value, "__notes__")


METHODS = ("publish", "get", "browse", "discard", "purge", "statistics", "delete", "bind", "unbind")


def test_methods_take_the_arguments_of_those_in_trio() -> None:
    handles: list[tuple[object, object, object]] = [
        (DomainHandle, BlockingDomain, AsyncioDomain),
        (QueueHandle, BlockingQueue, AsyncioQueue),
        (SinkHandle, BlockingSink, AsyncioSink),
        (StreamHandle, BlockingStream, AsyncioStream),
    ]
    for trio_handle, blocking, in_asyncio in handles:
        for name in (
            "publish",
            "get",
            "browse",
            "discard",
            "purge",
            "statistics",
            "delete",
            "bind",
            "unbind",
            "set_position",
            "forget_group",
        ):
            if hasattr(trio_handle, name):
                takes = list(signature(getattr(trio_handle, name)).parameters)
                assert list(signature(getattr(in_asyncio, name)).parameters) == takes
                assert list(signature(getattr(blocking, name)).parameters) == [*takes, "timeout"]


def test_arguments_that_are_handed_on_are_those_of_the_broker() -> None:
    for method, arguments in (
        (open_broker, BrokerArguments),
        (DomainHandle.declare_queue, QueueArguments),
        (DomainHandle.declare_sink, SinkArguments),
        (DomainHandle.declare_stream, StreamArguments),
        (QueueHandle.open_feed, FeedArguments),
        (StreamHandle.read, ReadArguments),
    ):
        takes = {name: p.annotation for name, p in signature(method).parameters.items() if p.kind is p.KEYWORD_ONLY}
        assert takes == arguments.__annotations__
