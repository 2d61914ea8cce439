"""A served broker, connections and queues of one's own."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from peers.served import open_served
from triomq.clients import AMQPChannel, AMQPConnection, open_amqp

_numbers = itertools.count(1)

PATIENCE = 100.0  # seconds that anything in these tests may take


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """The URL of a broker that all tests share."""
    with open_served() as served:
        yield served.url


@pytest.fixture
async def connection(broker: str) -> AsyncIterator[AMQPConnection]:
    async with open_amqp(broker, name="tests") as connection:
        yield connection


@pytest.fixture
async def channel(connection: AMQPConnection) -> AsyncIterator[AMQPChannel]:
    async with connection.open_channel() as channel:
        yield channel


@pytest.fixture
async def queue(channel: AMQPChannel) -> str:
    """A queue of the connection's own."""
    name = f"direct.{os.getpid()}.{next(_numbers)}"
    await channel.declare_queue(name, exclusive=True)
    return name
