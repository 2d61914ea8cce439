"""Connections of jobs for code outside of Trio: plain threads, and the tasks of an event loop of asyncio.

jobs.connect_blocking ─┐
jobs.connect_asyncio  ─┼─> a portal: of a thread of its own, or of a broker that is open in this program
jobs.connect_when_needed ┘      └─ Held ─> open_emqp in the Trio run behind it ─> EMQPConnection
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import trio

from triomq.clients import EMQPConnection, open_emqp
from triomq.errors import AlreadyConnected, Disconnected
from triomq.jobs.connecting import LocalBroker, Where, connector_of
from triomq.jobs.link import JobLink
from triomq.portal import (
    AsyncioCaller,
    BlockingCaller,
    PortalThread,
    TrioPortal,
    loop_callbacks,
    run_portal,
    wait_done,
    wait_shielded,
)

T = TypeVar("T")

_OTHER_LOOP: Final = "these jobs are connected in another event loop; send them from there, or make a second Jobs()"


class _BrokerPortal(Protocol):
    @property
    def broker(self) -> LocalBroker: ...


@runtime_checkable
class BrokerBehindPortal(Protocol):
    """A broker that is open in this program, and its portal: ``BlockingBroker`` and ``AsyncioBroker`` are some."""

    @property
    def portal(self) -> TrioPortal:
        """The way into its Trio run."""


WhereOutside: TypeAlias = Where | BrokerBehindPortal


class ThreadLink(JobLink):
    """The way to a connection from plain threads.

    Args:
        where: What it is connected with.
        connection: The connection.
        caller: Calls functions in its Trio run.
    """

    def __init__(self, where: str, connection: EMQPConnection, caller: BlockingCaller) -> None:
        self.where = where
        self.connection = connection
        self._caller = caller

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call a function, and block this thread until it is done: what awaits this never waits for anything else."""
        return self._caller.call(function)

    def for_threads(self) -> JobLink:
        """Return this."""
        return self


class BlockingLink(JobLink):
    """What jobs have that are connected for plain threads: they cannot be awaited."""

    def __init__(self, link: ThreadLink) -> None:
        self.where = link.where
        self.connection = link.connection
        self.opened: AbstractContextManager[Self] | None = None
        """What it came out of, where nobody else has that."""
        self._link = link

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Refuse.

        Raises:
            AlreadyConnected: It would block an event loop.
        """
        raise AlreadyConnected(
            f"these jobs are connected with {self.where} for plain threads; write f.blocking.send(…) without await, or "
            "connect them by jobs.connect or jobs.connect_asyncio"
        )

    def for_threads(self) -> JobLink:
        """Return the way that blocks."""
        return self._link


class AsyncioLink(JobLink):
    """The way to a connection from the tasks of one event loop.

    Args:
        where: What it is connected with.
        connection: The connection.
        caller: Calls functions in its Trio run.
    """

    def __init__(self, where: str, connection: EMQPConnection, caller: AsyncioCaller) -> None:
        self.where = where
        self.connection = connection
        self._caller = caller

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call and await a function in Trio.

        Raises:
            AlreadyConnected: This is another event loop, or none.
        """
        try:
            self._caller.check()
        except RuntimeError:
            if self._caller.portal.is_foreign:
                raise
            raise AlreadyConnected(_OTHER_LOOP) from None
        return await self._caller.call(function)

    def for_threads(self) -> JobLink:
        """Return the way that blocks, for threads beside that event loop."""
        return ThreadLink(self.where, self.connection, BlockingCaller(self._caller.portal))


class _Held:
    """A connection that is open in the Trio run behind a portal, until ``leave``."""

    def __init__(self, portal: TrioPortal, where: WhereOutside) -> None:
        self.opened: Future[EMQPConnection] = Future()
        self._portal = portal
        self._where = where
        self._leave = trio.Event()
        self.over = portal.submit(self._hold).future

    async def _hold(self) -> None:
        try:
            async with open_emqp(await connector_of(self._broker())) as connection:
                self.opened.set_result(connection)
                await self._leave.wait()
        except Exception as error:
            if self.opened.done():
                raise
            self.opened.set_exception(error)
        finally:
            if not self.opened.done():
                self.opened.set_exception(Disconnected("it was cancelled while it was opened"))

    def _broker(self) -> Where:
        if isinstance(self._where, BrokerBehindPortal):
            behind: _BrokerPortal = self._where.portal  # type: ignore[assignment]  # that of a broker
            return behind.broker
        return self._where

    def leave(self) -> None:
        """Begin to close it; ``over`` is done when it is closed."""
        self._portal.callbacks.call_soon(self._leave.set)


def _thread() -> PortalThread[TrioPortal]:
    return PortalThread(partial(run_portal, TrioPortal), "the connection of these jobs")


@contextmanager
def open_blocking_link(where: WhereOutside, shown: str) -> Iterator[BlockingLink]:
    """Open a connection for plain threads.

    Args:
        where: The URL of a broker, or one of this program.
        shown: The same for people.

    Raises:
        ConfigError: The URL is wrong.
        Disconnected: No broker lets us in.
    """
    with ExitStack() as stack:
        if isinstance(where, BrokerBehindPortal):
            portal = where.portal
        else:
            thread = _thread()
            stack.callback(thread.over.result)
            stack.callback(thread.cancel)
            portal = thread.started.result()
        portal.check_may_block()
        held = _Held(portal, where)
        stack.callback(held.over.exception)
        stack.callback(held.leave)
        connection = held.opened.result()
        try:
            yield BlockingLink(ThreadLink(shown, connection, BlockingCaller(portal)))
        finally:
            if portal.is_foreign or portal.is_given_up:
                stack.pop_all()  # a fork that leaves the block has no thread to wait for, nor has a process that ends


@asynccontextmanager
async def open_asyncio_link(where: WhereOutside, shown: str) -> AsyncIterator[AsyncioLink]:
    """Open a connection for the running event loop; raises as ``open_blocking_link`` does."""
    callbacks = loop_callbacks()
    thread = None if isinstance(where, BrokerBehindPortal) else _thread()
    try:
        if thread is not None:
            await wait_done(thread.started, callbacks)
        portal = where.portal if isinstance(where, BrokerBehindPortal) else thread.started.result()  # type: ignore[union-attr]  # one of them
        held = _Held(portal, where)
        try:
            await wait_done(held.opened, callbacks)
            yield AsyncioLink(shown, held.opened.result(), AsyncioCaller(portal, _OTHER_LOOP))
        finally:
            if not (portal.is_foreign or portal.is_given_up):
                held.leave()
                await wait_shielded(held.over, callbacks)
    finally:
        if thread is not None and not (thread.is_foreign or thread.is_given_up):
            thread.cancel()
            await wait_shielded(thread.over, callbacks)


def open_for_process(where: str, shown: str) -> BlockingLink:
    """Open a connection that lasts until this process ends, as its thread does."""
    opened = open_blocking_link(where, shown)
    link = opened.__enter__()
    link.opened = opened  # collected, it would close
    return link
