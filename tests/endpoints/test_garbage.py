"""Nothing is left for the collector when something ends: a broker on its own lets it look seldom.

Each scene is played with the collector off; then what only it would find is counted, and what grows.
"""

import gc
import ssl
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

from endpoints.client import Client
from endpoints.conftest import dial, endpoint_of
from endpoints.direct import Direct, lease_feed, lease_sink
from triomq.app import Broker, open_broker
from triomq.core import Properties
from triomq.endpoints import AMQP, TLS
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    BasicPublish,
    BasicQos,
    ChannelClosed,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDelete,
    QueueUnbind,
    TxCommit,
    TxSelect,
)

Scene = Callable[[Broker], Awaitable[None]]

TIMES = 5


async def enter(broker: Broker, *channels: int) -> Client:
    client = dial(endpoint_of(broker))
    await client.connect()
    for number in channels or (1,):
        await client.open_channel(number)
    return client


# Connections


async def a_port_scan(broker: Broker) -> None:
    await dial(endpoint_of(broker)).hang_up()


async def a_refused_login(broker: Broker) -> None:
    client = dial(endpoint_of(broker))
    client.engine.data_to_send()
    await client.stream.send_all(b"AMQP\0\0\x09\x01\x01\0\0\0\0\0\0\xce")
    await client.hang_up()


async def a_connection(broker: Broker) -> None:
    client = dial(endpoint_of(broker))
    await client.connect()
    await client.leave()


async def a_lost_connection(broker: Broker) -> None:
    await (await enter(broker, 1, 2)).hang_up()


async def channels(broker: Broker) -> None:
    client = await enter(broker, 1, 2, 3)
    for number in (1, 2):
        client.engine.close_channel(number, 200, "bye")
        await client.flush()
        while not isinstance(await client.next(), ChannelClosed):
            pass
    await client.leave()


async def a_failed_channel(broker: Broker) -> None:
    client = await enter(broker)
    await client.send(1, "none", "k", b"x")
    await client.channel_closed()
    await client.leave()


async def publishers(broker: Broker) -> None:
    client = await enter(broker, 1, 2)
    await client.declare("p", exclusive=True)
    await client.call(2, ConfirmSelect())
    for number in (1, 2):
        client.publish(number, "", "p", b"1", b"2")
        client.publish(number, "amq.fanout", "p", b"1", mandatory=True)
    await client.flush()
    await client.hang_up()


async def a_transaction(broker: Broker) -> None:
    client = await enter(broker)
    await client.declare("t", exclusive=True)
    await client.call(1, TxSelect())
    client.publish(1, "", "t", b"1")
    await client.call(1, TxCommit())
    await client.send(1, "", "t", b"2")
    await client.hang_up()


async def consumers(broker: Broker) -> None:
    client = await enter(broker, 1, 2)
    await client.declare("c", exclusive=True)
    await client.call(1, BasicQos(0, 2, False))
    await client.call(1, BasicQos(0, 3, True))
    await client.call(1, BasicConsume("c", consumer_tag="a"))
    await client.call(2, BasicConsume("c", consumer_tag="b", no_ack=True))
    await client.send(1, "", "c", *(b"%d" % number for number in range(9)))
    await trio.testing.wait_all_tasks_blocked()
    await client.say(1, BasicAck(1))
    await client.hang_up()


async def a_get(broker: Broker) -> None:
    client = await enter(broker)
    await client.declare("g", exclusive=True)
    client.publish(1, "", "g", b"1")
    await client.get("g")
    await client.hang_up()


async def an_unfinished_message(broker: Broker) -> None:
    client = await enter(broker)
    client.engine.send_content(1, BasicPublish("", "q"), NO_PROPERTIES, bytes(300_000))
    await client.stream.send_all(b"".join(client.engine.data_to_send())[:-10])
    await client.hang_up()


async def a_direct_sink(broker: Broker) -> None:
    client = await enter(broker)
    direct = await Direct(endpoint_of(broker), await lease_sink(client, "amq.fanout"), "sink").ready()
    await direct.publish("k", b"1", b"2")
    await direct.say(b"\0\0\1\0half a message")
    await direct.hang_up()
    await client.leave()


async def a_direct_feed(broker: Broker) -> None:
    client = await enter(broker)
    await client.declare("d", exclusive=True)
    await client.call(1, BasicConsume("d", no_ack=True))
    direct = await Direct(endpoint_of(broker), await lease_feed(client, "d"), "feed").ready()
    await client.send(1, "", "d", b"1")
    assert await direct.bodies(1) == [b"1"]
    await direct.hang_up()
    await client.hang_up()


# Topology


async def a_queue(broker: Broker) -> None:
    queue = await broker.declare_queue("q")
    await broker.publish("", "q", b"1")
    await queue.delete()


async def queues_of_a_client(broker: Broker) -> None:
    client = await enter(broker)
    await client.declare("e", exclusive=True)
    await client.declare("a", auto_delete=True)
    await client.call(1, BasicConsume("a", consumer_tag="a"))
    await client.declare("x", arguments={"x-message-ttl": 1000, "x-max-length": 5, "x-max-priority": 3})
    client.publish(1, "", "x", *[b"x"] * 9)
    await client.call(1, QueueBind("x", "amq.topic", "a.*"))
    await client.call(1, QueueBind("x", "amq.headers", "", arguments={"h": 1}))
    await client.call(1, QueueBind("x", "amq.direct", "k"))
    await client.call(1, QueueUnbind("x", "amq.direct", "k"))
    await client.call(1, QueueDelete("x"))
    await client.leave()


async def sinks(broker: Broker) -> None:
    client = await enter(broker)
    await client.call(1, ExchangeDeclare("s", "topic"))
    await client.call(1, ExchangeDeclare("u", "headers", arguments={"alternate-exchange": "s"}))
    await client.call(1, ExchangeBind("s", "u", "k"))
    await client.declare("s", exclusive=True)
    await client.call(1, QueueBind("s", "s", "a.#"))
    client.publish(1, "s", "a.b", b"1")
    for name in "s", "u":
        await client.call(1, ExchangeDelete(name))
    await client.leave()


async def dead_letters(broker: Broker) -> None:
    client = await enter(broker)
    await client.declare("dead", exclusive=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": 1000}
    await client.declare("late", exclusive=True, arguments=arguments)
    await client.send(1, "", "late", b"1")
    await trio.sleep(2)
    await client.leave()


async def a_feed_in_this_process(broker: Broker) -> None:
    queue = await broker.declare_queue("f")
    async with queue.open_feed(prefetch=2) as feed:
        for _ in range(4):
            await broker.publish("", "f", b"1")
        (await anext(feed)).accept()
    await queue.delete()


async def a_queue_with_unsettled_messages(broker: Broker) -> None:
    client = await enter(broker)
    await client.declare("u")
    await client.call(1, BasicConsume("u"))
    await client.send(1, "", "u", b"1", b"2")
    await client.deliveries(2)
    await broker.queue("u").delete()
    await client.leave()


SCENES = (
    a_queue_with_unsettled_messages,
    a_port_scan,
    a_refused_login,
    a_connection,
    a_lost_connection,
    channels,
    a_failed_channel,
    publishers,
    a_transaction,
    consumers,
    a_get,
    an_unfinished_message,
    a_direct_sink,
    a_direct_feed,
    a_queue,
    queues_of_a_client,
    sinks,
    dead_letters,
    a_feed_in_this_process,
)


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def kind_of(one: object) -> str:
    return f"{type(one).__module__}.{type(one).__qualname__}"


def find_garbage() -> Counter[str]:
    """Collect, and give what of ours had to be collected."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return +Counter(kind for kind in map(kind_of, gc.garbage) if kind.startswith("triomq"))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def find_ours() -> Counter[str]:
    return Counter(kind for kind in map(kind_of, gc.get_objects()) if kind.startswith("triomq"))


def issue(authority: trustme.CA, folder: Path) -> TLS:
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    return TLS(str(folder / "certificate.pem"), str(folder / "key.pem"))


async def settle_down() -> None:
    await trio.sleep(10)  # virtual seconds: what lingers is gone
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("scene", SCENES, ids=[scene.__name__ for scene in SCENES])
async def test_collector_finds_nothing_of(scene: Scene, broker: Broker) -> None:
    await scene(broker)  # what is made once is made now
    await scene(broker)
    await settle_down()
    with collector_off():
        before = find_ours()
        for _ in range(TIMES):
            await scene(broker)
        await settle_down()
        assert find_garbage() == Counter()
        assert find_ours() - before == Counter()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
async def test_collector_finds_nothing_of_sockets(secure: bool, tmp_path: Path) -> None:
    """With a real socket, in real time: the client ends its side, so nothing lingers."""
    authority = trustme.CA()
    tls = issue(authority, tmp_path) if secure else None
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def play(broker: Broker) -> None:
        stream: trio.abc.Stream = await trio.open_tcp_stream("127.0.0.1", broker.listening[0].port)
        if secure:
            stream = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
        client = Client(stream)
        await client.connect()
        await client.open_channel()
        await client.declare("q", exclusive=True)
        client.publish(1, "", "q", bytes(100_000))
        await client.call(1, BasicConsume("q"))
        await client.flush()
        assert len((await client.deliveries(1))[0].body) == 100_000
        await client.leave()
        while endpoint_of(broker).children or endpoint_of(broker)._closed_sockets:
            await trio.testing.wait_all_tasks_blocked(0.01)

    async with open_broker(AMQP(host="127.0.0.1", port=0, tls=tls)) as broker:
        await play(broker)
        await play(broker)
        with collector_off():
            before = find_ours()
            for _ in range(TIMES):
                await play(broker)
            assert find_garbage() == Counter()
            assert find_ours() - before == Counter()


async def test_collector_finds_nothing_of_durable_queues(tmp_path: Path) -> None:
    async def play(broker: Broker) -> None:
        queue = await broker.declare_queue("q", durable=True)
        for _ in range(10):
            await broker.publish("", "q", bytes(1000), Properties(persistent=True))
        async with queue.open_feed(prefetch=2) as feed:
            (await anext(feed)).accept()
        await queue.delete()
        await broker.wait_synced()

    async with open_broker(data_dir=tmp_path, queue_memory=4096, store_host="thread") as broker:
        await play(broker)
        await play(broker)
        await trio.testing.wait_all_tasks_blocked(0.01)
        with collector_off():
            before = find_ours()
            for _ in range(TIMES):
                await play(broker)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert find_garbage() == Counter()
            assert find_ours() - before == Counter()


async def test_deleted_queue_gives_its_memory_back_soon(broker: Broker) -> None:
    queue = await broker.declare_queue("q")
    with collector_off():
        tracemalloc.start()
        for _ in range(10_000):
            await broker.publish("", "q", bytes(1000))
        broker.directory.memory.measure()
        assert broker.directory.memory.held > 10_000_000
        assert tracemalloc.get_traced_memory()[0] > 10_000_000
        await queue.delete()
        await trio.testing.wait_all_tasks_blocked()  # a large backlog is freed in turns
        left = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert left < 200_000
    broker.directory.memory.measure()
    assert broker.directory.memory.held == 0


async def test_deleted_queue_leaves_its_messages_with_no_consumer(client: Client, broker: Broker) -> None:
    """They cannot be settled any more, whatever their consumer does, and are in no account."""
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    with collector_off():
        await client.send(1, "", "q", *(bytes(1000) for _ in range(5_000)))
        tracemalloc.start()
        await client.deliveries(5_000)
        client.events.clear()
        assert tracemalloc.get_traced_memory()[0] > 5_000_000
        await broker.queue("q").delete()
        left = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
    assert left < 3_000_000  # the numbers under which the consumer knows them
