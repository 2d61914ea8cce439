"""Mistakes of programs, and their errors: what was found, what is allowed, what to do."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import pytest
import trio

from app.conftest import bodies, fill, got
from triomq import AMQP, Broker, Properties, QueueHandle, SinkHandle, Synchronise, open_broker
from triomq.actors import InPlaceActor
from triomq.app.portal import open_asyncio_broker, open_blocking_broker
from triomq.core import Outcome, settle
from triomq.errors import ActorStopped, NoSuchQueue

Anything: Any = object()


class Row(NamedTuple):
    """One mistake."""

    name: str
    make: Callable[[Any, Any, Any], Awaitable[object]]
    """With the broker, its queue ``q`` and its sink ``s``."""
    error: type[Exception]
    text: str


async def leave_and_iterate(broker: Broker, queue: QueueHandle, sink: SinkHandle) -> None:
    async with queue.open_feed() as feed:
        pass
    await anext(feed)


class Idler(InPlaceActor):
    """Does nothing."""


async def ack(broker: Broker, queue: QueueHandle, sink: SinkHandle) -> None:
    async with queue.open_feed() as feed:
        delivery = await anext(feed)
        try:
            delivery.ack()  # type: ignore[operator]
        finally:
            settle(delivery._batch, Outcome.RETURN)


async def open_and(**arguments: Any) -> None:
    async with open_broker(**arguments):
        raise AssertionError


async def open_feed(queue: QueueHandle, **arguments: Any) -> None:
    async with queue.open_feed(**arguments):
        raise AssertionError


async def listen(broker: Broker, *endpoints: Any) -> None:
    async with open_broker(*endpoints):
        raise AssertionError


async def other_domain(broker: Broker, queue: QueueHandle, sink: SinkHandle) -> None:
    other = await broker.add_domain("other")
    await sink.bind(await other.declare_queue("q"))


async def two_of_a_name(broker: Broker, queue: QueueHandle, sink: SinkHandle) -> None:
    await broker.declare_sink("q")
    await sink.bind("q")


async def say(function: Callable[[], object]) -> None:
    function()


ROWS = [
    # forgotten blocks
    Row("no async with", lambda b, q, s: say(lambda: open_broker().declare_queue), AttributeError, "async with open_"),
    Row("await open", lambda b, q, s: open_broker(), TypeError, "async with open_broker"),
    Row("with open", lambda b, q, s: say(lambda: open_broker().__enter__()), TypeError, "async with open_broker"),
    Row("feed not entered", lambda b, q, s: say(lambda: aiter(q.open_feed())), TypeError, "async with queue.open_feed"),
    Row("left feed", leave_and_iterate, trio.ClosedResourceError, "its block was left"),
    Row("a thread's with", lambda b, q, s: say(lambda: open_blocking_broker().queue), AttributeError, "with open_bl"),
    Row(
        "asyncio's with", lambda b, q, s: say(lambda: open_asyncio_broker().queue), AttributeError, "with open_asyncio"
    ),
    # endpoints and arguments of open_broker
    Row("listen to a port", lambda b, q, s: b.listen(5672), TypeError, r"AMQP\(port=5672\)"),
    Row("listen to a host", lambda b, q, s: b.listen("localhost"), TypeError, r"AMQP\(host=…"),
    Row("open with a port", lambda b, q, s: listen(b, 5672), TypeError, r"AMQP\(port=5672\)"),
    Row("open with the class", lambda b, q, s: listen(b, AMQP), TypeError, r"AMQP\(\), with parentheses"),
    Row("open with a list", lambda b, q, s: listen(b, [AMQP()]), TypeError, "a list"),
    Row("a password that is none", lambda b, q, s: open_and(users={"a": 5}), TypeError, r"users\['a'\] is of type int"),
    Row("a list of users", lambda b, q, s: open_and(users=["a"]), TypeError, r"\{name: password\}"),
    Row("one domain", lambda b, q, s: open_and(domains="shop"), TypeError, r"\['shop'\]"),
    Row("no domain", lambda b, q, s: open_and(domains=[]), ValueError, "at least one"),
    Row("negative drain", lambda b, q, s: open_and(drain=-1), ValueError, "drain is -1; it is a number of at least 0"),
    Row("negative mark", lambda b, q, s: open_and(memory_high_watermark=-1), ValueError, "of at least 0"),
    Row("no queue memory", lambda b, q, s: open_and(queue_memory=0), ValueError, "queue_memory is 0"),
    Row(
        "a host of no kind", lambda b, q, s: open_and(store_host="disk"), ValueError, "allowed are 'process', 'thread'"
    ),
    Row("a peer by its URL", lambda b, q, s: b.synchronise("amqp://x"), TypeError, "Synchronise"),
    # declaring
    Row("no such kind", lambda b, q, s: b.declare_sink("n", "topics"), ValueError, "'topic', .*did you mean 'topic'"),
    Row(
        "no such overflow",
        lambda b, q, s: b.declare_queue("n", overflow="drop_head"),
        ValueError,
        "allowed are 'drop-head', 'reject-publish', .*; did you mean 'drop-head'",
    ),
    Row(
        "a length as text",
        lambda b, q, s: b.declare_queue("n", max_length="5"),
        TypeError,
        "max_length is '5'; it is a",
    ),
    Row(
        "half a message",
        lambda b, q, s: b.declare_queue("n", max_length=1.5),
        TypeError,
        "max_length is 1.5; it is a",
    ),
    Row("a negative limit", lambda b, q, s: b.declare_queue("n", delivery_limit=-1), ValueError, "of at least 0"),
    Row(
        "a time as text",
        lambda b, q, s: b.declare_queue("n", message_ttl="5s"),
        TypeError,
        "message_ttl is '5s'; it is a",
    ),
    Row(
        "a flag as text",
        lambda b, q, s: b.declare_queue("n", durable="no"),
        TypeError,
        "durable is 'no'; it is",
    ),
    Row("a queue without a name", lambda b, q, s: b.declare_queue(""), ValueError, "needs a name"),
    Row("a sink without a name", lambda b, q, s: b.declare_sink(""), ValueError, "needs a name"),
    Row("a reserved queue", lambda b, q, s: b.declare_queue("amq.foo"), ValueError, "'amq.' are those of the broker"),
    Row("a reserved sink", lambda b, q, s: b.declare_sink("amq.foo"), ValueError, "'amq.' are those of the broker"),
    Row("a name as bytes", lambda b, q, s: b.declare_queue(b"n"), TypeError, "decode it"),
    Row("a domain without text", lambda b, q, s: b.add_domain(5), TypeError, "it is a str"),
    # binding
    Row("bind to nothing", lambda b, q, s: s.bind("nope"), NoSuchQueue, "'nope'"),
    Row("bind to a number", lambda b, q, s: s.bind(5), TypeError, "the handle of a queue or of a sink, or its name"),
    Row("bind into another domain", other_domain, ValueError, "nothing leads there"),
    Row("bind to one of two", two_of_a_name, ValueError, "both a queue and a sink are called 'q'"),
    Row("a key that is no text", lambda b, q, s: s.bind(q, 5), TypeError, "the key is 5"),
    # publishing
    Row("a str body", lambda b, q, s: b.publish("", "q", "42"), TypeError, r"encode it, body.encode\(\)"),
    Row("a dict body", lambda b, q, s: b.publish("", "q", {"a": 1}), TypeError, "json.dumps"),
    Row("no body", lambda b, q, s: b.publish("", "q", None), TypeError, 'an empty one is b""'),
    Row("a str body, at once", lambda b, q, s: say(lambda: b.publish_nowait("", "q", "42")), TypeError, "encode it"),
    Row(
        "dict properties", lambda b, q, s: b.publish("", "q", b"", {"a": 1}), TypeError, r"Properties\(headers=\{…\}\)"
    ),
    Row(
        "empty dict properties", lambda b, q, s: b.publish("", "q", b"", {}), TypeError, r"Properties\(headers=\{…\}\)"
    ),
    Row("text as properties", lambda b, q, s: b.publish("", "q", b"", "json"), TypeError, "a Properties or None"),
    Row("a key as bytes", lambda b, q, s: b.publish("", b"q", b""), TypeError, "the key is b'q'; .*decode it"),
    Row("a queue as the sink", lambda b, q, s: b.publish(q, "", b""), TypeError, r'publish\("", \'q\', body\)'),
    Row("a number as the sink", lambda b, q, s: b.publish(5, "", b""), TypeError, "the sink is 5"),
    Row(
        "a delay as text", lambda b, q, s: b.publish("", "q", b"", delay="5"), TypeError, "delay is '5'; it is a number"
    ),
    Row(
        "a priority as text",
        lambda b, q, s: b.publish("", "q", b"", Properties(priority="high")),  # type: ignore[arg-type]
        ValueError,
        "the property priority cannot be published: Expected int",
    ),
    # consuming
    Row("browse a negative number", lambda b, q, s: q.browse(limit=-1), ValueError, "limit is -1"),
    Row("discard by text", lambda b, q, s: q.discard("5"), TypeError, "up_to is '5'"),
    Row("ack", ack, AttributeError, r"a delivery has no 'ack'; use accept\(\), or `with delivery:`"),
    Row("an actor that is none", lambda b, q, s: b.system.start(lambda: 5), TypeError, "factory gave 5, of type int"),
    Row(
        "a class of actors",
        lambda b, q, s: b.system.start(lambda: Idler),
        TypeError,
        "factory gave the class Idler",
    ),
    Row(
        "a negative prefetch", lambda b, q, s: open_feed(q, prefetch=-1), ValueError, "prefetch is -1; .*of at least 0"
    ),
    Row(
        "a prefetch as text", lambda b, q, s: open_feed(q, prefetch="5"), TypeError, "prefetch is '5'; .*of at least 0"
    ),
    Row("a priority of a feed", lambda b, q, s: open_feed(q, priority=1 << 40), ValueError, "from -2147483648 to"),
    Row("exclusive as text", lambda b, q, s: open_feed(q, exclusive="no"), TypeError, "True or False"),
]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
async def test_mistake_is_an_error_with_what_is_allowed(broker: Broker, queue: QueueHandle, row: Row) -> None:
    sink = await broker.declare_sink("s")
    await fill(broker, b"1", b"2")
    with pytest.raises(row.error, match=row.text), trio.fail_after(60):
        await row.make(broker, queue, sink)
    assert await bodies(queue, 2) == [(b"1", False), (b"2", False)]


async def test_names_do_where_handles_do(broker: Broker, queue: QueueHandle) -> None:
    sink, other = await broker.declare_sink("s"), await broker.declare_sink("other", "fanout")
    await sink.bind("q", "k")
    await sink.bind("other", "k")
    await broker.publish(sink, "k", b"1")
    broker.publish_nowait(sink, "k", b"2")
    assert [body for body, _ in await bodies(queue, 2)] == [b"1", b"2"]
    await sink.unbind("q", "k")
    await sink.unbind(other, "k")
    await sink.unbind("gone", "k")
    await sink.delete(if_unused=True)
    await broker.declare_queue("letters", dead_letter_sink=other)
    await broker.declare_sink("further", alternate=other)
    assert broker.directory.queues["letters"].options.dead_letter_sink == "other"


# Where it is used

CLOSED: list[tuple[str, Callable[[Broker, QueueHandle, SinkHandle], Awaitable[object]]]] = [
    ("publish", lambda b, q, s: b.publish("", "q", b"")),
    ("publish_nowait", lambda b, q, s: say(lambda: b.publish_nowait("", "q", b""))),
    ("publish to nobody", lambda b, q, s: b.publish("", "nobody", b"")),
    ("declare_queue", lambda b, q, s: b.declare_queue("n")),
    ("declare_sink", lambda b, q, s: b.declare_sink("n")),
    ("queue", lambda b, q, s: say(lambda: b.queue("q"))),
    ("sink", lambda b, q, s: say(lambda: b.sink("s"))),
    ("domain", lambda b, q, s: say(lambda: b.domain("default"))),
    ("add_domain", lambda b, q, s: b.add_domain("n")),
    ("listen", lambda b, q, s: b.listen(AMQP(port=0))),
    ("synchronise", lambda b, q, s: b.synchronise(Synchronise("amqp://localhost"))),
    ("set_users", lambda b, q, s: say(lambda: b.set_users(None))),
    ("put_user", lambda b, q, s: say(lambda: b.put_user("a", "b"))),
    ("remove_user", lambda b, q, s: say(lambda: b.remove_user("a"))),
    ("set_policies", lambda b, q, s: b.set_policies([])),
    ("back_up", lambda b, q, s: b.back_up("x")),
    ("wait_idle", lambda b, q, s: b.wait_idle()),
    ("forget_origin", lambda b, q, s: b.forget_origin("x")),
    ("get", lambda b, q, s: q.get()),
    ("browse", lambda b, q, s: q.browse()),
    ("purge", lambda b, q, s: q.purge()),
    ("discard", lambda b, q, s: q.discard(1)),
    ("statistics", lambda b, q, s: q.statistics()),
    ("delete", lambda b, q, s: q.delete()),
    ("open_feed", lambda b, q, s: open_feed(q)),
    ("bind", lambda b, q, s: s.bind(q)),
    ("unbind", lambda b, q, s: s.unbind(q)),
    ("delete a sink", lambda b, q, s: s.delete()),
]


@pytest.mark.parametrize("call", [call for _, call in CLOSED], ids=[name for name, _ in CLOSED])
async def test_closed_broker_raises_that_it_is_closed(
    virtual_time: None, call: Callable[[Broker, QueueHandle, SinkHandle], Awaitable[object]]
) -> None:
    async with open_broker() as broker:
        queue, sink = await broker.declare_queue("q"), await broker.declare_sink("s")
    with pytest.raises(ActorStopped, match="this broker is closed: the block of open_broker was left"):
        await call(broker, queue, sink)


async def test_error_in_a_thread_names_open_blocking_broker_and_nothing_is_broken(
    broker: Broker, queue: QueueHandle
) -> None:
    await fill(broker, b"1")
    delivery = await got(queue)
    for call in (partial(broker.publish_nowait, "", "q", b"x"), delivery.accept):
        with pytest.raises(
            RuntimeError, match=r"this is thread 'worker'.*open_blocking_broker.*BlockingBroker\(portal\)"
        ):
            await in_thread(call)
    delivery.accept()
    await broker.publish("", "q", b"2")
    assert await bodies(queue, 1) == [(b"2", False)]


async def test_error_in_a_loop_of_asyncio_names_open_asyncio_broker(broker: Broker, queue: QueueHandle) -> None:
    for call in (partial(broker.publish, "", "q", b"x"), queue.statistics, partial(broker.declare_queue, "n")):
        with pytest.raises(RuntimeError, match=r"open_asyncio_broker.*AsyncioBroker\(portal\)"):
            await in_thread(lambda call=call: asyncio.run(call()))  # type: ignore[misc]
    await broker.publish("", "q", b"2")
    assert await bodies(queue, 1) == [(b"2", False)]


async def in_thread(function: Callable[[], object]) -> None:
    """Run a function in a thread of its own, while the broker stands still: nothing real waits."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="worker")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def test_asyncio_is_named_where_a_broker_is_opened_under_it() -> None:
    async def main() -> None:
        async with open_broker():
            raise AssertionError

    with pytest.raises(RuntimeError, match="this runs under asyncio; use `async with open_asyncio_broker"):
        asyncio.run(main())


def test_trio_is_named_where_nothing_runs() -> None:
    with pytest.raises(RuntimeError, match=r"Trio, which does not run here; .*trio.run\(main\).*open_blocking_broker"):
        open_broker().__aenter__().send(None)  # type: ignore[attr-defined]


async def test_queue_that_is_not_there_is_named_in_the_log_once_a_minute(
    broker: Broker, queue: QueueHandle, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.declare_queue("orders")
    for _ in range(3):
        await broker.publish("", "ordres", b"42")
    await broker.publish("amq.topic", "nobody", b"")  # nobody listens: that is what topics are for
    (record,) = caplog.records
    assert (record.levelname, record.__dict__["fields"]) == ("WARNING", {"key": "ordres", "close": "orders"})
    assert "mandatory=True" in record.message


async def test_delivery_that_is_settled_too_late_leaves_a_line(
    broker: Broker, queue: QueueHandle, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(broker, b"1", b"2")
    async with queue.open_feed() as feed:
        deliveries = [await anext(feed), await anext(feed)]
    for delivery in deliveries:
        delivery.accept()
    (record,) = caplog.records
    assert (record.levelname, record.__dict__["fields"]) == ("WARNING", {"queue": "q", "outcome": "accept"})
    assert await bodies(queue, 2) == [(b"1", True), (b"2", True)]


async def test_feed_that_stands_still_for_want_of_settling_says_so_once(
    broker: Broker, queue: QueueHandle, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(broker, b"1", b"2", b"3")
    async with queue.open_feed(prefetch=2) as feed:
        with trio.move_on_after(59):
            async for _ in feed:
                pass
        assert caplog.records == []
        with trio.move_on_after(300):
            await anext(feed)
    (record,) = caplog.records
    fields = {"queue": "q", "unsettled": 2, "seconds": 60.0}
    assert (record.levelname, record.__dict__["fields"]) == ("WARNING", fields)
    assert "with delivery" in record.message


# The same from outside of Trio


def test_threads_get_the_same_errors_and_give_names_too() -> None:
    with open_blocking_broker() as broker:
        queue, sink = broker.declare_queue("q"), broker.declare_sink("s")
        sink.bind("q", "k")
        broker.publish(sink, "k", b"1")
        with pytest.raises(ValueError, match="prefetch is -1"), queue.open_feed(prefetch=-1):
            raise AssertionError
        with pytest.raises(TypeError, match="encode it"):
            broker.publish("", "q", "42")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="the handle of a queue or of a sink, or its name"):
            sink.bind(5)  # type: ignore[arg-type]
        with queue.open_feed() as feed:
            delivery = feed.take(timeout=100)
            assert delivery is not None
            assert delivery.body == b"1"
    with pytest.raises(ActorStopped, match="the block in which it was open was left"):
        broker.publish("", "q", b"")


def test_tasks_of_asyncio_get_the_same_errors_and_give_names_too() -> None:
    async def main() -> None:
        async with open_asyncio_broker() as broker:
            queue, sink = await broker.declare_queue("q"), await broker.declare_sink("s")
            await sink.bind("q", "k")
            await broker.publish(sink, "k", b"1")
            with pytest.raises(ValueError, match="prefetch is -1"):
                async with queue.open_feed(prefetch=-1):
                    raise AssertionError
            with pytest.raises(TypeError, match="write it as such"):
                await broker.publish("", "q", {"a": 1})  # type: ignore[arg-type]
            async with queue.open_feed() as feed:
                assert (await anext(feed)).body == b"1"

    asyncio.run(main())
