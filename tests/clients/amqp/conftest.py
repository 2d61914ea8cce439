"""Each test of the client for Trio is run against triomq and against RabbitMQ."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from clients.amqp.proxy import Proxy
from peers.rabbitmq import find_rabbitmq, open_rabbitmq
from peers.served import open_served
from triomq.clients import AMQPChannel, AMQPConnection, open_amqp, parse_amqp_url

_numbers = itertools.count(1)

PATIENCE = 100.0  # seconds that anything in these tests may take


@pytest.fixture(scope="session", params=["triomq", pytest.param("RabbitMQ", marks=pytest.mark.peers)])
def broker(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a broker that all tests share."""
    if request.param == "triomq":
        with open_served() as served:
            yield served.url
        return
    if find_rabbitmq() is None:
        reason = "rabbitmq-server is not installed"
        if request.config.getoption("--require-peers"):
            pytest.fail(reason)
        pytest.skip(reason)
    with open_rabbitmq() as url:
        yield url


@pytest.fixture
def is_rabbitmq(request: pytest.FixtureRequest, broker: str) -> bool:
    return "RabbitMQ" in request.node.callspec.id


@pytest.fixture
async def proxy(broker: str) -> AsyncIterator[Proxy]:
    """A way to the broker that the test can cut."""
    url = parse_amqp_url(broker)
    async with trio.open_nursery() as nursery:
        proxy = Proxy(url.host, url.port, nursery)
        await proxy.listen()
        yield proxy
        nursery.cancel_scope.cancel()


@pytest.fixture
async def connection(broker: str) -> AsyncIterator[AMQPConnection]:
    async with open_amqp(broker, name="tests") as connection:
        yield connection


@pytest.fixture
async def channel(connection: AMQPConnection) -> AsyncIterator[AMQPChannel]:
    async with connection.open_channel() as channel:
        yield channel


@pytest.fixture
def name() -> str:
    """A name that nothing in the broker has yet."""
    return f"clients.{os.getpid()}.{next(_numbers)}"


@pytest.fixture
async def queue(connection: AMQPConnection, name: str) -> str:
    """A queue that goes with the connection."""
    async with connection.open_channel() as channel:
        await channel.declare_queue(name, exclusive=True)
    return name
