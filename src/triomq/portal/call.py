"""A call: a function that is awaited in Trio, and a future that a thread or another event loop waits for."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Withdrawn(Exception):
    """The outcome of a call that was withdrawn before it was done; never leaves the portal."""


class Call(Generic[T]):
    """One function on its way through a portal; made by ``Portal.submit``, over when its future is done.

    Args:
        function: What to call and await in Trio.
        undo: Takes a result back that comes after the call was withdrawn; called in Trio.
    """

    __slots__ = ("_began", "_function", "_scope", "_undo", "_wanted", "future")

    def __init__(self, function: Callable[[], Awaitable[T]], undo: Callable[[T], None] | None) -> None:
        self.future: Future[T] = Future()
        self._function = function
        self._scope = trio.CancelScope()
        self._undo = undo
        self._began = False
        self._wanted = True

    async def run(self) -> None:
        """Call the function, and put its result or error into the future; call this in Trio."""
        if self.future.done():
            return  # withdrawn, or abandoned
        self._began = True
        try:
            with self._scope:
                result = await self._function()
                self._finish(result)
                return
        except Exception as error:
            self.future.set_exception(error)
        else:
            self.future.set_exception(Withdrawn())

    def _finish(self, result: T) -> None:
        if self._wanted:
            self.future.set_result(result)
            return
        if self._undo is not None:
            self._undo(result)
        self.future.set_exception(Withdrawn())

    def withdraw(self) -> None:
        """Cancel the call, and undo its result if there is one already; call this in Trio."""
        if self._wanted and self._undo is not None and self.future.done() and self.future.exception() is None:
            self._undo(self.future.result())
        self._wanted = False
        self._scope.cancel()
        if not self._began:  # and perhaps never will: Ctrl-C may have come before it was sent
            self.abandon(Withdrawn())

    def abandon(self, error: BaseException) -> None:
        """End the call with an error, since Trio will not run it any more; call this in any thread."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            pass  # it was done in time
