"""What the broker has written and clients do not read: the account of all connections of all users, at every door.

The memory alarm sees what is in queues. Answers, and deliveries that are encoded, are here: each connection holds a
bounded amount of them, and whoever opens many holds that many times. So they are summed, and may take a quarter of the
alarm's mark, those of one user half of that.

Rules:

- ``StreamClient`` and ``RouterClient`` tell what they hold, and no protocol can forget it; nothing is told as long as
  the socket takes everything. An answer that the store's process writes is counted there (``store.sending``).
- While a user has more than its part, nothing is read from its connections that hold something: no further request of
  theirs is answered before they have read.
- Connections that have taken nothing for ``_GRACE`` seconds are ended then, that first which has been unread for
  longest, until the rest fits. At twice the part nobody has a grace. One that reads, however slowly, is not ended, nor
  is the only one of its user: it may just be getting one large message.
- What is ended is said in the log, and its deliveries go back to their queues as with any other end.
"""

import logging
from math import inf
from typing import Final, Protocol

import msgspec
import trio

from triomq.core import MemoryAlarm

_log = logging.getLogger("triomq.endpoints")

_PART: Final = 1 / 4
"""The part of the mark that all may leave unread: queues, which may take all of it, are what memory is for."""

_PART_OF_USER: Final = 1 / 2
"""The part of that which one user may: another one always has as much."""

_LEAST: Final = 32 * 1024 * 1024
"""Octets that all may leave unread whatever the mark: some dozens of clients on slow lines do."""

_GRACE: Final = 1.0
"""Seconds that a client may take nothing though its user has too much unread."""

_LOG_AFTER: Final = 60.0
"""Seconds between two lines in the log about it; each end of a connection has a line of its own."""

_INTERVAL: Final = 0.5
"""Seconds between two looks while a user has too much."""


class Reader(Protocol):
    """A connection that may leave something unread."""

    @property
    def charged_user(self) -> str:
        """Who is charged for it; empty as long as nobody has logged in."""

    @property
    def reading_progress(self) -> float:
        """A number that changes when the client takes something."""

    def give_up_reader(self, reason: str) -> None:
        """End the connection, in a turn of its own."""


class _Unread(msgspec.Struct, eq=False):
    """What a connection holds, since when, and how far its client had read when that was last seen to change."""

    user: str
    octets: int
    progress: float
    since: float


class UnreadAccount:
    """The account; made with a broker, lives as long.

    Args:
        memory: The alarm whose mark counts; without one, and without a mark, there is room for all.
    """

    __slots__ = ("_crowded", "_entries", "_logged", "_memory", "_of_users", "_sums", "held")

    def __init__(self, memory: MemoryAlarm | None = None) -> None:
        self.held = 0
        """Octets, of all connections."""
        self._memory = memory
        self._entries: dict[Reader, _Unread] = {}
        self._of_users: dict[str, dict[Reader, _Unread]] = {}  # the one that is unread for longest first
        self._sums: dict[str, int] = {}
        self._logged = -inf  # when the log was last told that clients are ended
        self._crowded = trio.Event()  # set when somebody has too much

    @property
    def room(self) -> float:
        """Octets that all may leave unread."""
        mark = 0 if self._memory is None else self._memory.mark
        return max(mark * _PART, _LEAST) if mark else inf

    def of_user(self, user: str) -> int:
        """Return how many octets a user leaves unread."""
        return self._sums.get(user, 0)

    def is_full(self, user: str) -> bool:
        """Return whether a user leaves more unread than it may."""
        return self._sums.get(user, 0) > self.room * _PART_OF_USER or self.held > self.room

    def note(self, reader: Reader, octets: int) -> None:
        """Count what a connection holds now; to be called when that has changed, and its client has not taken all."""
        user, entry = reader.charged_user, self._entries.get(reader)
        if entry is not None and (not octets or entry.user != user):
            self.forget(reader)
            entry = None
        if not octets:
            return
        if entry is None:
            entry = self._entries[reader] = _Unread(user, 0, reader.reading_progress, trio.current_time())
            self._of_users.setdefault(user, {})[reader] = entry
        self._count(user, octets - entry.octets)
        entry.octets = octets
        if self.is_full(user):
            self._crowded.set()
            self._relieve(user, trio.current_time())

    def forget(self, reader: Reader) -> None:
        """Count a connection no more: its client has read all, or it has ended; nothing if it was not counted."""
        entry = self._entries.pop(reader, None)
        if entry is not None:
            found = self._of_users[entry.user]
            del found[reader]
            self._count(entry.user, -entry.octets)
            if not found:
                del self._of_users[entry.user]

    def _count(self, user: str, more: int) -> None:
        self.held += more
        left = self._sums.get(user, 0) + more
        if left:
            self._sums[user] = left
        else:
            self._sums.pop(user, None)

    def _relieve(self, user: str, now: float) -> None:
        """End connections of a user that do not read, until the rest fits."""
        readers = self._of_users.get(user, {})
        for reader, entry in list(readers.items())[:-1]:
            if not self.is_full(user):
                return
            if (progress := reader.reading_progress) != entry.progress:
                entry.progress, entry.since = progress, now
            elif now - entry.since >= _GRACE or self._is_twice_full(user):
                self._tell(user, now)
                self.forget(reader)
                reader.give_up_reader("too much is unread of what this user was sent, and this client reads nothing")

    def _tell(self, user: str, now: float) -> None:
        if now - self._logged >= _LOG_AFTER:
            self._logged = now
            figures = {"user": user, "unread": self.of_user(user), "of": self.held, "room": int(self.room)}
            _log.warning("clients are ended that do not read what they are sent", extra={"fields": figures})

    def _is_twice_full(self, user: str) -> bool:
        return self.of_user(user) > 2 * self.room * _PART_OF_USER or self.held > 2 * self.room

    def look(self, now: float) -> bool:
        """End connections of users who have too much unread; return whether anybody has."""
        full = [user for user in list(self._of_users) if self.of_user(user) > self.room * _PART_OF_USER]
        if not full and self.held > self.room:
            full = [max(self._sums, key=lambda user: self._sums[user])]
        for user in full:
            self._relieve(user, now)
        return bool(full)

    async def keep_looking(self) -> None:
        """Look now and then as long as somebody has too much unread; runs until cancelled."""
        while True:
            await self._crowded.wait()
            await trio.sleep(_INTERVAL)
            if not self.look(trio.current_time()):
                self._crowded = trio.Event()
