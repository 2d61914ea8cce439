"""One task that watches many sockets.

A Trio task for each socket costs 15 to 20 µs to wake up, most of it in Trio and in re-arming the socket with the
kernel. A poller keeps its sockets armed in an epoll set of its own and waits, through Trio, for the set. When it
wakes up it serves all sockets that are ready; while more become ready meanwhile it does not even wait. So the price
of a wake-up is paid once for all of them, and an idle connection needs no task at all.
"""

import select
from collections.abc import Callable
from time import perf_counter

import trio

_SLICE = 0.001
"""Seconds of work after which other tasks of the program get their turn."""

_ROUND = 64
"""Sockets found ready at one look."""

_AWAKE = 0.00012
"""Seconds to stay awake for the next socket. Falling asleep and waking up again takes about as long, and one more core
that sleeps makes it twice that: a client and a broker that answer each other would mostly wait for their cores."""

_LONG = 4 * _AWAKE
"""What a longer wait counts as, so that the mean follows within some waits."""

_HEAVY = 0.0002
"""Seconds of work from which a socket counts as a busy one: some ten requests that come singly, a third of a chunk."""


class Poller:
    """A set of sockets, each with a function to call when it is ready.

    Sockets that gave little to do the last time go first, and are looked for before each one that gave much: so a
    quiet connection waits for one turn of a busy one and not for a round of them all, and busy ones take turns.

    Whoever makes it runs ``run`` in a task, and closes it when that has ended.

    Args:
        clock: Gives the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._set = select.epoll()
        self._ready: dict[int, Callable[[int], None]] = {}
        self._heavy: set[int] = set()  # sockets that gave much to do
        self._quick: dict[int, int] = {}  # what was found ready and for what, in the order of being served
        self._slow: dict[int, int] = {}  # the same of heavy ones
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
            self._heavy.discard(descriptor)
            self._quick.pop(descriptor, None)
            self._slow.pop(descriptor, None)

    async def run(self) -> None:
        """Serve sockets for ever."""
        now = until = self._clock()
        while True:
            if not self._look_again(now):
                await trio.lowlevel.wait_readable(self._set.fileno())
                until = self._clock() + _SLICE
            began, now = now, self._clock()
            self._pause += (min(now - began, _LONG) - self._pause) / 8
            while self._quick or self._look():
                descriptor = self._serve_next()
                began, now = now, self._clock()
                if now - began > _HEAVY:
                    self._heavy.add(descriptor)
                else:
                    self._heavy.discard(descriptor)
                if now > until:
                    await trio.lowlevel.checkpoint()
                    now = self._clock()
                    until = now + _SLICE

    def _look(self) -> bool:
        """Look for sockets that are ready; tell whether there are any."""
        for descriptor, events in self._set.poll(0, _ROUND):
            if descriptor in self._heavy:
                self._slow[descriptor] = events
            else:
                self._quick[descriptor] = events
        return bool(self._quick or self._slow)

    def _serve_next(self) -> int:
        """Serve the socket whose turn it is."""
        found = self._quick or self._slow
        descriptor = next(iter(found))
        self._ready[descriptor](found.pop(descriptor))
        return descriptor

    def _look_again(self, since: float) -> bool:
        """Stay awake for a while since some moment, where sockets were ready soon the last few times."""
        while self._pause < _AWAKE and self._clock() < since + _AWAKE:
            if self._look():
                return True
        return False

    def close(self) -> None:
        """Close the set, once all sockets are closed and ``run`` has ended."""
        self._set.close()
