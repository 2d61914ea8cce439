"""One task that watches many sockets.

A Trio task for each socket costs 15 to 20 µs to wake up, most of it in Trio and in re-arming the socket with the
kernel. A poller has its sockets registered in an epoll set of its own and waits, through Trio, for the set. When it
wakes up it serves all sockets that are ready; while more become ready meanwhile it does not even wait. So the price
of a wake-up is paid once for all of them, and an idle connection needs no task at all.

    Trio's epoll ── wait_readable(set) ──▶ run() ──▶ _quick: sockets that gave little work the last time
                          our epoll set ──▶ poll(0) ─┴▶ _slow: the others, one at a time, with a look before each

- Fairness. A socket that gave much work is served after all that gave little, and the set is polled again before each
  of them: a quiet connection waits for one turn of a busy one, never for a round of all busy ones.
- After a millisecond of work (``_SLICE``) other tasks of the program run, timers among them.
- Staying awake. Where sockets became ready within 120 µs the last few times, the poller polls for as long before it
  waits: two processes that answer each other would otherwise pay for going to sleep and waking up at each message. It
  is measured by a moving mean, so a quiet broker uses no processor time.

Tried and dropped: a task for each connection (``docs/topics/connections.rst`` has figures). One list in the order of
readiness would be simpler, but a busy connection would delay all others by its whole chunk.
"""

import select
from collections.abc import Callable
from time import perf_counter

import trio

from triomq.process import close_in_forks

_SLICE = 0.001
"""Seconds of work after which other tasks of the program run."""

_ROUND = 64
"""Sockets that one poll returns at most."""

_AWAKE = 0.00012
"""Seconds to stay awake for the next socket. Falling asleep and waking up again takes about as long, and a second core
that sleeps doubles it: a client and a broker that answer each other would mostly wait for their cores."""

_LONG = 4 * _AWAKE
"""Seconds that a longer wait counts as, so that the mean follows within some waits."""

_HEAVY = 0.0002
"""Seconds of work from which a socket counts as busy: ten requests that come singly, or a third of a chunk."""


class Poller:
    """A set of sockets, each with a function to call when it is ready.

    Its owner runs ``run`` in a task, and closes it when that has ended.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._set = select.epoll()
        close_in_forks(self, lambda poller: [poller._set.fileno()])
        self._ready: dict[int, Callable[[int], None]] = {}
        self._heavy: set[int] = set()  # sockets that gave much work the last time
        self._quick: dict[int, int] = {}  # ready sockets and their events, in the order in which they are served
        self._slow: dict[int, int] = {}  # the same of heavy sockets
        self._pause = _LONG  # moving mean of the last waits, in seconds

    def add(self, descriptor: int, events: int, ready: Callable[[int], None]) -> None:
        """Watch a descriptor, and call ``ready`` with its events (``select.EPOLLIN`` and so on)."""
        self._ready[descriptor] = ready
        self._set.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        """Watch a descriptor for other events."""
        self._set.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        """Stop watching a descriptor; to be called before it is closed."""
        if self._ready.pop(descriptor, None) is not None:
            self._set.unregister(descriptor)
            self._heavy.discard(descriptor)
            self._quick.pop(descriptor, None)
            self._slow.pop(descriptor, None)

    async def run(self) -> None:
        """Serve sockets for ever."""
        now = until = self._clock()
        while True:
            if not self._stay_awake(now):
                await trio.lowlevel.wait_readable(self._set.fileno())
                until = self._clock() + _SLICE
            began, now = now, self._clock()
            self._pause += (min(now - began, _LONG) - self._pause) / 8
            # Quick sockets are served without another poll; with none left, the poll comes before each slow one.
            while self._quick or self._poll():
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

    def _poll(self) -> bool:
        """Poll the set; return whether any socket is ready."""
        for descriptor, events in self._set.poll(0, _ROUND):
            if descriptor in self._heavy:
                self._slow[descriptor] = events
            else:
                self._quick[descriptor] = events
        return bool(self._quick or self._slow)

    def _serve_next(self) -> int:
        """Serve the next ready socket; return its descriptor."""
        found = self._quick or self._slow
        descriptor = next(iter(found))
        self._ready[descriptor](found.pop(descriptor))
        return descriptor

    def _stay_awake(self, since: float) -> bool:
        """Poll for a while after a moment, if the last waits were short; return whether a socket is ready."""
        while self._pause < _AWAKE and self._clock() < since + _AWAKE:
            if self._poll():
                return True
        return False

    def close(self) -> None:
        """Close the set, once all sockets are closed and ``run`` has ended."""
        self._set.close()
