"""Messages that have begun and are not whole: what all connections of a broker hold of them, and which wait for room.

The memory alarm sees what is in queues. What is on its way there is here, and may take an eighth of the alarm's mark.
Above that the connections with more than a little wait, unread, and only the oldest of them goes on: as soon as its
message is whole there is room again. So one connection always goes on, and a client that sends nothing holds others up
for moments only. Clients that send small messages never wait.

A protocol tells what each of its connections holds after each read that ends within a message; nothing else costs.
"""

import logging
from itertools import islice
from math import inf
from typing import Protocol

import trio

from triomq.core import MemoryAlarm
from triomq.transports import LARGE_RECEIVE_SIZE

_log = logging.getLogger("triomq.endpoints")

_SHARE = 1 / 8
"""The part of the mark that unfinished messages may take: queues, which may take all of it, are what memory is for."""

_LARGEST = 1 / 4
"""The part of the mark that one message may have: four in a queue start the alarm, and one is unfinished above the room
at a time."""

_LEAST = 1024 * 1024
"""Octets that room and largest message have whatever the mark: with less nothing would work, not even a lower mark."""

_SMALL = 64 * 1024
"""Bytes that no connection has to wait for: one read brings as many, before they could be known to be too many."""

_SILENCE = 10.0
"""Seconds in which the oldest has to bring ``_PROGRESS``, or its whole message, while others wait for it."""

_PROGRESS = 256 * 1024
"""Octets: 26 KB/s, which the slowest of mobile networks carry, and no client that only wants to hold others up."""

_LOG_AFTER = 60.0
"""Seconds between two lines in the log about it: under load room comes and goes many times a second."""

_INTERVAL = 1.0
"""Seconds between two looks at the oldest, while others wait."""


class Holder(Protocol):
    """A connection that may hold a part of a message."""

    @property
    def is_held_otherwise(self) -> bool:
        """Whether nothing is read from it for another reason."""

    def wait_for_room(self) -> None:
        """Read nothing until ``go_on_with_room``."""

    def go_on_with_room(self) -> None:
        """Read again, in a turn of its own."""

    def give_up_message(self, reason: str) -> None:
        """End the connection, in a turn of its own: its message does not come."""


class Unfinished:
    """The account of unfinished messages; made with a broker, lives as long.

    Args:
        memory: The alarm whose mark counts; without one, and without a mark, there is room for all.
    """

    __slots__ = ("_crowded", "_first", "_holders", "_logged", "_memory", "_progress", "_since", "_waiting", "held")

    def __init__(self, memory: MemoryAlarm | None = None) -> None:
        self.held = 0  # octets, of all connections
        self._memory = memory
        self._holders: dict[Holder, int] = {}  # octets of each, the oldest message first
        self._waiting: dict[Holder, None] = {}  # those that are not read, in the order in which they came
        self._first: Holder | None = None  # the one that goes on while others wait
        self._since = 0.0  # when it was last seen to have brought something
        self._progress = 0  # how much it held then
        self._logged = -inf  # when the log was last told that connections wait
        self._crowded = trio.Event()  # set when a connection waits

    @property
    def room(self) -> float:
        """Octets that unfinished messages may take before connections wait."""
        return self._part(_SHARE)

    def largest(self, configured: int) -> int:
        """Return the bytes of the largest message where so many are configured."""
        return int(min(configured, self._part(_LARGEST)))

    def _part(self, part: float) -> float:
        mark = 0 if self._memory is None else self._memory.mark
        return max(mark * part, _LEAST) if mark else inf

    def note(self, holder: Holder, octets: int) -> None:
        """Count what a connection holds now; to be called when that has changed."""
        before = self._holders.get(holder, 0)
        self.held += octets - before
        ends = False
        if octets < before:  # a message is whole, or dropped: what is left of others is younger
            del self._holders[holder]
            ends = holder is self._first
        if octets:
            self._holders[holder] = octets
        if holder in self._waiting and octets <= _SMALL:
            self._let_go_on(holder)
        if self.held <= self.room:
            self._let_some_go_on()
        elif octets > _SMALL:
            self._hold(holder, anew=ends)
        elif ends:
            self._choose()

    def forget(self, holder: Holder) -> None:
        """Count a connection no more: it has ended."""
        self._waiting.pop(holder, None)
        if holder in self._holders:
            self.note(holder, 0)

    def _hold(self, holder: Holder, *, anew: bool) -> None:
        """Stop reading a connection, unless it is the one that goes on, which may be to choose anew."""
        if anew or self._first is None:
            self._choose()
        if holder is not self._first:
            if not self._waiting:  # until now the pace of the first was of no interest
                self._see_progress(trio.current_time())
                self._log_crowd(trio.current_time())
            self._waiting[holder] = None
            holder.wait_for_room()
            self._crowded.set()

    def _log_crowd(self, now: float) -> None:
        if now - self._logged >= _LOG_AFTER:
            self._logged = now
            figures = {"held": self.held, "room": int(self.room), "connections": len(self._holders)}
            _log.warning("connections wait for room for unfinished messages", extra={"fields": figures})

    def _choose(self) -> None:
        """Resume the oldest of those that can go on."""
        self._first = None
        for holder, octets in self._holders.items():
            if octets > _SMALL and not holder.is_held_otherwise:
                self._first = holder
                self._see_progress(trio.current_time())
                if holder in self._waiting:
                    self._let_go_on(holder)
                return

    def _see_progress(self, now: float) -> None:
        """Start the time anew that the one has which goes on."""
        if self._first is not None:
            self._since, self._progress = now, self._holders[self._first]

    def _let_some_go_on(self) -> None:
        """Resume as many as there is room for, when each has read once more; at least one."""
        self._first = None
        if self._waiting:
            fit = 1 + (self.room - self.held) // LARGE_RECEIVE_SIZE
            for holder in list(islice(self._waiting, int(min(fit, len(self._waiting))))):
                self._let_go_on(holder)

    def _let_go_on(self, holder: Holder) -> None:
        del self._waiting[holder]
        holder.go_on_with_room()

    def look(self, now: float) -> None:
        """Check whether the one that goes on brings anything; if it cannot be read another one goes on."""
        first = self._first
        if self.held <= self.room:
            self._let_some_go_on()
        elif first is None or first.is_held_otherwise:
            self._choose()
        elif self._holders[first] - self._progress >= _PROGRESS:
            self._see_progress(now)
        elif now - self._since >= _SILENCE:
            self._see_progress(now)
            first.give_up_message(
                f"unfinished messages take more than {int(self.room)} octets, and the rest of this one does not come"
            )

    async def keep_looking(self) -> None:
        """Look once a second as long as connections wait; runs until cancelled."""
        while True:
            await self._crowded.wait()
            await trio.sleep(_INTERVAL)
            self.look(trio.current_time())
            if not self._waiting:
                self._crowded = trio.Event()
