"""What a broker knows again after a restart, be it after a kill or in order."""

import sqlite3
from contextlib import closing
from pathlib import Path

import trio
from pamqp import commands

from triomq import open_broker

from .harness import Harness
from .message import body_of
from .oracle import Oracle
from .wire import Answer, Delivery, Wire, publish


async def test_messages_that_are_delayed_early_in_a_new_life_stand_beside_those_of_the_old_one(tmp_path: Path) -> None:
    with trio.fail_after(60):
        for _ in range(2):
            async with open_broker(data_dir=tmp_path) as broker:
                queue = await broker.declare_queue("q")
                await broker.publish("", "q", b"later", delay=60)
        async with open_broker(data_dir=tmp_path) as broker:
            queue = await broker.declare_queue("q")
            await broker.publish("", "q", b"later", delay=60)
            while (await queue.statistics()).delayed < 3:
                await trio.lowlevel.checkpoint()
            assert (await queue.statistics()).delayed == 3


async def test_delivered_message_stays_marked_in_every_later_life(tmp_path: Path) -> None:
    marks: list[list[bool]] = []
    with trio.fail_after(60):
        for taken in (10, 1, 10):
            async with open_broker(data_dir=tmp_path) as broker:
                queue = await broker.declare_queue("q")
                for _ in range(0 if marks else 10):
                    await broker.publish("", "q", b"message")
                deliveries = [await queue.get() for _ in range(taken)]
                marks.append([delivery.redelivered for delivery in deliveries if delivery is not None])
    assert marks == [[False] * 10, [True], [True] * 10]


async def until_marked(directory: Path) -> None:
    """Wait until the store has written down that something was delivered."""
    with closing(sqlite3.connect(directory / "store.db")) as connection:
        while not connection.execute("SELECT 1 FROM delivered").fetchone():
            await trio.lowlevel.checkpoint()


async def test_message_delivered_to_an_idle_consumer_comes_again_marked(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with trio.open_nursery() as output, Harness(tmp_path, Oracle()) as harness:
            await harness.start(output)
            async with harness.wire() as wire:
                await wire.call(commands.Queue.Declare(queue="q", durable=True), commands.Queue.DeclareOk)
                await wire.call(commands.Confirm.Select(), commands.Confirm.SelectOk)
                await wire.send(publish("", "q", body_of(1, 1)))
                assert await wire.events() == [Answer(1, False, True)]
                assert not (await one_of(wire)).redelivered
                await until_marked(tmp_path)
                assert harness.life is not None
                harness.life.kill_broker()
            await harness.wait_gone()
            await harness.start(output)
            async with harness.wire() as wire:
                assert (await one_of(wire)).redelivered
            output.cancel_scope.cancel()


async def one_of(wire: Wire) -> Delivery:
    """Consume, and give the first delivery."""
    await wire.call(commands.Basic.Consume(queue="q"), commands.Basic.ConsumeOk)
    (delivery,) = await wire.events()
    assert isinstance(delivery, Delivery)
    return delivery
