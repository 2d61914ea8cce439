# ruff: noqa: PT012 (what leaves a block, and where it ends, is the point)
"""Many messages on their way at once, each accounted for."""

import pytest
import trio

from triomq.clients import AMQPChannel, AMQPConnection
from triomq.errors import LimitExceeded, LocalProtocolError, NotFound, Unroutable


@pytest.mark.parametrize("limit", [1, 2, 100, 5000])
async def test_everything_is_confirmed_when_the_block_ends(channel: AMQPChannel, queue: str, limit: int) -> None:
    most = 0
    async with channel.open_pipeline(limit=limit) as pipeline:
        for number in range(1000):
            await pipeline.publish("", queue, b"%d" % number)
            most = max(most, pipeline.outstanding)
    assert (pipeline.count_confirmed, pipeline.outstanding) == (1000, 0)
    assert most <= limit
    assert (await channel.declare_queue(queue, passive=True)).message_count == 1000


async def test_the_first_failure_is_raised_and_the_others_arrive(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(Unroutable, match=r"nowhere\.3"):
        async with channel.open_pipeline() as pipeline:
            for number in range(10):
                await pipeline.publish("", queue if number % 3 else f"nowhere.{number or 3}", b"x", mandatory=True)
    assert (await channel.declare_queue(queue, passive=True)).message_count == 6
    async with channel.open_pipeline() as pipeline:
        await pipeline.publish("", queue, b"x", mandatory=True)


async def test_failure_is_raised_by_a_later_publish(channel: AMQPChannel) -> None:
    full = await channel.declare_queue(exclusive=True, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    published = 0
    with pytest.raises(LimitExceeded):
        async with channel.open_pipeline(limit=10) as pipeline:
            for _ in range(100):
                await pipeline.publish("", full.name, b"x")
                published += 1
    assert published < 100
    assert pipeline.count_confirmed == 0


async def test_the_block_s_own_error_does_not_wait(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(KeyError):
        async with channel.open_pipeline() as pipeline:
            await pipeline.publish("", queue, b"x")
            raise KeyError
    await channel.publish("", queue, b"x")


async def test_closed_channel_ends_its_pipeline(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        async with channel.open_pipeline() as pipeline:
            for _ in range(10):
                await pipeline.publish("nowhere", queue, b"x")


async def test_large_bodies_do_not_pile_up(channel: AMQPChannel, queue: str) -> None:
    async with channel.open_pipeline() as pipeline:
        for _ in range(40):
            await pipeline.publish("", queue, bytes(1_000_000))
            assert pipeline.outstanding <= 9
    assert pipeline.count_confirmed == 40


async def test_confirmless_channel_has_no_pipeline(connection: AMQPConnection) -> None:
    async with connection.open_channel(confirms=False) as channel:
        with pytest.raises(LocalProtocolError, match="confirms=True"):
            async with channel.open_pipeline():
                pass


async def test_several_pipelines_share_a_channel(channel: AMQPChannel, queue: str) -> None:
    async def publish() -> None:
        async with channel.open_pipeline(limit=10) as pipeline:
            for _ in range(100):
                await pipeline.publish("", queue, b"x")
        assert pipeline.count_confirmed == 100

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(publish)
            nursery.start_soon(channel.publish, "", queue, b"x")
    assert (await channel.declare_queue(queue, passive=True)).message_count == 505
