"""One task that watches many sockets.

A Trio task for each socket costs 15 to 20 µs to wake up, most of it in Trio and in re-arming the socket with the
kernel. A poller keeps its sockets armed in an epoll set of its own and waits, through Trio, for the set. When it
wakes up it serves all sockets that are ready; while more become ready meanwhile it does not even wait. So the price
of a wake-up is paid once for all of them, and an idle connection needs no task at all.
"""

import select
from collections import deque
from collections.abc import Callable
from time import perf_counter

import trio

__all__ = ["Poller"]

_SLICE = 0.001
"""Seconds of work after which other tasks of the program get their turn."""

_ROUND = 64
"""Sockets found ready at one look; all of them are served before the next, so that none waits behind a busy one."""


_AWAKE = 0.00012
"""Seconds to stay awake for the next socket. Falling asleep and waking up again takes about as long, and one more core
that sleeps makes it twice that: a client and a broker that answer each other would mostly wait for their cores."""

_LONG = 4 * _AWAKE
"""What a longer wait counts as, so that the mean follows within some waits."""


class Poller:
    """A set of sockets, each with a function to call when it is ready.

    Whoever makes it runs ``run`` in a task, and closes it when that has ended.
    """

    def __init__(self) -> None:
        """Start with no sockets."""
        self._set = select.epoll()
        self._ready: dict[int, Callable[[int], None]] = {}
        self._found: deque[tuple[int, int]] = deque()
        self._pause = _LONG  # how long it waited of late, in seconds; a moving mean

    def add(self, descriptor: int, events: int, ready: Callable[[int], None]) -> None:
        """Watch a descriptor, and call ``ready`` with what it is ready for (``select.EPOLLIN`` and so on)."""
        self._ready[descriptor] = ready
        self._set.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        """Watch a descriptor for something else."""
        self._set.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Watch a descriptor no more; to be called before it is closed."""
        if self._ready.pop(descriptor, None) is not None:
            self._set.unregister(descriptor)

    async def run(self) -> None:
        """Serve sockets for ever."""
        while True:
            if not self._poll():
                await self._wait()
            until = perf_counter() + _SLICE
            while self._poll():
                self._serve_next()
                if perf_counter() > until:
                    await trio.lowlevel.checkpoint()
                    until = perf_counter() + _SLICE

    async def _wait(self) -> None:
        """Wait until a socket is ready: awake, where that was soon the last few times; else asleep."""
        began = perf_counter()
        if self._pause < _AWAKE and self._poll_until(began + _AWAKE):
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.wait_readable(self._set.fileno())
        self._pause += (min(perf_counter() - began, _LONG) - self._pause) / 8

    def _poll_until(self, moment: float) -> bool:
        while not self._poll():
            if perf_counter() > moment:
                return False
        return True

    def close(self) -> None:
        """Close the set, once all sockets are closed and ``run`` has ended."""
        self._set.close()

    def _poll(self) -> bool:
        """Look for sockets that are ready, once those of the last look are served; tell whether there are any."""
        if not self._found:
            self._found.extend(self._set.poll(0, _ROUND))
        return bool(self._found)

    def _serve_next(self) -> None:
        """Serve the socket whose turn it is, unless another one's turn has closed it."""
        descriptor, events = self._found.popleft()
        ready = self._ready.get(descriptor)
        if ready is not None:
            ready(events)
