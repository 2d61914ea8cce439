"""Callbacks on their way into an event loop, in the order in which they were sent."""

from collections import deque
from collections.abc import Callable

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

    def forget(self) -> None:
        """Drop all callbacks: in a fork nobody runs them."""
        self._callbacks.clear()
        self._woken = False

    def _run_all(self) -> None:
        # First of all: a thread that found it still set has appended its callback before, so that one is counted here.
        self._woken = False
        for _ in range(len(self._callbacks)):
            self._callbacks.popleft()()
