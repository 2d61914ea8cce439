"""The way into a Trio run, from threads and event loops outside of it.

Everything that goes in is a callback in one queue, so it runs in the order in which it was sent: settle, then leave,
and the settling counts. What has to wait becomes a call, with a task of its own in Trio.
"""

import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ClassVar, TypeVar

import trio

from triomq.portal.call import Call
from triomq.portal.callbacks import Callback, CallbackQueue
from triomq.process import fork_error, notice_fork, tell_forks

T = TypeVar("T")
P = TypeVar("P", bound="TrioPortal")


class TrioPortal:
    """The way into a Trio run from outside; ends when its owner says so.

    Args:
        nursery: Where calls run that have to wait.
    """

    _what: ClassVar[str] = "what was opened"
    """What is reached, for the texts of errors."""
    _other_way: ClassVar[str] = "Open another one in this process"
    """What a fork does, which has no threads."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.callbacks = CallbackQueue(self._wake)
        self._nursery = nursery
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.get_ident()
        self._process = os.getpid()
        self._is_foreign = False
        self.is_given_up = False
        """Whether the process ends, so that nobody may wait for the Trio run any more."""
        tell_forks(self, TrioPortal._in_fork)
        self._end: BaseException | None = None
        self._abandon: set[Callable[[BaseException], None]] = set()

    def submit(self, function: Callable[[], Awaitable[T]], undo: Callable[[T], None] | None = None) -> Call[T]:
        """Call and await a function in Trio.

        Args:
            function: What to call.
            undo: Takes a result back that comes too late.

        Raises:
            ActorStopped: The block of the portal, or of what it leads to, was left.
            RuntimeError: This process is a fork of the one with the Trio run.
        """
        self.check()
        call = Call(function, undo)
        self.begin(call)
        return call

    def begin(self, call: Call[T]) -> None:
        """Start a call that was made before; ``check`` first that the Trio run can be reached."""
        self._abandon.add(call.abandon)
        call.future.add_done_callback(lambda _: self._abandon.discard(call.abandon))
        self.callbacks.call_soon(partial(self._start, call.run))
        if self._end is not None:  # it ended just now, and close may not have seen this call
            call.abandon(self._end)

    def check(self) -> None:
        """Check that the Trio run can be reached from here.

        Raises:
            ActorStopped: The block of the portal, or of what it leads to, was left.
            RuntimeError: This process is a fork of the one with the Trio run.
        """
        if self.is_foreign:
            raise fork_error(self._what, self._process, self._other_way)
        if self._end is not None:
            raise self._end

    def check_may_block(self) -> None:
        """Check that blocking this thread does not block the Trio run.

        Raises:
            RuntimeError: This is its own thread.
        """
        if threading.get_ident() == self._thread:
            raise RuntimeError(
                f"this is the thread in which {self._what} runs, and a blocking call would wait for itself; await "
                "what is meant for Trio, or go to a thread first: await trio.to_thread.run_sync(...)"
            )

    @property
    def is_foreign(self) -> bool:
        """Whether this process is not that of the Trio run, but a fork of it."""
        notice_fork()
        return self._is_foreign

    def _in_fork(self) -> None:
        self._is_foreign = True
        self.callbacks.forget()

    def close(self, end: BaseException) -> None:
        """Refuse further calls, and end those that wait; all of them raise ``end``."""
        self._end = end
        for abandon in list(self._abandon):
            abandon(end)

    def _start(self, run: Callable[[], Awaitable[None]]) -> None:
        if not self._nursery.cancel_scope.cancel_called:
            self._nursery.start_soon(run)

    def _wake(self, run_all: Callback) -> None:
        if self.is_foreign:
            self.callbacks.forget()  # so that the next one is refused too
            raise fork_error(self._what, self._process, self._other_way)
        try:
            self._token.run_sync_soon(self._run_in_one_turn, run_all)
        except trio.RunFinishedError:
            pass  # close ends the calls

    def _run_in_one_turn(self, run_all: Callback) -> None:
        try:
            self._turn(run_all)
        except Exception as error:  # raised here, Trio would take it for an error of its own
            self._nursery.start_soon(_raise, error)

    def _turn(self, run_all: Callback) -> None:
        """Run callbacks; a subclass may have something to do around them."""
        run_all()


async def _raise(error: Exception) -> None:
    raise error


@asynccontextmanager
async def run_portal(make: Callable[[trio.Nursery], P]) -> AsyncIterator[P]:
    """Run the Trio side of a portal; the caller closes the portal, since it knows which error ended it.

    Args:
        make: Makes the portal.
    """
    error: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield make(nursery)
        except trio.Cancelled:
            raise
        except BaseException as own:
            error = own  # raised below, without the nursery's group around it
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error
