"""Feeds, and the windows that they are under: how much may be outstanding before a feed has to wait.

A feed is one delivery stream from a queue to one consumer.
One small class serves the three windows that a delivery needs room in:

    feed         messages that this consumer has not settled (basic.qos per consumer)
    channel      the same over several consumers, in messages and bytes (basic.qos global)
    connection   encoded bytes that the socket has not taken, for every feed, acked or not

Without the last one, a consumer without a limit on a backlog of a million would be one write of 163 MiB and a stall of
1.7 s.

A feed that finds no room in a window that it shares joins the window's line. The rules of the line:

- First come, first served: while a line exists, only its first feed is admitted, even if there is room.
- Room given back calls the first in line, and only it. When that feed's queue has dispatched, the queue lets the window
  call the next one (``pass_on``). Waking all of them at each ack would cost a dispatch of every waiting queue.
- A feed that has had its turn and wants more goes to the end of the line, so that no feed starves behind a busy one.

A limit of 0 sets no limit. Two byte limits admit one message of any size when nothing is outstanding: it could never be
delivered otherwise (AMQP 0-9-1, basic.qos prefetch-size).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from triomq.actors import Message, Ref

if TYPE_CHECKING:
    from triomq.core.batch import Batch


UNLIMITED = 1 << 62
"""Room of a window without a limit: more messages than a queue can hold."""


class Window:
    """Counts what is outstanding against two limits, and keeps the line of feeds that wait for room.

    Created by the endpoint for its connection and channels, and by each feed for itself; shared by all feeds it limits.

    Args:
        messages: How many messages may be outstanding; 0 sets no limit.
        bytes: How many bytes may be outstanding; 0 sets no limit. One message may always go when nothing is
            outstanding, however large it is (AMQP 0-9-1, basic.qos prefetch-size).

    Raises:
        ValueError: A limit is below 0: some would take it for no limit and others for no room.
    """

    __slots__ = ("_called", "_line", "byte_limit", "checks", "held", "limit", "used", "used_bytes", "waiting")

    def __init__(self, messages: int = 0, *, bytes: int = 0) -> None:
        _check_limits(messages, bytes)
        self.limit = messages
        self.byte_limit = bytes
        self.held = False
        self.used = 0
        self.used_bytes = 0
        self.waiting = 0  # how many feeds wait in line
        self._line: dict[Feed, int] | None = None
        self.checks = False  # whether it may refuse: it has a limit, a hold or a line
        self._look()
        self._called: Feed | None = None  # the first in line, when it was called because there is room

    def _look(self) -> None:
        self.checks = self.held or self.limit > 0 or self.byte_limit > 0 or bool(self._line)

    def room(self) -> int:
        """Return how many more messages may go, looking at the number of messages alone."""
        if not self.limit:
            return UNLIMITED
        return self.limit - self.used if self.limit > self.used else 0

    def byte_room(self) -> int:
        """Return how many more bytes may go, not looking at the one message that may always go."""
        if not self.byte_limit:
            return UNLIMITED
        return self.byte_limit - self.used_bytes if self.byte_limit > self.used_bytes else 0

    def rounds(self, feeds: int, size: int) -> int:
        """Return how often each of so many feeds can have one message of so many bytes; a hold is not looked at."""
        rounds = UNLIMITED
        if self.limit:
            rounds = self.room() // feeds
        if self.byte_limit and size:
            rounds = min(rounds, self.byte_room() // (feeds * size))
        return rounds

    def admits(self, feed: Feed, size: int) -> bool:
        """Return whether a message of so many bytes may go to a feed now."""
        if self.held or 0 < self.limit <= self.used:
            return False
        if self.byte_limit and self.used_bytes and self.used_bytes + size > self.byte_limit:
            return False
        return not self._line or next(iter(self._line)) is feed

    def take(self, messages: int, size: int) -> None:
        """Count messages of a total size in bytes as outstanding."""
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
        """Block every feed until ``release``, whatever room there is."""
        self.held = self.checks = True

    def release(self) -> None:
        """End a hold."""
        self.held = False
        self._look()
        self._call()

    def wait(self, feed: Feed, size: int) -> None:
        """Put a feed at the end of the line, once; it needs room for a message of so many bytes."""
        if self._line is None:
            self._line = {}
        self.leave(feed)
        self._line[feed] = size
        self.waiting = len(self._line)
        self.checks = True
        feed.waiting = True

    def leave(self, feed: Feed) -> None:
        """Remove a feed from the line, if it is there, and call no other."""
        if self._line and feed in self._line:
            del self._line[feed]
            self.waiting = len(self._line)
            self._look()
            if self._called is feed:
                self._called = None

    def forget(self, feed: Feed) -> None:
        """Remove a feed from the line for good, and call the next one."""
        self.leave(feed)
        self._call()

    def pass_on(self, feed: Feed) -> Feed | None:
        """End the turn of a feed that was called, and return the next in line, which the caller has to wake."""
        if self._called is feed:
            self.leave(feed)
        return self._next()

    def _call(self) -> None:
        """Call the first in line, and wake it."""
        feed = self._next()
        if feed is not None:
            feed.wake(self)

    def _next(self) -> Feed | None:
        """Return the first in line, if there is room for it and no other feed's turn."""
        if self._line and self._called is None:
            feed, size = next(iter(self._line.items()))
            if self.admits(feed, size):
                self._called = feed
                feed.waiting = False
                return feed
        return None


def _check_limits(messages: int, size: int) -> None:
    if messages < 0 or size < 0:
        raise ValueError(f"a window of {messages} messages and {size} bytes; limits are 0 for none, or more")


class Feed:
    """One consumer's claim on a queue; belongs to a session, opened and closed by messages to the queue.

    Created by the consumer's side. Lives until it is closed; what it has not settled by then stays unsettled, until the
    consumer settles or requeues it.

    Args:
        queue: The queue that it reads from.
        consumer: The actor that is told ``Deliver`` and ``FeedClosed``.
        key: The consumer's own name for it; the core never looks at it.
        window: The feed's own window; counts messages that are not settled. ``resize`` of the feed changes it.
        shared: Windows that it shares with other feeds, such as a channel's; they count messages that are not settled.
        socket_window: The window of the connection, in bytes; given back as the socket takes them.
        gate: A window that is only ever held and released, by its consumer; it holds unsettled deliveries or not.
        settles: Whether the consumer settles deliveries. If not, only the socket window holds it back.
        exclusive: Whether it wants to be the queue's only feed.
        priority: Feeds of a lower one get messages only while all higher ones are blocked.
        weight: The same among those of equal priority.
        no_local: The number of a session whose own messages never go to this feed; 0 means none.
    """

    __slots__ = (
        "consumer",
        "exclusive",
        "gate",
        "key",
        "limits",
        "listed",
        "no_local",
        "priority",
        "queue",
        "settles",
        "shared",
        "socket_window",
        "used",
        "waiting",
        "weight",
        "window",
    )

    def __init__(
        self,
        queue: Ref,
        consumer: Ref,
        *,
        key: object = None,
        window: Window | None = None,
        shared: tuple[Window, ...] = (),
        socket_window: Window | None = None,
        gate: Window | None = None,
        settles: bool = True,
        exclusive: bool = False,
        priority: int = 0,
        weight: int = 0,
        no_local: int = 0,
    ) -> None:
        self.queue = queue
        self.consumer = consumer
        self.key = key
        self.window = window or Window()
        self.shared = shared
        self.socket_window = socket_window or Window()
        self.gate = gate
        self.settles = settles
        self.limits = (
            (self.window, *shared, self.socket_window) if settles else (self.socket_window,)
        )  # what a delivery counts in
        self.exclusive = exclusive
        self.priority = priority
        self.weight = weight
        self.no_local = no_local
        self.listed = False  # the strategy's flag: it is in the ready list
        self.used = 0  # the strategy's counter: when it last got something; 0 means never
        self.waiting = False  # the windows' flag: it stands in the line of one of them

    @property
    def unsettled(self) -> int:
        """How many messages its consumer has not settled; none, if it does not settle them."""
        return self.window.used

    def is_full(self) -> bool:
        """Return whether its own window has no room, so that nothing may go before something is settled."""
        return self.settles and 0 < self.window.limit <= self.window.used

    def blocked_by(self, size: int) -> Window | None:
        """Find the first window that a message of so many bytes may not pass; None when it may go."""
        if self.gate is not None and self.gate.held:
            return self.gate
        for window in self.limits:
            if window.checks and not window.admits(self, size):
                return window
        return None

    def room(self) -> tuple[int, int]:
        """Return how many messages, and how many bytes, may go; not looking at the one that may always go."""
        messages = size = UNLIMITED
        for window in self.limits:
            if window.limit and window.limit - window.used < messages:
                messages = window.limit - window.used
            if window.byte_limit and window.byte_limit - window.used_bytes < size:
                size = window.byte_limit - window.used_bytes
        return max(0, messages), max(0, size)

    def take(self, batch: Batch) -> bool:
        """Count a batch in all windows that apply; return whether the feed's own one is full now.

        If it is, nothing may go to the feed before something is settled.
        """
        count, size = batch.left, batch.size
        for window in self.limits:  # as Window.take does it, without a call for each
            window.used += count
            window.used_bytes += size
        own = self.window
        return self.settles and 0 < own.limit <= own.used

    def give(self, count: int, size: int) -> None:
        """Count messages as settled; the connection gives the socket window back, not this."""
        if self.settles:
            self.window.give(count, size)
            for window in self.shared:
                window.give(count, size)

    def resize(self, messages: int, *, bytes: int = 0) -> None:
        """Set new limits for its own window; what is outstanding already stays so."""
        self.window.resize(messages, bytes=bytes)
        self.wake(self.window)

    def forget(self) -> None:
        """Leave the line of every window."""
        self.waiting = False
        if self.gate is not None:
            self.gate.forget(self)
        for window in self.limits:
            window.forget(self)

    def wake(self, window: Window) -> None:
        """Tell the queue that a window has room for this feed; called by the window."""
        self.queue.tell_nowait(Wake(self, window))


def pass_on(called: Iterable[tuple[Window, Feed]], queue: Ref, wake: Callable[[Feed, Window], None]) -> None:
    """End the turns of feeds that windows had called, and call the next ones.

    Args:
        called: The feeds, which are of one queue, and which window had called each.
        queue: That queue, in whose turn this is.
        wake: Wakes a feed of its own.
    """
    for window, feed in called:
        following = window.pass_on(feed)
        if following is None:
            continue
        if following.queue is queue:
            wake(following, window)
        else:
            following.wake(window)


class Wake(Message, frozen=True):
    """To a queue: a window has room for a feed that waited for it."""

    feed: Feed
    window: Window
