"""The state of a queue that outlives its incarnations: options, messages, feeds, counters."""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

import msgspec

from triomq.actors import Message, Ref, Request
from triomq.core.backlog import Backlog, MemoryBacklog, PagedPlainBacklog, PagedPriorityBacklog, PriorityBacklog
from triomq.core.delivery import FeedClosed
from triomq.core.dispatch.feed import Feed
from triomq.core.message import Head
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.queue.delay import Delayed, Postponed
from triomq.core.routing.bindings import Binding
from triomq.core.streams.log import StreamLog
from triomq.core.streams.publishers import Publishers
from triomq.core.streams.retention import RetentionLimits
from triomq.core.streams.start import Bounds
from triomq.core.streams.stored import StoredLog
from triomq.core.topology.options import QueueOptions
from triomq.core.topology.policy import Policy, queue_options
from triomq.errors import NoSuchQueue, QueueLocked, StoreError
from triomq.store import Reading, RecordKind

if TYPE_CHECKING:
    from triomq.core.publishing.credit import Allowance
    from triomq.core.routing.sink import SinkState
    from triomq.core.topology.directory import Directory
    from triomq.core.topology.session import Session


class StreamStatistics(msgspec.Struct, frozen=True, gc=False):
    """What a snapshot has of a stream besides.

    Args:
        bounds: What can be read.
        segments: Parts of it that retention removes as a whole.
        lags: By group, how many records it has not read.
    """

    bounds: Bounds
    segments: int
    lags: dict[str, int]


class QueueStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of a queue.

    Args:
        ready: Messages that no consumer has.
        ready_bytes: Bytes of their bodies.
        unsettled: Messages that consumers have and have not settled.
        feeds: Open feeds.
        published: Messages stored since the queue was declared.
        delivered: Messages handed out since then, again and again counted again.
        dropped: Messages that gave way or were refused because the queue was full, or that no feed would take.
        delayed: Messages that become ready later, since they were published so or a consumer failed over them.
        expired: Messages that expired.
        dead_lettered: Copies of given up messages that went to other queues.
        rejected: Messages that a consumer rejected.
        exhausted: Messages that came back more often than the delivery limit allows.
        stream: What only a stream has; None for a queue.
    """

    ready: int
    ready_bytes: int
    unsettled: int
    feeds: int
    published: int
    delivered: int
    dropped: int
    delayed: int = 0
    expired: int = 0
    dead_lettered: int = 0
    rejected: int = 0
    exhausted: int = 0
    stream: StreamStatistics | None = None


class Enlist(Request[QueueStatistics], frozen=True):
    """To a queue: return a snapshot, taken when everything before this request has been handled."""


class Arrived(Message, frozen=True):
    """To a queue: here are the messages that you wanted to page in."""

    reading: Reading | StoreError


class PageRead(Message, frozen=True):
    """To a queue: messages that were read for a browser."""

    reading: Reading | StoreError


class OptionsChanged(Message, frozen=True):
    """To a queue: your store has other options now."""


class QueueState:
    """The state of a queue that outlives its incarnations; created and owned by the domain.

    ``options`` are those in force: what was declared, under the policy that applies. ``durable`` is whether the queue
    is there again after a restart: a durable declaration, and no owner.

    Args:
        name: The queue's name.
        declared: What it was declared with.
        directory: The domain's directory.
        owner: The session that has the queue for itself.
        origin: The peer that made it; empty if it is this broker's own.
        user: The user whose session declared it, who is charged for it; empty if it was the program itself.
        number: Its number in the store, if that knows it already.
        identity: The stream's, if that is there already.
    """

    __slots__ = (
        "allowance",
        "arrived_wanted",
        "backlog",
        "bound",
        "ceiling",
        "dead_lettered",
        "declared",
        "delayed",
        "delivered",
        "directory",
        "dropped",
        "durable",
        "exhausted",
        "expired",
        "feeds",
        "gone",
        "lost",
        "name",
        "options",
        "origin",
        "owner",
        "policy",
        "postponed",
        "published",
        "ref",
        "rejected",
        "room_wanted",
        "used",
        "user",
        "warned",
    )

    ref: Ref

    def __init__(
        self,
        name: str,
        declared: QueueOptions,
        directory: "Directory",
        owner: "Session | None" = None,
        origin: str = "",
        *,
        user: str = "",
        number: int = 0,
        identity: int = 0,
    ) -> None:
        self.name = name
        self.declared = declared
        self.options = declared
        self.policy: Policy | None = None
        self.directory = directory
        self.owner = owner
        self.origin = origin
        self.user = user
        self.durable = declared.durable and owner is None
        self.backlog = self._make_backlog(number) if declared.stream is None else self._make_log(number, identity)
        self.delayed: Delayed | None = None
        self.postponed: Postponed | None = None
        self.used = 0.0  # when a client used it last, in seconds of the clock; set only if it can expire
        self.allowance: Allowance | None = None  # what it may hold before publishers pause, while it is not low
        self.room_wanted: list[Callable[[], None]] | None = None
        self.arrived_wanted: list[Callable[[], None]] | None = None
        self.gone = False  # whether it was deleted; then its bindings go bit by bit
        self.bound: dict[Binding, SinkState] | None = None  # the bindings to it, with their sources
        self.feeds: dict[Feed, None] | None = None
        self.published = 0
        self.delivered = 0
        self.dropped = 0
        self.expired = 0
        self.dead_lettered = 0
        self.lost = 0  # of those dropped: what gave way to a ceiling
        self.ceiling = 0  # bytes above which expendable messages give way; 0 is none
        self.warned = -inf  # when the log last got a line about lack of room
        self.rejected = 0
        self.exhausted = 0
        self.apply_policy()

    def _make_backlog(self, number: int) -> Backlog:
        levels, directory = self.declared.max_priority, self.directory
        persistence, now = directory.persistence, directory.clock.now
        if persistence is None:
            return PriorityBacklog(levels) if levels else MemoryBacklog()
        number = number or persistence.number_queue()
        if levels:
            return PagedPriorityBacklog(levels, persistence, number, name=self.name, durable=self.durable, now=now)
        return PagedPlainBacklog(persistence, number, name=self.name, durable=self.durable, now=now)

    def _make_log(self, number: int, identity: int) -> StreamLog:
        log = self._make_records(number, identity)
        if self.declared.stream is not None and self.declared.stream.deduplicate:
            records = KeyedRecords(self.directory, RecordKind.PUBLISHER) if log.is_stored else None
            log.publishers = Publishers(self.name, records, self.directory.codecs.read, self.directory.user_of)
        return log

    def _make_records(self, number: int, identity: int) -> StreamLog:
        directory, persistence = self.directory, self.directory.persistence
        in_memory = persistence is None or not self.durable
        limits = RetentionLimits.of(self.declared, 0, in_memory=in_memory)
        if persistence is None or in_memory:
            return StreamLog(limits, directory.clock.now, identity)
        number = number or persistence.number_queue()
        return StoredLog(limits, directory, persistence, number, self.name, identity)

    def is_hidden_from(self, user: str) -> bool:
        """Return whether it belongs to another user; the program itself has the empty name and sees everything."""
        return self.declared.private and user not in ("", self.user)

    def require_use(self, session: "Session") -> None:
        """Require that a session may use the queue in any other way than by sending to it.

        This is the one place that knows whose a queue is. All ways to a queue lead through it: ``Directory.queue``,
        ``Subscription``, the domain's requests, and what endpoints ask of queues with their users' rights.

        Raises:
            QueueLocked: It belongs exclusively to another session.
            NoSuchQueue: It belongs to another user, for whom it is not there.
        """
        if self.owner is not None and self.owner is not session:
            raise QueueLocked(self.name)
        if self.is_hidden_from(session.user):
            raise NoSuchQueue(self.name)

    def ready_count(self) -> int:
        """Return how many messages no consumer has, wherever they are."""
        return self.backlog.ready

    def persists(self, head: Head) -> bool:
        """Whether messages with this head are there again after a restart."""
        return self.durable and head.traits.persistent and self.directory.persistence is not None

    def set_ceiling(self, ceiling: int) -> None:
        """Set the bytes above which expendable messages give way, unless the options set a limit of their own."""
        self.ceiling = ceiling
        self.ref.tell_nowait(OptionsChanged())

    def apply_policy(self) -> bool:
        """Apply the policy that the directory has for this queue; return whether its options have changed."""
        self.policy, before = self.directory.policies.of_queue(self.name, self.declared), self.options
        self.options = queue_options(self.declared, self.policy)
        return self.options != before

    def use(self) -> None:
        """Record that the queue is used now."""
        if self.options.expires is not None:
            self.used = self.directory.clock.now()

    def statistics(self) -> QueueStatistics:
        """Return a snapshot."""
        backlog, postponed = self.backlog, len(self.postponed or ())
        feeds = len(self.feeds) if self.feeds else 0
        return QueueStatistics(
            backlog.ready,
            backlog.ready_bytes,
            backlog.unsettled - postponed,
            feeds,
            self.published,
            self.delivered,
            self.dropped,
            (self.delayed.count if self.delayed is not None else 0) + postponed,
            self.expired,
            self.dead_lettered,
            self.rejected,
            self.exhausted,
            self._stream_statistics(),
        )

    def _stream_statistics(self) -> StreamStatistics | None:
        log = self.backlog
        if not isinstance(log, StreamLog):
            return None
        return StreamStatistics(log.bounds, len(log.segments), {group: log.lag(group) for group in log.positions})

    @property
    def idle(self) -> bool:
        """Whether no consumer has an unsettled message, and no message waits for its time or for an open feed.

        Messages that the queue's actor has not handled yet count as work: dead letters of another queue in this turn,
        publishes while it is being restarted.
        """
        backlog, options = self.backlog, self.options
        if self.ref.waiting or backlog.unsettled or (self.delayed is not None and self.delayed.count):
            return False
        if isinstance(backlog, StreamLog):
            return not backlog.has_outstanding
        dying = options.dead_letter_sink is not None and backlog.next_deadline() < inf
        return not backlog.ready or not (self.feeds or dying)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when the queue may have room again or is deleted."""
        if self.room_wanted is None:
            self.room_wanted = []
        self.room_wanted.append(callback)

    def forget_room(self, callback: Callable[[], None]) -> None:
        """Withdraw a callback that was not called yet."""
        if self.room_wanted and callback in self.room_wanted:
            self.room_wanted.remove(callback)

    def notify_room(self) -> None:
        """Call what waits for room."""
        wanted, self.room_wanted = self.room_wanted, None
        for callback in wanted or ():
            callback()

    def when_arrived(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when messages are in memory that had to be read."""
        if self.arrived_wanted is None:
            self.arrived_wanted = []
        self.arrived_wanted.append(callback)

    def notify_arrived(self) -> None:
        """Call what waits for messages to be in memory."""
        wanted, self.arrived_wanted = self.arrived_wanted, None
        for callback in wanted or ():
            callback()

    def take_back(self, reason: str) -> None:
        """Close every feed, and requeue unsettled messages, marked; called when an incarnation of the queue ends.

        The feeds of a deleted queue are closed by its domain. What their consumers settle from now on is ignored, so
        the room that it took in windows is given back here.
        """
        feeds, self.feeds = self.feeds, None
        for feed in feeds or ():
            close_feed(feed, reason)
        if self.allowance is not None:
            self.allowance.end()
        for batch in self.postponed.take_all() if self.postponed is not None else ():
            self.backlog.requeue(batch, marked=False)  # its failure is counted already
        for batch in self.backlog.outstanding():
            count, size = self.backlog.requeue(batch)
            if batch.feed is not None:
                batch.feed.give(count, size)


def close_feed(feed: Feed, reason: str) -> None:
    """Close a feed, and tell its consumer."""
    feed.forget()
    feed.consumer.tell_nowait(FeedClosed(feed, reason))
