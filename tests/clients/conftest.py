"""A served broker for all tests of clients, and connections to it."""

import itertools
from collections.abc import Iterator

import pytest

from peers.served import open_served
from triomq.clients import BlockingConnection, open_blocking
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with open_served() as served:
        yield served.url


@pytest.fixture
def connection(url: str) -> Iterator[BlockingConnection]:
    with open_blocking(url) as connection:
        yield connection


@pytest.fixture
def queue(connection: BlockingConnection) -> str:
    """A queue that goes with the connection."""
    name = f"clients.{next(_numbers)}"
    connection.call(QueueDeclare(name, exclusive=True), QueueDeclareOk)
    return name
