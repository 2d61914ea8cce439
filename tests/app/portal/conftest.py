"""A broker in a thread of its own, in real time; for threads, for asyncio, and for tests that hold for both."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import wait
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from typing import Any, cast

import pytest
import trio

from triomq.app import Broker
from triomq.app.portal import (
    AsyncioBroker,
    AsyncioDomain,
    AsyncioListening,
    AsyncioQueue,
    AsyncioSink,
    BlockingBroker,
    BlockingDomain,
    BlockingListening,
    BlockingQueue,
    BlockingSink,
    Portal,
    open_asyncio_broker,
    open_blocking_broker,
)
from triomq.errors import RestartLimitExceeded

PATIENCE = 100.0
"""Seconds after which a call that should come back has failed; a laden machine may need some."""

TWINS: dict[type, type] = {
    BlockingBroker: AsyncioBroker,
    BlockingDomain: AsyncioDomain,
    BlockingListening: AsyncioListening,
    BlockingQueue: AsyncioQueue,
    BlockingSink: AsyncioSink,
}


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


class InThreads:
    """A blocking broker, or one of its handles, with the face of its twin for asyncio: each call is made in a thread.

    Args:
        inner: What blocks.
    """

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        twin = TWINS[type(self.inner)]
        found = getattr(self.inner, "close" if name == "aclose" else name)
        if inspect.iscoroutinefunction(getattr(twin, name, None)):

            async def call(*args: object, **kwargs: object) -> object:
                args = tuple(arg.inner if isinstance(arg, InThreads) else arg for arg in args)
                return face_of(await asyncio.to_thread(found, *args, timeout=PATIENCE, **kwargs))

            return call
        return (lambda *args: face_of(found(*args))) if inspect.ismethod(found) else face_of(found)

    def __repr__(self) -> str:
        return repr(self.inner).replace("Blocking", "Asyncio")

    @asynccontextmanager
    async def open_feed(self, **arguments: Any) -> AsyncIterator[AsyncIterator[object]]:
        async with entered(cast("BlockingQueue", self.inner).open_feed(timeout=PATIENCE, **arguments)) as feed:

            async def iterate() -> AsyncIterator[object]:
                while (delivery := await asyncio.to_thread(feed.take, timeout=PATIENCE)) is not None:
                    yield delivery

            yield iterate()


def face_of(found: object) -> object:
    """Put what a blocking method returned behind the face for asyncio."""
    if isinstance(found, list):
        return [face_of(item) for item in found]
    return InThreads(found) if type(found) in TWINS else found


@asynccontextmanager
async def entered(manager: Any) -> AsyncIterator[Any]:
    """Enter and leave a blocking context manager in threads."""
    inner = await asyncio.to_thread(manager.__enter__)
    try:
        yield inner
    except BaseException as error:
        if not await asyncio.to_thread(manager.__exit__, type(error), error, error.__traceback__):
            raise
    else:
        await asyncio.to_thread(manager.__exit__, None, None, None)


@asynccontextmanager
async def open_in_threads(*endpoints: Any, **arguments: Any) -> AsyncIterator[AsyncioBroker]:
    async with entered(open_blocking_broker(*endpoints, **arguments)) as broker:
        yield cast("AsyncioBroker", InThreads(broker))


OpenBroker = Callable[..., AbstractAsyncContextManager[AsyncioBroker]]

for_both = pytest.mark.parametrize("opener", [open_asyncio_broker, open_in_threads], ids=["asyncio", "threads"])


def in_both(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine that opens brokers itself, in asyncio and in threads."""

    @wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(main(**arguments))

    async def main(**arguments: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            await test(**arguments)

    return for_both(run)


def with_both(test: Callable[[AsyncioBroker], Awaitable[None]]) -> Callable[..., None]:
    """Make a test of a coroutine that gets a broker, in asyncio and in threads."""

    async def opened(opener: OpenBroker) -> None:
        async with opener() as broker:
            await test(broker)

    opened.__name__ = test.__name__
    return in_both(opened)


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
    """Fail the broker with an error that no restart would mend."""
    broker.system.fail(RestartLimitExceeded("/broker would be restarted too often"))
    await trio.sleep_forever()


def ruin(portal: Portal) -> None:
    """Make a broker fail as a whole, and wait until it has."""
    wait([portal.submit(lambda: fail(portal.broker)).future])


async def fill(broker: AsyncioBroker, *bodies: bytes) -> AsyncioQueue:
    """Declare the queue q, and publish messages into it."""
    queue = await broker.declare_queue("q")
    for body in bodies:
        await broker.publish("", "q", body)
    return queue


async def take(queue: AsyncioQueue, count: int) -> list[tuple[bytes, bool]]:
    """Take so many messages; return their bodies, and which are marked as redelivered."""
    found = []
    async with queue.open_feed() as feed:
        for _ in range(count):
            with await anext(feed) as delivery:
                found.append((delivery.body, delivery.redelivered))
    return found
