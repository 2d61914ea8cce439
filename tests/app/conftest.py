"""A broker in this process, listening nowhere, in virtual time."""

import logging
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from endpoints.conftest import crash, knock_out, queue_ref, virtual_time
from triomq.app import Broker, Delivery, QueueHandle, open_broker

__all__ = ["crash", "knock_out", "queue_ref", "virtual_time"]


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_broker() as broker:
        yield broker


@pytest.fixture
async def queue(broker: Broker) -> QueueHandle:
    return await broker.declare_queue("q")


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """Take back what a test has set up."""
    root, ours = logging.getLogger(), logging.getLogger("triomq")
    handlers, level = root.handlers[:], ours.level
    yield
    root.handlers[:] = handlers
    ours.setLevel(level)


async def fill(broker: Broker, *bodies: bytes) -> None:
    """Publish into the queue that all these tests use."""
    for body in bodies:
        await broker.publish("", "q", body)


async def got(queue: QueueHandle) -> Delivery:
    """Get the next message of a queue, which is there."""
    delivery = await queue.get()
    assert delivery is not None
    return delivery


async def bodies(queue: QueueHandle, count: int) -> list[tuple[bytes, bool]]:
    """Take so many messages, and tell which are marked as redelivered."""
    found: list[tuple[bytes, bool]] = []
    with trio.fail_after(60):
        async with queue.open_feed() as feed:
            while len(found) < count:
                delivery = await anext(feed)
                found.append((delivery.body, delivery.redelivered))
                delivery.accept()
    return found
