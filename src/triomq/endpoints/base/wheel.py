"""Timers by the thousand: what is due within one twentieth of a second, or nearly a second where it is far off, is due
together.

An endpoint has a timer or two for each connection, and almost all of them are put off before they are due. A heap of
timers would pay for each with its logarithm, and keep those that were put off until their old time. Here a timer is an
entry in a dict, one dict for each slot of time, and setting, moving and removing one are two operations on dicts; the
heap holds numbers of slots alone. Nothing ticks while nothing is due, and ten thousand idle connections with heartbeats
of a minute wake the process once or twice a second.
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from math import ceil, floor, inf

SLOT = 0.05
"""Seconds that a timer may be late: a fifth of the shortest quarter of a heartbeat interval, and twenty wake-ups a
second are all that any number of connections can cost."""

_SLACK = 1 / 32
"""How late a timer may be that is far off, as part of the time until then: three percent are not noticed."""

_MOST_SLOTS = 16
"""Slots that such timers share at most: 0.8 s, for some end what people see."""

Call = Callable[[float], object]


class Wheel:
    """Timers, one for each key: never early, and late by ``SLOT`` or three percent, 0.8 s at most.

    Args:
        clock: Gives the time in seconds.
        nearer: Called when ``next`` has come nearer.
    """

    __slots__ = ("_clock", "_nearer", "_order", "_slots", "_turned", "_where")

    def __init__(self, clock: Callable[[], float], nearer: Callable[[], object]) -> None:
        self._clock = clock
        self._nearer = nearer
        # A slot that has become empty stays until its time, and so do its 64 bytes: clients that come and go use it
        # again.
        self._slots: dict[int, dict[Hashable, Call]] = {}
        self._order: list[int] = []  # a heap of the slots' numbers
        self._where: dict[Hashable, int] = {}
        self._turned = -1  # the last slot that is over

    def __len__(self) -> int:
        """Count the timers."""
        return len(self._where)

    @property
    def next(self) -> float:
        """When ``turn`` wants to be called; ``inf`` for never."""
        return self._order[0] * SLOT if self._order else inf

    def set(self, key: Hashable, when: float, call: Call) -> None:
        """Call a function with the time, at some time or soon after; this replaces the key's timer.

        Args:
            key: Whose timer it is.
            when: Seconds on the clock; what has passed means soon, ``inf`` means never.
            call: What to call.
        """
        self.discard(key)
        if when == inf:
            return
        # What is set while a slot is being worked off is due in a later one: time goes on though a clock stands still.
        number = max(self._shared(ceil(when / SLOT), when - self._clock()), self._turned + 1)
        self._where[key] = number
        slot = self._slots.get(number)
        if slot is not None:
            slot[key] = call
            return
        self._slots[number] = {key: call}
        heappush(self._order, number)
        if self._order[0] == number:
            self._nearer()

    @staticmethod
    def _shared(number: int, seconds: float) -> int:
        """Return the slot that a timer in so many seconds shares with its neighbours: a multiple of a power of two."""
        slots = min(int(seconds * _SLACK / SLOT), _MOST_SLOTS)
        if slots < 2:
            return number
        share = 1 << slots.bit_length() - 1
        return -(-number // share) * share

    def discard(self, key: Hashable) -> None:
        """Remove a key's timer, if it has one."""
        number = self._where.pop(key, None)
        if number is not None:
            del self._slots[number][key]

    def turn(self, most: int) -> bool:
        """Call what is due by now; it may set and remove timers, its own too.

        Args:
            most: How many to call before others are to have a turn.

        Returns:
            Whether more is due.
        """
        now = self._clock()
        last = max(floor(now / SLOT), self._order[0] if now >= self.next else -1)
        while self._order and self._order[0] <= last:
            number = self._turned = self._order[0]
            slot = self._slots[number]
            while slot:
                if not most:
                    return True
                most -= 1
                key, call = slot.popitem()
                del self._where[key]
                call(now)
            heappop(self._order)
            del self._slots[number]
        return False
