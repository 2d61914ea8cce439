"""Windows: how much may be outstanding before a feed has to wait.

One small class serves the three windows that a delivery needs room in:

    feed         messages that this consumer has not settled (basic.qos per consumer)
    channel      the same over several consumers, in messages and bytes (basic.qos global)
    connection   encoded bytes that the socket has not taken, for every feed, acked or not

Without the last one, a consumer without a limit on a backlog of a million would be one write of 163 MiB and a stall of
1.7 s.

A feed that finds no room in a window that it shares joins the window's line. The rules of the line:

- First come, first served: while a line exists, nobody but its first feed is admitted, even if there is room.
- Room given back calls the first in line, and only it. When that feed's queue has dispatched, the queue lets the window
  call the next one (``pass_on``). Waking all of them at each ack would cost a dispatch of every waiting queue.
- A feed that has had its turn and wants more goes to the end of the line, so that no feed starves behind a busy one.

A limit of 0 sets no limit. Two byte limits admit one message of any size when nothing is outstanding: it could never be
delivered otherwise (AMQP 0-9-1, basic.qos prefetch-size).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triomq.core.dispatch.feed import Feed

UNLIMITED = 1 << 62
"""Room of a window without a limit: more messages than a queue can hold."""


class Window:
    """Counts what is outstanding against two limits, and keeps the line of feeds that wait for room.

    Created by the endpoint for its connection and channels, and by each feed for itself; shared by all feeds it limits.

    Args:
        messages: How many messages may be outstanding; 0 sets no limit.
        bytes: How many octets may be outstanding; 0 sets no limit. One message may always go when nothing is
            outstanding, however large it is (AMQP 0-9-1, basic.qos prefetch-size).

    Raises:
        ValueError: A limit is below 0: some would take it for no limit and others for no room.
    """

    __slots__ = ("_called", "_line", "byte_limit", "checks", "held", "limit", "used", "used_bytes")

    def __init__(self, messages: int = 0, *, bytes: int = 0) -> None:
        _check_limits(messages, bytes)
        self.limit = messages
        self.byte_limit = bytes
        self.held = False
        self.used = 0
        self.used_bytes = 0
        self._line: dict[Feed, int] | None = None
        self.checks = False  # whether it may say no: it has a limit, a hold or a line
        self._look()
        self._called: Feed | None = None  # the first in line, when it has been told that there is room

    def _look(self) -> None:
        self.checks = self.held or self.limit > 0 or self.byte_limit > 0 or bool(self._line)

    def room(self) -> int:
        """Tell how many more messages may go, looking at the number of messages alone."""
        if not self.limit:
            return UNLIMITED
        return self.limit - self.used if self.limit > self.used else 0

    def byte_room(self) -> int:
        """Tell how many more octets may go, not looking at the one message that may always go."""
        if not self.byte_limit:
            return UNLIMITED
        return self.byte_limit - self.used_bytes if self.byte_limit > self.used_bytes else 0

    def rounds(self, feeds: int, size: int) -> int:
        """Tell how often each of so many feeds can have one message of so many octets; a hold is not looked at."""
        rounds = UNLIMITED
        if self.limit:
            rounds = self.room() // feeds
        if self.byte_limit and size:
            rounds = min(rounds, self.byte_room() // (feeds * size))
        return rounds

    def admits(self, feed: "Feed", size: int) -> bool:
        """Tell whether a message of so many octets may go to a feed now."""
        if self.held or 0 < self.limit <= self.used:
            return False
        if self.byte_limit and self.used_bytes and self.used_bytes + size > self.byte_limit:
            return False
        return not self._line or next(iter(self._line)) is feed

    def take(self, messages: int, size: int) -> None:
        """Count messages of a total size in octets as outstanding."""
        self.used += messages
        self.used_bytes += size

    def give(self, messages: int, size: int) -> None:
        """Count messages as no longer outstanding, and call the first in line."""
        self.used -= messages
        self.used_bytes -= size
        if self._line:
            self._call()

    def resize(self, messages: int, *, bytes: int = 0) -> None:
        """Set new limits; what is outstanding already stays so.

        Raises:
            ValueError: A limit is below 0.
        """
        _check_limits(messages, bytes)
        self.limit = messages
        self.byte_limit = bytes
        self._look()
        self._call()

    def hold(self) -> None:
        """Let nothing go until ``release``, whatever room there is."""
        self.held = self.checks = True

    def release(self) -> None:
        """End a hold."""
        self.held = False
        self._look()
        self._call()

    def wait(self, feed: "Feed", size: int) -> None:
        """Put a feed at the end of the line, once; it needs room for a message of so many octets."""
        if self._line is None:
            self._line = {}
        self.leave(feed)
        self._line[feed] = size
        self.checks = True
        feed.waiting = True

    def leave(self, feed: "Feed") -> None:
        """Take a feed out of the line, if it is there; call nobody."""
        if self._line and feed in self._line:
            del self._line[feed]
            self._look()
            if self._called is feed:
                self._called = None

    def forget(self, feed: "Feed") -> None:
        """Take a feed out of the line for good, and let the next take its place."""
        self.leave(feed)
        self._call()

    def pass_on(self, feed: "Feed") -> "Feed | None":
        """End the turn of a feed that was called, and call the next in line, whom the caller then has to wake."""
        if self._called is feed:
            self.leave(feed)
        return self._next()

    def _call(self) -> None:
        """Call the first in line, and wake it."""
        feed = self._next()
        if feed is not None:
            feed.wake(self)

    def _next(self) -> "Feed | None":
        """Call the first in line, if there is room for it and nobody else's turn."""
        if self._line and self._called is None:
            feed, size = next(iter(self._line.items()))
            if self.admits(feed, size):
                self._called = feed
                feed.waiting = False
                return feed
        return None

    @property
    def waiting(self) -> int:
        """How many feeds wait in line."""
        return len(self._line) if self._line else 0


def _check_limits(messages: int, octets: int) -> None:
    if messages < 0 or octets < 0:
        raise ValueError(f"a window of {messages} messages and {octets} octets; limits are 0 for none, or more")
