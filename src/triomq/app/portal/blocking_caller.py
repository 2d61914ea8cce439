"""Waiting in a plain thread for something that is done in Trio."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from triomq.app.portal.call import Call, Withdrawn
from triomq.app.portal.portal import Portal

T = TypeVar("T")


class BlockingCaller:
    """Calls functions in Trio for plain threads, any number of them, and waits for what comes of it.

    A thread has no cancel scope to give a deadline to. So here, and in no other place, a timeout is an argument, and
    its end a ``TimeoutError``, as everywhere in the standard library. When time is up, or Ctrl-C comes, what was
    waited for is cancelled in Trio.
    """

    def __init__(self, portal: Portal) -> None:
        self.portal = portal

    def call(
        self,
        function: Callable[[], Awaitable[T]],
        *,
        timeout: float | None = None,
        undo: Callable[[T], None] | None = None,
    ) -> T:
        """Have a function called and awaited in Trio, and give what it gives.

        Args:
            function: What to call.
            timeout: Seconds to wait; None waits for ever.
            undo: Takes a result back that comes too late.

        Raises:
            TimeoutError: It took longer; it is cancelled.
            ActorStopped: The broker is gone.
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
        """Wait for a future; ``withdraw`` is called in Trio if that fails, and then ends the future.

        Args:
            future: What to wait for.
            timeout: Seconds to wait; None waits for ever.
            withdraw: Called in Trio.
            begin: Called first; from here on Ctrl-C leaves nothing behind.

        Raises:
            TimeoutError: It took longer.
        """
        try:
            if begin is not None:
                begin()
            if wait([future], timeout).done:
                return future.result()
        except BaseException:  # Ctrl-C, or what the function raised; that has nothing to withdraw
            self._withdraw(future, withdraw)
            raise
        self._withdraw(future, withdraw)
        error = future.exception()
        if error is None or isinstance(error, Withdrawn):
            raise TimeoutError(f"not done within {timeout} s; it is cancelled")
        raise error

    def _withdraw(self, future: Future[T], withdraw: Callable[[], None]) -> None:
        self.portal.lane.send(withdraw)
        wait([future])
