"""A broker in virtual time, its AMQP endpoint, and clients at the other ends of memory streams."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from endpoints.client import Client
from triomq.actors import Ref
from triomq.app import Broker, open_broker
from triomq.core.dispatch.feed import Wake
from triomq.endpoints import AMQP, AMQPEndpoint
from triomq.endpoints.amqp.connection import AMQPServerConnection

Connect = Callable[..., Awaitable[Client]]

LINGERING = 1.6
"""Seconds after which a connection that has ended is gone whatever its client does: one, and the next tick."""


def run_in_virtual_time(test: Callable[[], Awaitable[None]], **options: object) -> None:
    options["clock"] = trio.testing.MockClock(autojump_threshold=0)
    trio.run(test, **options)  # type: ignore[arg-type]


def run_with_jumps(test: Callable[[], Awaitable[None]], **options: object) -> None:
    """Run a test in time that is real, but jumps when the test says so."""
    options["clock"] = trio.testing.MockClock(rate=1)
    trio.run(test, **options)  # type: ignore[arg-type]


@pytest.fixture
def virtual_time(request: pytest.FixtureRequest) -> None:
    """Let the clock jump when all tasks wait, also where a test has this through other fixtures only."""
    request.node.add_marker(pytest.mark.trio(run=run_in_virtual_time), append=False)


@pytest.fixture
def jumping_time(request: pytest.FixtureRequest) -> None:
    """Let time be real, but jump when a test says so: for sockets that threads of others move bytes for."""
    request.node.add_marker(pytest.mark.trio(run=run_with_jumps), append=False)


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    # A numeric address needs no resolver, whose thread would be something real beside virtual time.
    async with open_broker(AMQP(host="127.0.0.1", port=0)) as broker:
        yield broker


@pytest.fixture
def endpoint(broker: Broker) -> AMQPEndpoint:
    return endpoint_of(broker)


@pytest.fixture
def connect(endpoint: AMQPEndpoint) -> Connect:
    """Connect further clients, with channel 1 open."""
    return partial(open_client, endpoint)


@pytest.fixture
async def client(connect: Connect) -> Client:
    """A client with channel 1 open."""
    return await connect()


def endpoint_of(broker: Broker) -> AMQPEndpoint:
    actor = next(iter(broker.endpoints.children.values())).actor  # beside which a toy may be
    assert isinstance(actor, AMQPEndpoint)
    return actor


def dial(endpoint: AMQPEndpoint, **wishes: object) -> Client:
    """Connect a client that has not said anything yet."""
    ours, theirs = trio.testing.memory_stream_pair()
    endpoint.listener.connect_stream(theirs, "memory")
    return Client(ours, **wishes)


async def open_client(endpoint: AMQPEndpoint, **wishes: object) -> Client:
    """Connect a client, and open channel 1."""
    client = dial(endpoint, **wishes)
    await client.connect()
    await client.open_channel()
    return client


def only_connection(endpoint: AMQPEndpoint) -> AMQPServerConnection:
    (ref,) = endpoint.children.values()
    assert isinstance(ref.actor, AMQPServerConnection)
    return ref.actor


def queue_ref(broker: Broker, name: str) -> Ref:
    return broker.directory.queues[name].ref


async def counts(broker: Broker, name: str) -> tuple[int, int]:
    """Return how many messages of a queue are ready, and how many are with its consumers."""
    found = await broker.queue(name).statistics()
    return found.ready, found.unsettled


def crash(broker: Broker, name: str) -> None:
    """Crash a queue, by a wake-up that nobody can have sent."""
    queue_ref(broker, name).tell_nowait(Wake(None, None))  # type: ignore[arg-type]


async def knock_out(broker: Broker, name: str) -> None:
    """Crash a queue twice, so that its second restart is put off by a tenth of a second."""
    ref = queue_ref(broker, name)
    crash(broker, name)
    await ref.wait_running()
    crash(broker, name)
    assert ref.state == "backing_off"
