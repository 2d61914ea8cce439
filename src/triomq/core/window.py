"""Windows: how much may be outstanding before a feed has to wait.

One small class serves the three windows that a delivery needs room in: the feed's own (messages), the channel's
(messages and bytes) and the connection's (encoded bytes). A feed that finds no room waits in the window's line. Room
given back wakes the first in line, and only it; when its queue has dispatched and room is left, the queue passes the
wake-up on. So whoever takes the room goes to the end of the line, and nobody starves behind a busy neighbour.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triomq.core.feed import Feed

__all__ = ["UNLIMITED", "Window"]

UNLIMITED = 1 << 62
"""Room of a window without a limit: more messages than a queue can hold."""


class Window:
    """Counts what is outstanding against two limits, and keeps the line of feeds that wait for room.

    Created by the endpoint for its connection and channels, and by each feed for itself; shared by all feeds it limits.

    Args:
        messages: How many messages may be outstanding; 0 sets no limit.
        bytes: How many octets may be outstanding; 0 sets no limit. One message may always go when nothing is
            outstanding, however large it is (AMQP 0-9-1, basic.qos prefetch-size).
    """

    __slots__ = ("_line", "byte_limit", "held", "limit", "used", "used_bytes")

    def __init__(self, messages: int = 0, *, bytes: int = 0) -> None:
        """Start with nothing outstanding."""
        self.limit = messages
        self.byte_limit = bytes
        self.held = False
        self.used = 0
        self.used_bytes = 0
        self._line: dict[Feed, int] | None = None

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

    def admits(self, size: int) -> bool:
        """Tell whether a message of so many octets may go now."""
        if self.held or (self.limit and self.used >= self.limit):
            return False
        return not self.byte_limit or not self.used_bytes or self.used_bytes + size <= self.byte_limit

    def take(self, messages: int, size: int) -> None:
        """Count messages of a total size in octets as outstanding."""
        self.used += messages
        self.used_bytes += size

    def give(self, messages: int, size: int) -> None:
        """Count messages as no longer outstanding, and wake the first in line."""
        self.used -= messages
        self.used_bytes -= size
        if self._line:
            self.wake()

    def resize(self, messages: int, *, bytes: int = 0) -> None:
        """Set new limits; what is outstanding already stays so."""
        self.limit = messages
        self.byte_limit = bytes
        self.wake()

    def hold(self) -> None:
        """Let nothing go until ``release``, whatever room there is."""
        self.held = True

    def release(self) -> None:
        """End a hold."""
        self.held = False
        self.wake()

    def wait(self, feed: "Feed", size: int) -> None:
        """Put a feed into the line, once; it needs room for a message of so many octets."""
        if self._line is None:
            self._line = {}
        self._line[feed] = size
        feed.waiting = True

    def forget(self, feed: "Feed") -> None:
        """Take a feed out of the line, if it is there."""
        if self._line:
            self._line.pop(feed, None)

    def wake(self) -> None:
        """Wake the first feed in line, if there is room and a line."""
        if self._line:
            feed, size = next(iter(self._line.items()))
            if self.admits(size):
                del self._line[feed]
                feed.waiting = False
                feed.wake(self)

    @property
    def waiting(self) -> int:
        """How many feeds wait in line."""
        return len(self._line) if self._line else 0
