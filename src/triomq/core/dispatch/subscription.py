"""Subscriptions: the one way out of a queue, as ``publishing`` is the one way in.

A subscription is made with the rights of a user, and refuses to be made without them, so that a protocol cannot open a
feed and forget to ask. It owns the feed, and is the key under which the feed's deliveries come to its actor.

Unsettled deliveries are held by the component that numbers them (``Ledger``, for protocols that settle by number),
since each protocol knows deliveries by something else. Close a subscription before you settle or requeue what it has,
in the same turn: the room that is given back would let the next messages come.
"""

from triomq.actors import Ref
from triomq.core.access import Permissions
from triomq.core.dispatch.feed import Feed, Window
from triomq.core.queue.queue_state import QueueState
from triomq.core.refusals import Forbidden
from triomq.core.streams.start import Place
from triomq.core.topology.session import Session


class Subscription:
    """One consumer of a queue; created when it wants to consume, ended by it, by its queue, or with its session.

    ``feed`` is the one that is open. It is another than ``home``, the first one, while a successor takes what comes.

    Args:
        session: The session that consumes.
        access: What the user may do; ``EVERYTHING`` is for this program itself.
        queue: The queue.
        consumer: The actor that is told ``Deliver`` and ``FeedClosed``.
        window: As for ``Feed``, as are the next ones.
        shared: Windows that it shares with others.
        socket_window: The window of the connection.
        gate: A window that its consumer holds and releases.
        settles: Whether the consumer settles deliveries.
        exclusive: Whether it wants to be the queue's only one.
        priority: Feeds of a lower one get messages only while all higher ones are blocked.
        weight: The same among those of equal priority.
        no_local: Whether what the session itself publishes never comes.
        start: Where in a stream it begins; None is with the next record.

    Raises:
        Forbidden: The user may not.
        QueueLocked, NoSuchQueue: It belongs to another session, or another user.
    """

    __slots__ = ("_session", "_start", "feed", "home", "open")

    feed: Feed
    home: Feed

    def __init__(
        self,
        session: Session,
        access: Permissions,
        queue: QueueState,
        consumer: Ref,
        *,
        window: Window | None = None,
        shared: tuple[Window, ...] = (),
        socket_window: Window | None = None,
        gate: Window | None = None,
        settles: bool = True,
        exclusive: bool = False,
        priority: int = 0,
        weight: int = 0,
        no_local: bool = False,
        start: Place | None = None,
    ) -> None:
        if not access.may_read(queue.name):
            raise Forbidden("queue", queue.name)
        queue.require_use(session)
        self._session = session
        self._start = start
        self.open = True
        self.home = self.feed = Feed(
            queue.ref,
            consumer,
            key=self,
            window=window,
            shared=shared,
            socket_window=socket_window,
            gate=gate,
            settles=settles,
            exclusive=exclusive,
            priority=priority,
            weight=weight,
            no_local=session.number if no_local else 0,
        )

    def begin(self) -> None:
        """Start deliveries; raises as ``Session.open_feed`` does."""
        self._session.open_feed(self.feed, self._start)

    def move(self, successor: Feed) -> None:
        """Deliver on another feed of the same queue from now on."""
        before, self.feed = self.feed, successor
        self._session.move_feed(before, successor)

    def close(self) -> None:
        """Stop deliveries; a second call does nothing. What is unsettled stays so."""
        if self.open:
            self._session.close_feed(self.feed)
            self._end()

    def lost(self, feed: Feed) -> None:
        """Record that the queue has closed a feed of this subscription."""
        self._session.forget_feed(feed)
        self._end()

    def _end(self) -> None:
        """Drop the feeds, which refer to the subscription: a cycle, which only the garbage collector would find."""
        if self.open:
            self.open = False
            del self.feed, self.home
