"""The way into a broker's Trio run, from threads and event loops outside of it.

Everything that goes in takes one lane, so it arrives in the order in which it was sent: settle, then leave, and the
settling counts. What has to wait becomes a call with a task of its own in there.
"""

import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from triomq.app.broker import Broker
from triomq.app.portal.call import Call
from triomq.app.portal.lane import Errand, Lane
from triomq.errors import ActorStopped

T = TypeVar("T")


class Portal:
    """The way into the Trio run that a broker lives in; made by ``open_portal`` and by the brokers with a thread."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.lane = Lane(self._wake)
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._end: BaseException | None = None
        self._abandon: set[Callable[[BaseException], None]] = set()

    def submit(self, function: Callable[[], Awaitable[T]], undo: Callable[[T], None] | None = None) -> Call[T]:
        """Have something called and awaited in Trio.

        Args:
            function: What to call.
            undo: Takes a result back that nobody wants any more.

        Raises:
            ActorStopped: The block of the portal, or of its broker, was left.
            RuntimeError: This process is a fork of the broker's.
        """
        self.check()
        call = Call(function, undo)
        self.begin(call)
        return call

    def begin(self, call: Call[T]) -> None:
        """Have a call made that one holds already; see that the broker can be reached first."""
        self._abandon.add(call.abandon)
        call.future.add_done_callback(lambda _: self._abandon.discard(call.abandon))
        self.lane.send(partial(self._start, call.run))
        if self._end is not None:  # it ended just now, and may not have seen this one
            call.abandon(self._end)

    def check(self) -> None:
        """See that the broker can be reached from here; its end is raised, and so is a mistake in using it.

        Raises:
            ActorStopped: The block of the portal, or of its broker, was left.
            RuntimeError: This process is a fork of the broker's.
        """
        if self.is_foreign:
            raise RuntimeError(
                f"this is process {os.getpid()}, a fork of process {self._process} in which the broker runs; no thread "
                "survives a fork. Let the broker listen, AMQP(port=0), and connect to it from here"
            )
        if self._end is not None:
            raise self._end

    def check_may_block(self) -> None:
        """See that waiting here does not keep the broker itself from going on.

        Raises:
            RuntimeError: This is the broker's own thread.
        """
        if threading.get_ident() == self._thread:
            raise RuntimeError(
                "this is the broker's own thread, and a blocking call would wait for itself; use the Broker that "
                "open_broker gave, with await, or go to a thread first: await trio.to_thread.run_sync(...)"
            )

    @property
    def is_foreign(self) -> bool:
        """Whether this process is not the broker's, but a fork of it."""
        return os.getpid() != self._process

    def close(self, end: BaseException) -> None:
        """Let nothing more in, and raise this wherever somebody waits."""
        self._end = end
        for abandon in list(self._abandon):
            abandon(end)

    def _start(self, run: Callable[[], Awaitable[None]]) -> None:
        if not self._nursery.cancel_scope.cancel_called:
            self._nursery.start_soon(run)

    def _wake(self, arrive: Errand) -> None:
        try:
            self._token.run_sync_soon(self._in_one_turn, arrive)
        except trio.RunFinishedError:
            pass  # whoever waits is told by close

    def _in_one_turn(self, arrive: Errand) -> None:
        try:
            self.broker.consumers.turn(arrive)
        except Exception as error:  # Trio would take it for an error of its own
            self._nursery.start_soon(_fail, error)


async def _fail(error: Exception) -> None:
    raise error


@asynccontextmanager
async def run_portal(broker: Broker) -> AsyncIterator[Portal]:
    """Run the Trio side of a portal; whoever runs it closes the portal as well, when it knows how that ended."""
    error: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield Portal(broker, nursery)
        except trio.Cancelled:
            raise
        except BaseException as own:
            error = own  # raised below, without the nursery's group around it
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error


@asynccontextmanager
async def open_portal(broker: Broker) -> AsyncIterator[Portal]:
    """Let threads and asyncio reach a broker that was opened in this Trio program.

    Give the portal to them: ``BlockingBroker(portal)`` for plain threads, ``AsyncioBroker(portal)`` in a coroutine of
    asyncio. When the block is left their calls end with ``ActorStopped``, and what their feeds had out goes back.
    """
    portal: Portal | None = None
    try:
        async with run_portal(broker) as portal:
            yield portal
    finally:
        if portal is not None:
            portal.close(ActorStopped("the block of open_portal was left; the broker cannot be reached this way now"))
