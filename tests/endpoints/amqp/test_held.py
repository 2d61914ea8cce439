"""A reply that promises something on disk is sent when it is there: the store's process stands still meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from endpoints.faults import frozen
from endpoints.restarts import PERSISTENT, TRANSIENT, Home, at_home
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    ChannelClosed,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Home]:
    """Open a broker with a store in a process of its own, and something to change in it."""
    with trio.fail_after(60):
        async with at_home(directory, store_host="process") as home:
            await home.client.call(1, QueueDeclare("q", durable=True))
            await home.client.call(1, QueueDeclare("fleeting"))
            await home.client.call(1, ExchangeDeclare("e", "direct", durable=True))
            await home.client.call(1, QueueBind("q", "e", "k"))
            await home.publish("q", b"kept")
            yield home


async def is_unanswered(home: Home) -> bool:
    """Return whether nothing comes although the broker has done all that it can; the store is owed an answer."""
    persistence = home.broker.directory.persistence
    assert persistence is not None
    while not persistence.journal.unanswered:
        await trio.lowlevel.checkpoint()

    async def read() -> None:
        home.client.events.append(await home.client.next())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked(0.05)
        nursery.cancel_scope.cancel()
    return not home.client.events


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        (ExchangeDeclare("new", "topic", durable=True), ExchangeDeclareOk),
        (ExchangeDelete("e"), ExchangeDeleteOk),
        (QueueDeclare("new", durable=True), QueueDeclareOk),
        (QueueBind("q", "e", "other"), QueueBindOk),
        (QueueUnbind("q", "e", "k"), QueueUnbindOk),
        (QueuePurge("q"), QueuePurgeOk),
        (QueueDelete("q"), QueueDeleteOk),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Method) else "",
)
async def test_durable_declare_is_answered_when_it_is_on_disk(
    tmp_path: Path, method: Method, reply: type[Method]
) -> None:
    async with opened(tmp_path) as home:
        with frozen(home.broker):
            await home.client.say(1, method)
            assert await is_unanswered(home)
        await home.client.read(reply)


async def test_commit_is_answered_when_it_is_on_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as home:
        await home.client.call(1, TxSelect())
        home.client.publish(1, "", "q", b"1", b"2", properties=PERSISTENT)
        with frozen(home.broker):
            await home.client.say(1, TxCommit())
            assert await is_unanswered(home)
        await home.client.read(TxCommitOk)


@pytest.mark.parametrize("immediate", [False, True])
async def test_publish_is_confirmed_when_it_is_on_disk(tmp_path: Path, immediate: bool) -> None:
    async with opened(tmp_path) as home:
        if immediate:  # somebody has to be there
            await home.client.call(1, BasicConsume("q", no_ack=False))
            await home.client.deliveries(1)
        with frozen(home.broker):
            await home.client.send(9, "", "q", b"x", properties=PERSISTENT, immediate=immediate)
            if immediate:
                await home.client.deliveries(1)
            assert await is_unanswered(home)
        assert (await home.client.read(BasicAck, 9)).delivery_tag == 2


async def test_close_does_not_wait_for_confirms_that_wait_for_the_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as home:
        with frozen(home.broker):
            home.client.publish(9, "", "q", b"x", properties=PERSISTENT)
            home.client.engine.close_channel(9, 200, "Goodbye")
            await home.client.flush()
            assert (await home.client.expect(ChannelClosed)).channel == 9


@pytest.mark.parametrize(
    ("queue", "properties"), [("fleeting", PERSISTENT), ("q", TRANSIENT)], ids=["fleeting queue", "transient message"]
)
async def test_transient_declare_waits_for_no_disk(tmp_path: Path, queue: str, properties: bytes) -> None:
    async with opened(tmp_path) as home:
        with frozen(home.broker):
            await home.publish(queue, b"x", properties=properties)
            await home.client.call(1, QueueDeclare("fleeting"))
            await home.client.call(1, QueueBind("fleeting", "e", "k"))


async def test_answer_waits_for_its_own_records_and_not_for_those_of_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as home, trio.open_nursery() as others:

        async def declare(name: str) -> None:
            while True:
                queue = await home.broker.declare_queue(name)
                await queue.delete()

        for number in range(5):
            others.start_soon(declare, f"other-{number}")
        with trio.fail_after(60):
            for number in range(50):
                await home.client.call(1, QueueDeclare(f"new-{number}", durable=True))
        others.cancel_scope.cancel()


async def test_answer_about_nothing_on_disk_does_not_wait_for_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as home:
        with frozen(home.broker):
            async with trio.open_nursery() as others:
                others.start_soon(home.broker.declare_queue, "other")
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert (await home.get("q")).body == b"kept"
                await home.client.call(1, QueueDeclare("fleeting"))
                await home.client.say(1, QueueDeclare("other", durable=True))
                assert await is_unanswered(home)
                others.cancel_scope.cancel()
        await home.client.read(QueueDeclareOk)
