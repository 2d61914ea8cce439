"""A feed: one delivery stream from a queue to one consumer, under windows."""

from typing import TYPE_CHECKING

from triomq.actors import Message, Ref
from triomq.core.dispatch.window import UNLIMITED, Window

if TYPE_CHECKING:
    from triomq.core.batch import Batch


class Feed:
    """One consumer's claim on a queue; belongs to a session, opened and closed by messages to the queue.

    Created by whoever consumes. Lives until it is closed; what it has not settled by then stays unsettled, and is
    requeued when its consumer says so.

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
        priority: Who gets messages first; lower ones get some only while all higher ones are blocked.
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
        self.listed = False  # the strategy's own note: it takes part in the dispatch
        self.used = 0  # the strategy's own note: when it last got something; 0 means never
        self.waiting = False  # the windows' own note: it stands in the line of one of them

    @property
    def unsettled(self) -> int:
        """How many messages are out with its consumer; none, if it does not settle them."""
        return self.window.used

    def is_full(self) -> bool:
        """Tell whether its own window has no room, so that nothing may go before something is settled."""
        window = self.window
        return self.settles and 0 < window.limit <= window.used

    def blocked_by(self, size: int) -> Window | None:
        """Find the first window that a message of so many octets may not pass; None when it may go."""
        if self.gate is not None and self.gate.held:
            return self.gate
        for window in self.limits:
            if window.checks and not window.admits(self, size):
                return window
        return None

    def room(self) -> tuple[int, int]:
        """Tell how many messages, and how many octets, may go; not looking at the one that may always go."""
        messages = octets = UNLIMITED
        for window in self.limits:
            if window.limit and window.limit - window.used < messages:
                messages = window.limit - window.used
            if window.byte_limit and window.byte_limit - window.used_bytes < octets:
                octets = window.byte_limit - window.used_bytes
        return max(0, messages), max(0, octets)

    def take(self, batch: "Batch") -> None:
        """Count a batch in all windows that apply."""
        count, size = batch.left, batch.size
        for window in self.limits:  # as Window.take does it, without a call for each
            window.used += count
            window.used_bytes += size

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


class Wake(Message, frozen=True):
    """To a queue: a window has room for a feed that waited for it."""

    feed: Feed
    window: Window
