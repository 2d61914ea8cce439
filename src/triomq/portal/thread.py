"""A thread of its own for Trio, whose portal others use."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

import trio

from triomq.errors import ActorStopped
from triomq.portal.portal import TrioPortal
from triomq.process import close_run_in_forks, end_with_process, notice_fork, tell_forks

P = TypeVar("P", bound=TrioPortal)

_FOLLOWS = (ActorStopped, trio.BrokenResourceError)
"""What calls and feeds raise just before what they reach fails as a whole."""


class PortalThread(Generic[P]):
    """A thread that runs Trio, and is reached by a portal; ends after ``drain`` or ``cancel``.

    Args:
        open_it: Opens what is reached, and its portal.
        what: What that is, for the texts of errors.
    """

    def __init__(self, open_it: Callable[[], AbstractAsyncContextManager[P]], what: str) -> None:
        self.started: Future[P] = Future()
        self.over: Future[None] = Future()
        """Done when the run has ended, with the error that it failed of."""
        self._open = open_it
        self._what = what
        self._token: trio.lowlevel.TrioToken | None = None
        self._is_cancelled = False
        self.is_given_up = False
        """Whether it was left open until the process ended, so that nobody may wait for it any more."""
        self._everything = trio.CancelScope()
        self._drain = trio.Event()
        self._is_foreign = False
        tell_forks(self, PortalThread._in_fork)
        # A daemon: an event loop that is dropped without ending its tasks must not keep the interpreter from ending.
        threading.Thread(target=self._run, name="triomq", daemon=True).start()
        end_with_process(self, PortalThread.end_within)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            trio.run(self._main)
        except BaseException as error:
            failure = error
        end = failure or ActorStopped(f"{self._what} is gone: the block in which it was open was left")
        if not self.started.done():
            self.started.set_exception(end)
        elif self.started.exception() is None:
            self.started.result().close(end)
        if failure is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(failure)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        close_run_in_forks()
        if self._is_cancelled:
            self._everything.cancel()
        with self._everything:
            async with self._open() as portal:
                self.started.set_result(portal)
                await self._drain.wait()

    @property
    def is_foreign(self) -> bool:
        """Whether this process is a fork of the one with the thread, so that nobody may wait for it."""
        notice_fork()
        return self._is_foreign

    def _in_fork(self) -> None:
        self._is_foreign = True

    def end_within(self, seconds: float) -> None:
        """End in order, and at once where that takes too long; for a process that ends and has left it open."""
        if self.started.done() and self.started.exception() is None:
            self.drain()
            wait([self.over], seconds / 2)
            self.started.result().is_given_up = True
        self.cancel()
        wait([self.over], seconds / 2)
        self.is_given_up = True

    def drain(self) -> None:
        """Begin to end in order, after what was sent before; ``over`` is done when it has ended."""
        self.started.result().callbacks.call_soon(self._drain.set)

    def cancel(self) -> None:
        """Begin to end at once; ``over`` is done when it has ended."""
        self._is_cancelled = True
        try:
            if self._token is not None:
                self._token.run_sync_soon(self._everything.cancel)
        except trio.RunFinishedError:
            pass  # it has ended already

    def error_of_block(self, error: BaseException) -> BaseException:
        """Return the error that the block raises, when it ended with an error and the thread is over.

        An error that only follows from a failure in the thread gives way to that; any other has it as a note.
        """
        failure = self.over.exception()
        if failure is None or failure is error:
            return error
        if isinstance(error, _FOLLOWS):
            return failure
        error.add_note(f"{self._what[0].upper()}{self._what[1:]} failed too: {failure!r}")
        return error
