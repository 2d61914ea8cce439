"""How a plain thread calls a function in Trio and waits for it."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from triomq.portal.call import Call, Withdrawn
from triomq.portal.portal import TrioPortal

T = TypeVar("T")


class BlockingCaller:
    """Calls functions in Trio for any number of plain threads.

    A thread has no cancel scope that could have a deadline. So here, and in no other place, a timeout is an argument,
    and its end a ``TimeoutError``, as everywhere in the standard library. When time is up, or Ctrl-C comes, the call is
    cancelled in Trio.
    """

    def __init__(self, portal: TrioPortal) -> None:
        self.portal = portal

    def call(
        self,
        function: Callable[[], Awaitable[T]],
        *,
        timeout: float | None = None,
        undo: Callable[[T], None] | None = None,
    ) -> T:
        """Call and await a function in Trio, and return its result.

        Args:
            function: What to call.
            timeout: Seconds to wait; None waits for ever.
            undo: Takes a result back that comes too late.

        Raises:
            TimeoutError: It took longer; it is cancelled.
            ActorStopped: What the portal leads to is gone.
        """
        self.portal.check_may_block()
        self.portal.check()
        call = Call(function, undo)
        return self.wait(call.future, timeout, call.withdraw, begin=lambda: self.portal.begin(call))

    def wait(
        self,
        future: Future[T],
        timeout: float | None,
        withdraw: Callable[[], None],
        *,
        begin: Callable[[], None] | None = None,
    ) -> T:
        """Wait for a future; if that fails, call ``withdraw`` in Trio, which ends the future.

        Args:
            future: What to wait for.
            timeout: Seconds to wait; None waits for ever.
            withdraw: Called in Trio.
            begin: Called first, where Ctrl-C withdraws already.

        Raises:
            TimeoutError: It took longer.
        """
        try:
            if begin is not None:
                begin()
            if wait([future], timeout).done:
                return future.result()
        except BaseException:  # Ctrl-C; or an error of the function, and then there is nothing to withdraw
            self._withdraw(future, withdraw)
            raise
        self._withdraw(future, withdraw)
        error = future.exception()
        if error is None or isinstance(error, Withdrawn):
            raise TimeoutError(f"not done within {timeout} s; it is cancelled")
        raise error

    def _withdraw(self, future: Future[T], withdraw: Callable[[], None]) -> None:
        self.portal.callbacks.call_soon(withdraw)
        wait([future])
