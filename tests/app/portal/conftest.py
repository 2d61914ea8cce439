"""A broker in a thread of its own, real time, no sockets; and ways to make it fail."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import wait

import pytest
import trio

from triomq.app import Broker
from triomq.app.portal import (
    AsyncioBroker,
    BlockingBroker,
    BlockingQueue,
    Portal,
    open_asyncio_broker,
    open_blocking_broker,
)
from triomq.errors import RestartLimitExceeded

PATIENCE = 20.0
"""Seconds after which a call that should come back has failed; a laden machine may need some."""


@pytest.fixture
def broker() -> Iterator[BlockingBroker]:
    with open_blocking_broker() as broker:
        yield broker


@pytest.fixture
def queue(broker: BlockingBroker) -> BlockingQueue:
    return broker.declare_queue("q")


@pytest.fixture
def quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="triomq.actors")


def with_asyncio(test: Callable[[AsyncioBroker], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of a coroutine that gets a broker and runs in an event loop of its own."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), open_asyncio_broker() as broker:
            await test(broker)

    def run() -> None:
        asyncio.run(main())

    run.__name__ = test.__name__
    return run


async def fail(broker: Broker) -> None:
    """Have the broker fail of what no restart would mend."""
    broker.system.fail(RestartLimitExceeded("/broker would be restarted too often"))
    await trio.sleep_forever()


def ruin(portal: Portal) -> None:
    """Make a broker fail as a whole, and wait until it has."""
    wait([portal.submit(lambda: fail(portal.broker)).future])
