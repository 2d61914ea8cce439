# ruff: noqa: SIM117 (what leaves a block, and where it ends, is the point)
"""Connections that are cut come back, with everything that was declared, bound and consumed."""

from collections.abc import AsyncIterator, Callable

import pytest
import trio

from clients.amqp.proxy import Proxy
from triomq.clients import AMQPChannel, AMQPConnection, Deliveries, Reconnect, open_amqp
from triomq.errors import Disconnected, NotFound, PreconditionFailed

QUICK = Reconnect(delay=0.01, max_delay=0.1)


@pytest.fixture
async def connection(proxy: Proxy) -> AsyncIterator[AMQPConnection]:
    async with open_amqp(proxy.url, reconnect=QUICK) as connection:
        yield connection


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 (no event to wait for)
            await trio.sleep(0.01)


async def cut(proxy: Proxy, connection: AMQPConnection) -> None:
    """Cut the connection and wait until it has come back."""
    proxy.cut()
    with trio.fail_after(60):
        await connection.wait_disconnected()
        await connection.wait_connected()


async def take(deliveries: Deliveries, count: int) -> list[bytes]:
    found = []
    with trio.fail_after(60):
        async for delivery in deliveries:
            with delivery:
                found.append(delivery.body)
            if len(found) == count:
                break
    return found


async def test_everything_is_as_it_was(
    channel: AMQPChannel, proxy: Proxy, connection: AMQPConnection, name: str
) -> None:
    await channel.declare_exchange(f"{name}.in", "fanout", durable=False, auto_delete=True)
    await channel.declare_exchange(f"{name}.out", "topic", durable=False, auto_delete=True)
    named = await channel.declare_queue(f"{name}.q", exclusive=True)
    other = await channel.declare_queue(exclusive=True, arguments={"x-max-length": 10})
    await channel.bind_exchange(f"{name}.out", f"{name}.in")
    await channel.bind(named, f"{name}.out", "#")
    await channel.bind(other, f"{name}.out", "a.*")
    await channel.bind(other, f"{name}.out", "b.*")
    await channel.unbind(other, f"{name}.out", "b.*")
    old = other.name
    async with channel.consume(named) as one, channel.consume(old) as two:
        for _ in range(2):
            await channel.publish(f"{name}.in", "a.1", b"first")
            await channel.publish(f"{name}.in", "b.1", b"second")
            assert await take(one, 2) == [b"first", b"second"]
            assert await take(two, 1) == [b"first"]
            await cut(proxy, connection)
    assert other.name != old
    assert (await channel.declare_queue(old, passive=True)).name == other.name
    assert (await channel.declare_queue(other.name, passive=True)).message_count == 0


async def test_deleted_topology_stays_deleted(proxy: Proxy, connection: AMQPConnection, name: str) -> None:
    async with connection.open_channel() as channel:
        await channel.declare_exchange(f"{name}.e", durable=False)
        await channel.declare_queue(name, exclusive=True)
        await channel.declare_queue(f"{name}.2", exclusive=True)
        await channel.bind(name, f"{name}.e", "k")
        await channel.bind_exchange(f"{name}.e", "amq.fanout")
        await channel.delete_exchange(f"{name}.e")
        await channel.delete_queue(f"{name}.2")
        await cut(proxy, connection)
        await channel.declare_queue(name, passive=True)
        with pytest.raises(NotFound):
            await channel.declare_queue(f"{name}.2", passive=True)
    async with connection.open_channel() as channel:
        with pytest.raises(NotFound):
            await channel.declare_exchange(f"{name}.e", passive=True)


async def test_queue_that_went_with_its_consumer_stays_deleted(
    channel: AMQPChannel, proxy: Proxy, connection: AMQPConnection, name: str
) -> None:
    await channel.declare_queue(name, durable=False, auto_delete=True)
    async with channel.consume(name):
        pass
    await cut(proxy, connection)
    with pytest.raises(NotFound):
        await channel.declare_queue(name, passive=True)


async def test_publishes_are_sent_again_until_they_are_confirmed(
    channel: AMQPChannel, proxy: Proxy, connection: AMQPConnection, name: str
) -> None:
    """Nothing is lost; what was confirmed only to a dead connection may come twice."""
    await channel.declare_queue(name)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def cutting() -> None:
            for octets in (1, 30, 500, 7, 2000):
                before = connection.statistics().reconnects
                proxy.cut_after(octets)
                await until(lambda before=before: connection.statistics().reconnects > before)
            nursery.cancel_scope.cancel()

        published = 0
        while True:
            async with channel.open_pipeline(limit=50) as pipeline:
                for _ in range(200):
                    await pipeline.publish("", name, b"%d" % published)
                    published += 1
            await channel.publish("", name, b"%d" % published, mandatory=True)
            published += 1
    found: list[int] = []
    while (fetched := await channel.get(name, no_ack=True)) is not None:
        found.append(int(fetched.body))
    assert set(range(published)) <= set(found)
    await channel.delete_queue(name)


async def test_publish_that_waits_goes_on(
    channel: AMQPChannel, proxy: Proxy, connection: AMQPConnection, name: str
) -> None:
    queue = await channel.declare_queue(name, exclusive=True)
    proxy.refusing = True
    proxy.cut()
    await until(lambda: not connection.statistics().is_connected)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.publish, "", name, b"x")
        await until(lambda: proxy.accepted > 3)
        proxy.refusing = False
    fetched = await channel.get(queue)
    assert fetched is not None
    assert fetched.body == b"x"


async def test_without_resending_nobody_knows(proxy: Proxy, name: str) -> None:
    async with (
        open_amqp(proxy.url, reconnect=Reconnect(delay=0.01, resend=False)) as connection,
        connection.open_channel() as channel,
    ):
        await channel.declare_queue(name, exclusive=True)
        proxy.stall()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def publish() -> None:
                with pytest.raises(Disconnected):
                    await channel.publish("", name, b"x")

            await trio.testing.wait_all_tasks_blocked()
            proxy.cut()
            proxy.flow()
        await until(lambda: connection.statistics().is_connected)
        await channel.publish("", name, b"y")


async def test_call_under_way_raises_and_the_next_one_waits(channel: AMQPChannel, proxy: Proxy, name: str) -> None:
    await channel.declare_queue(name, exclusive=True)
    proxy.stall()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def call() -> None:
            with pytest.raises(Disconnected):
                await channel.purge(name)

        await trio.testing.wait_all_tasks_blocked()
        proxy.cut()
        proxy.flow()
    assert await channel.purge(name) == 0


async def test_unsettled_messages_come_again(proxy: Proxy, connection: AMQPConnection, name: str) -> None:
    async with connection.open_channel(prefetch=3) as channel:
        await channel.declare_queue(name)
        for body in (b"a", b"b", b"c", b"d"):
            await channel.publish("", name, body)
        async with channel.consume(name) as deliveries:
            with trio.fail_after(60):
                (await anext(deliveries)).accept()
                old = await anext(deliveries)
                await channel.declare_queue(name, passive=True)  # answered, so the ack before it was read
                await cut(proxy, connection)
                old.accept()  # belongs to the connection that is gone
                again = [await anext(deliveries) for _ in range(3)]
            assert [one.body for one in again] == [b"b", b"c", b"d"]
            assert again[0].redelivered
            again[-1].accept(multiple=True)
        assert (await channel.declare_queue(name, passive=True)).message_count == 0
        await channel.delete_queue(name)


async def test_limits_come_back_too(proxy: Proxy, connection: AMQPConnection, name: str) -> None:
    async with connection.open_channel(prefetch=0) as channel:
        await channel.declare_queue(name, exclusive=True)
        await channel.qos(2, shared=True)
        async with channel.consume(name) as deliveries:
            await cut(proxy, connection)
            for _ in range(5):
                await channel.publish("", name, b"x")
            await anext(deliveries)
            await until(lambda: channel.statistics().unsettled == 2)
            await trio.sleep(0.2)
            assert channel.statistics().unsettled == 2


async def test_topology_that_cannot_be_made_again_ends_the_connection(
    proxy: Proxy, connection: AMQPConnection, broker: str, name: str
) -> None:
    async with open_amqp(broker) as direct, direct.open_channel() as admin, connection.open_channel() as channel:
        await channel.declare_queue(name)
        await admin.delete_queue(name)
        await admin.declare_queue(name, arguments={"x-max-length": 1})
        proxy.cut()
        await until(lambda: not connection.statistics().is_connected)
        with trio.fail_after(60), pytest.raises(PreconditionFailed, match="x-max-length"):
            await channel.purge(name)
        await admin.delete_queue(name)


async def test_consumer_whose_queue_is_gone_fails(
    proxy: Proxy, connection: AMQPConnection, broker: str, name: str
) -> None:
    async with open_amqp(broker) as direct, direct.open_channel() as admin:
        await admin.declare_queue(name)
        async with connection.open_channel() as channel, channel.consume(name) as deliveries:
            proxy.refusing = True
            proxy.cut()
            await until(lambda: not connection.statistics().is_connected)
            await admin.delete_queue(name)
            proxy.refusing = False
            with trio.fail_after(60), pytest.raises(NotFound):
                await anext(deliveries)
        async with connection.open_channel() as channel:
            await channel.declare_queue(name, exclusive=True)


async def test_connection_gives_up_after_so_many_attempts(proxy: Proxy, name: str) -> None:
    policy = Reconnect(delay=0.01, attempts=3)
    async with open_amqp(proxy.url, reconnect=policy) as connection, connection.open_channel() as channel:
        await channel.declare_queue(name, exclusive=True)
        async with channel.consume(name) as deliveries:
            proxy.refusing = True
            proxy.cut()
            with trio.fail_after(60), pytest.raises(Disconnected):
                await anext(deliveries)
            assert proxy.accepted == 4
            with pytest.raises(Disconnected):
                await channel.publish("", name, b"x")
            with pytest.raises(Disconnected):
                async with connection.open_channel():
                    pass


async def test_the_next_broker_is_tried(proxy: Proxy, broker: str, name: str) -> None:
    async with (
        open_amqp([proxy.url, broker], reconnect=QUICK) as connection,
        connection.open_channel() as channel,
    ):
        assert connection.url.port == proxy.port
        proxy.refusing = True
        await cut(proxy, connection)
        assert connection.url.port != proxy.port
        await channel.declare_queue(name, exclusive=True)


async def test_connection_may_be_cut_while_it_comes_back(
    channel: AMQPChannel, proxy: Proxy, connection: AMQPConnection, name: str
) -> None:
    queues = [await channel.declare_queue(exclusive=True) for _ in range(5)]
    async with channel.consume(queues[0]) as deliveries:
        for octets in (8, 100, 600, 700, 800, 900, 1000, 1100):
            before = connection.statistics().reconnects
            proxy.cut()
            proxy.cut_after(octets)
            await until(lambda before=before: connection.statistics().reconnects > before)
        proxy.cut_after(10**9)
        await channel.publish("", queues[0].name, b"x")
        assert set(await take(deliveries, 1)) == {b"x"}
    for queue in queues:
        await channel.declare_queue(queue.name, passive=True)


async def test_leaving_while_it_is_away_takes_no_time(proxy: Proxy) -> None:
    with trio.fail_after(60):
        async with open_amqp(proxy.url, reconnect=Reconnect(delay=600, max_delay=600)) as connection:
            async with connection.open_channel() as channel:
                queue = await channel.declare_queue(exclusive=True)
                async with channel.consume(queue):
                    proxy.cut()
                    await until(lambda: not connection.statistics().is_connected)


async def test_the_log_tells_of_the_loss_of_each_attempt_and_of_the_return(
    proxy: Proxy, connection: AMQPConnection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="triomq.clients")
    proxy.refusing = True
    proxy.cut()
    await until(lambda: "cannot connect again" in caplog.text)
    proxy.refusing = False
    with trio.fail_after(60):
        await connection.wait_connected()
    records = [record for record in caplog.records if record.name == "triomq.clients"]
    lines = [(record.levelname, record.message) for record in records]
    assert lines[:3] == [
        ("WARNING", "connection lost"),
        ("INFO", "connecting again"),
        ("WARNING", "cannot connect again"),
    ]
    assert lines[-1] == ("INFO", "connection is back")
    fields = [record.__dict__["fields"] for record in records]
    assert {each["place"] for each in fields} == {f"127.0.0.1:{proxy.port}"}
    assert [each["attempt"] for each in fields[1:3]] == [1, 1]
    assert "guest" not in str(fields)


async def test_the_log_says_when_a_connection_is_given_up(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    async with open_amqp(proxy.url, reconnect=Reconnect(delay=0.01, attempts=2)) as connection:
        proxy.refusing = True
        proxy.cut()
        with trio.fail_after(60):
            await connection.wait_disconnected()
        with pytest.raises(Disconnected), trio.fail_after(60):
            await connection.wait_connected()
    given_up = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [(record.message, record.__dict__["fields"]["attempt"]) for record in given_up] == [
        ("connection given up", 2)
    ]


async def test_connection_that_is_closed_here_leaves_no_line(proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    async with open_amqp(proxy.url, reconnect=QUICK):
        pass
    assert [record for record in caplog.records if record.name == "triomq.clients"] == []
