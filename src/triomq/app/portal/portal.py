"""The way into a broker's Trio run, from threads and event loops outside of it.

Everything that goes in is a callback in one queue, so it runs in the order in which it was sent: settle, then leave,
and the settling counts. What has to wait becomes a call, with a task of its own in Trio.
"""

import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from triomq.app.broker import Broker
from triomq.app.portal.call import Call
from triomq.errors import ActorStopped

T = TypeVar("T")

Callback = Callable[[], object]
"""A call that neither waits nor fails."""


class CallbackQueue:
    """Callbacks in the order in which they were sent: any thread sends, one event loop runs them.

    The first callback wakes the loop. Until the loop has come, sending costs an append and no further wake-up, so many
    callbacks cost as much as a few.

    Args:
        wake: Called in any thread; runs a function soon in the loop.
    """

    __slots__ = ("_callbacks", "_wake", "_woken")

    def __init__(self, wake: Callable[[Callback], object]) -> None:
        self._callbacks: deque[Callback] = deque()
        self._wake = wake
        self._woken = False

    def call_soon(self, callback: Callback) -> None:
        """Run a callback in the loop, soon."""
        self._callbacks.append(callback)
        if not self._woken:
            self._woken = True
            self._wake(self._run_all)

    def _run_all(self) -> None:
        # First of all: a thread that found it still set has appended its callback before, so that one is counted here.
        self._woken = False
        for _ in range(len(self._callbacks)):
            self._callbacks.popleft()()


class Portal:
    """The way into the Trio run of a broker; made by ``open_portal`` and by the brokers with a thread."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.callbacks = CallbackQueue(self._wake)
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._end: BaseException | None = None
        self._abandon: set[Callable[[BaseException], None]] = set()

    def submit(self, function: Callable[[], Awaitable[T]], undo: Callable[[T], None] | None = None) -> Call[T]:
        """Call and await a function in Trio.

        Args:
            function: What to call.
            undo: Takes a result back that comes too late.

        Raises:
            ActorStopped: The block of the portal, or of its broker, was left.
            RuntimeError: This process is a fork of the broker's.
        """
        self.check()
        call = Call(function, undo)
        self.begin(call)
        return call

    def begin(self, call: Call[T]) -> None:
        """Start a call that was made before; ``check`` first that the broker can be reached."""
        self._abandon.add(call.abandon)
        call.future.add_done_callback(lambda _: self._abandon.discard(call.abandon))
        self.callbacks.call_soon(partial(self._start, call.run))
        if self._end is not None:  # it ended just now, and close may not have seen this call
            call.abandon(self._end)

    def check(self) -> None:
        """Check that the broker can be reached from here.

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
        """Check that blocking this thread does not block the broker.

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
        """Refuse further calls, and end those that wait; all of them raise ``end``."""
        self._end = end
        for abandon in list(self._abandon):
            abandon(end)

    def _start(self, run: Callable[[], Awaitable[None]]) -> None:
        if not self._nursery.cancel_scope.cancel_called:
            self._nursery.start_soon(run)

    def _wake(self, run_all: Callback) -> None:
        try:
            self._token.run_sync_soon(self._run_in_one_turn, run_all)
        except trio.RunFinishedError:
            pass  # close ends the calls

    def _run_in_one_turn(self, run_all: Callback) -> None:
        try:
            self.broker.consumers.turn(run_all)
        except Exception as error:  # raised here, Trio would take it for an error of its own
            self._nursery.start_soon(_raise, error)


async def _raise(error: Exception) -> None:
    raise error


@asynccontextmanager
async def run_portal(broker: Broker) -> AsyncIterator[Portal]:
    """Run the Trio side of a portal; the caller closes the portal, since it knows which error ended it."""
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
    asyncio. When the block is left, their calls end with ``ActorStopped``, and unsettled deliveries of their feeds go
    back to the queues.
    """
    portal: Portal | None = None
    try:
        async with run_portal(broker) as portal:
            yield portal
    finally:
        if portal is not None:
            portal.close(ActorStopped("the block of open_portal was left; the broker cannot be reached this way now"))
