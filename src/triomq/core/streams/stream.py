"""A stream: a queue that keeps what was read, and the feeds that read it, each from its own place.

    Publish ─▶ StreamLog ─▶ readable (in memory at once, with a store when it is on disk)
                  ▲                │
    reader at 0 ──┤                ▼ end of turn
    reader at 812 ┤         each reader with room: Batch ─▶ Deliver ─▶ its consumer
    reader at end ┘         each one without: waits for its window, or for records

Rules:

- It answers what a queue answers, so sinks, transactions, dead letters and delays lead into it as into any queue. What
  takes messages out of a queue is refused (``NotForStreams``), since nothing can be taken out of a stream.
- An ack gives room to windows, and nothing else. Requeueing and rejecting do the same: its record is where it was.
  Only what was never sent (``RETURN``) is read again by its feed.
- It never refuses what is published: when it is too large the oldest segments go. TTL and priority mean nothing here.
- Readers take turns, a batch each, and a turn has an end (``_PER_TURN``): a reader that is far behind and always has
  room delays neither the others nor other queues.
- It keeps no record of who read what: the position of a group is written by ``SetPosition``, and by nothing else.

Not done: one dispatch strategy for both kinds. A queue asks which feed gets the next message, a stream which message
the feed gets next; they share feeds and windows, and nothing besides.
"""

from collections import deque
from collections.abc import Sequence
from math import inf

from triomq.actors import InPlaceActor
from triomq.core.backlog import Entry, Remains
from triomq.core.batch import Batch
from triomq.core.delivery import CloseFeed, Deliver, Get, MoveFeed, OpenFeed, Outcome, Postpone, Settle
from triomq.core.dispatch.feed import Feed, Wake, Window, pass_on
from triomq.core.message import Head
from triomq.core.persistence.recorded_delay import DelayedRead, read_delayed
from triomq.core.publishing.publish import Fits, Offer, Publish, PublishChunk
from triomq.core.queue.browse import Browse, Discard, Purge
from triomq.core.queue.expiry import is_unused
from triomq.core.queue.queue_state import Enlist, OptionsChanged, QueueState, QueueStatistics
from triomq.core.queue.timekeeper import Due, Timekeeper
from triomq.core.refusals import NotResident
from triomq.core.streams.groups import groups_of
from triomq.core.streams.log import StreamLog
from triomq.core.streams.reader import FeedReader
from triomq.core.streams.requests import (
    AskBounds,
    ForgetGroup,
    GoOn,
    ReadRange,
    RecordRange,
    Resolved,
    ResolvePlace,
    SetPosition,
)
from triomq.core.streams.retention import RetentionLimits
from triomq.core.streams.start import Bounds, Since, Start
from triomq.core.topology.chores import free
from triomq.core.topology.requests import QueueExpired, QueueUnused
from triomq.errors import InExclusiveUse, NotForStreams, OutOfRange

_PER_TURN = 16
"""Batches of one turn: 2 MiB at most, or some milliseconds."""


class Stream(InPlaceActor):
    """The actor of one stream; started by its domain, lives until deleted."""

    __slots__ = ("_at_end", "_called", "_log", "_readers", "_ready", "_state", "_stop", "_time")

    def __init__(self, state: QueueState) -> None:
        assert isinstance(state.backlog, StreamLog)
        self._state = state
        self._log = state.backlog
        self._time = Timekeeper(state)
        self._readers: dict[Feed, FeedReader] = {}
        self._ready: deque[FeedReader] = deque()  # those whose feeds are listed
        self._at_end: dict[FeedReader, None] = {}  # those that have read all that can be read
        self._called: list[tuple[Window, Feed]] | None = None  # feeds called by a window in this turn
        self._stop = self._log.stop  # what readers at the end have seen

    def on_start(self) -> None:
        """Set the first deadline, if there is one, and repeat the reads that an earlier incarnation waited for."""
        self._time.begin()
        if self._log.is_stored:
            read_delayed(self._state)
        self._log.begin(lambda call: self.ref.tell_nowait(GoOn(call)))
        self._state.notify_arrived()

    def on_stop(self) -> None:
        """Close all feeds: the stream is deleted, or its domain ends."""
        self._state.take_back("the queue is deleted")
        self._log.end()
        if self._state.gone:
            remains: list[Remains] = []
            self._log.release(remains)
            free(remains, self._state.directory.chores)
        self._state.directory.clock.forget(self._state)
        self._state.notify_room()
        self._state.notify_arrived()

    def options_changed(self, message: OptionsChanged) -> None:
        """Apply changed options; ``after_batch`` drops what exceeds new limits."""
        state = self._state
        self._log.segments.limits = RetentionLimits.of(state.options, state.ceiling, in_memory=not self._log.is_stored)
        self._time.begin()

    # Publishing

    def publish(self, message: Publish) -> None:
        """Append a run; persistent or not, a publisher hears of it when it can be read."""
        state, count, receipt = self._state, len(message.contents), message.receipt
        if message.delay > 0:
            self._time.put_off(message)
            batch = self._log.open_batch if state.persists(message.head) else 0
        else:
            batch = self._append(message.head, message.contents, message.size, message.heads)
        state.published += count
        if receipt is not None:
            if batch:
                receipt.wait_for(max(batch, receipt.number), count)  # other queues may wait for a later one
            receipt.placed(count)

    def publish_chunk(self, message: PublishChunk) -> None:
        """Append the records of a chunk."""
        self._log.push_chunk(message.chunk)
        self._state.published += message.count

    def _push(self, head: Head, contents: Sequence[bytes], size: int, heads: Sequence[Head] | None = None) -> None:
        self._append(head, contents, size, heads)

    def _append(self, head: Head, contents: Sequence[bytes], size: int, heads: Sequence[Head] | None) -> int:
        """Append a run; return the batch of the store that has all of it."""
        log = self._log
        if log.publishers is None:
            log.push(head, contents, size, heads=heads)
            return log.open_batch
        places, highest = log.publishers.sift(head, contents, heads)
        if len(places) < len(contents):
            contents = [contents[place] for place in places]
            size = sum(map(len, contents))
            if heads is not None and places:
                heads = [heads[place] for place in places]
                head = heads[0]
        log.push(head, contents, size, heads=heads)
        log.publishers.record(highest)
        return log.last_batch

    def offer(self, message: Offer) -> bool:
        """Refuse: whether a consumer gets a record at once is not known before it can be read."""
        return False

    def fits(self, message: Fits) -> bool:
        """Return that nothing would be refused: older records give way."""
        return True

    def go_on(self, message: GoOn) -> None:
        """Do what the log has to do; ``after_batch`` delivers what can be read then."""
        message.call()
        if self._log.retry_at < inf:
            self._time.needs_clock = True
        self._state.notify_arrived()

    # Reading

    def open_feed(self, message: OpenFeed) -> None:
        """Open a feed at a place."""
        state, feed = self._state, message.feed
        feeds = state.feeds
        if feeds and (feed.exclusive or next(iter(feeds)).exclusive):  # an exclusive feed is always alone
            raise InExclusiveUse(state.name)
        if feeds is None:
            feeds = state.feeds = {}
        place = message.start or Start.NEXT
        since = int(place.time * 1_000_000) if isinstance(place, Since) else 0
        reader = FeedReader(feed, self._log.offset_of(place), since)
        self._list(reader)
        self._readers[feed] = reader
        feeds[feed] = None

    def move_feed(self, message: MoveFeed) -> None:
        """Replace a feed by another one, which goes on where the first one is."""
        feed, successor, feeds = message.feed, message.successor, self._state.feeds
        if not feeds or feed not in self._readers:
            return
        self._state.feeds = {successor if other is feed else other: None for other in feeds}
        reader = self._forget(feed)
        following = self._readers[successor] = FeedReader(successor, reader.offset, reader.since)
        self._list(following)

    def close_feed(self, message: CloseFeed) -> None:
        """Close a feed; tell the domain if it was the last one of an auto-delete queue."""
        feeds, feed = self._state.feeds, message.feed
        if not feeds or feed not in feeds:
            return
        del feeds[feed]
        self._forget(feed)
        if feeds:
            return
        self._time.use()
        if self._state.options.auto_delete:
            assert self.ref.parent is not None
            self.ref.parent.tell_nowait(QueueUnused(self._state.name))

    def _forget(self, feed: Feed) -> FeedReader:
        reader = self._readers.pop(feed)
        reader.close()
        feed.forget()
        if feed.listed:
            feed.listed = False
            self._ready.remove(reader)
        self._at_end.pop(reader, None)
        return reader

    def settle(self, message: Settle) -> None:
        """Give the room of deliveries back to the windows of their feed."""
        batch, positions, outcome = message.batch, message.positions, message.outcome
        if not self._log.holds(batch):
            return
        if (observers := self._state.directory.message_observers) is not None:
            observers.settled(self._state, batch, positions, outcome)
        feed = batch.feed
        reader = self._readers.get(feed) if feed is not None else None
        if reader is not None and outcome is Outcome.RETURN:
            unsent = batch.unsettled() if positions is None else positions
            reader.go_back(min([batch.ids[position] for position in unsent], default=reader.offset))
        count, size = self._log.accept(batch, positions)
        if feed is not None:
            feed.give(count, size)
        if reader is not None:
            self._list(reader)

    def postpone(self, message: Postpone) -> None:
        """Settle a delivery over which a consumer has failed: its record is where it was."""
        self.settle(Settle(message.batch, Outcome.REJECT, (message.position,)))

    def _list(self, reader: FeedReader) -> None:
        """Let a reader take part again, unless it waits for a window or for the disk."""
        feed = reader.feed
        if not feed.listed and not feed.waiting and not reader.is_reading:
            feed.listed = True
            self._ready.append(reader)

    def wake(self, message: Wake) -> None:
        """Let a reader take part again that waited for a window."""
        self._wake(message.feed, message.window)

    def _wake(self, feed: Feed, window: Window) -> None:
        if (reader := self._readers.get(feed)) is not None:
            self._list(reader)
        if self._called is None:
            self._called = []
        self._called.append((window, feed))

    def read_range(self, message: ReadRange) -> RecordRange | None:
        """Return chunks that are in memory; None if the first one is not."""
        log = self._log
        if message.first < log.base:
            raise OutOfRange(self._state.name, message.first, log.base, log.stop)
        if message.first >= log.stop:
            return RecordRange(log.bounds, [])
        chunks = log.read(message.first, message.most_records, message.most_bytes)
        return RecordRange(log.bounds, chunks) if chunks else None

    def ask_bounds(self, message: AskBounds) -> Bounds:
        """Return what can be read: also what has reached the disk a moment ago."""
        self._log.catch_up()
        return self._log.bounds

    def resolve_place(self, message: ResolvePlace) -> Resolved:
        """Return where a reader begins that asks for ranges."""
        log = self._log
        offset = log.positions.get(message.group) if message.group is not None else None
        return Resolved(log.identity, log.offset_of(message.place) if offset is None else offset)

    def set_position(self, message: SetPosition) -> int:
        """Record how far a group has read."""
        state = self._state
        state.use()
        user, used = groups_of(state.directory).set(state.name, message.group, message.user)
        return self._log.set_position(message.group, message.offset, user, used)

    def forget_group(self, message: ForgetGroup) -> bool:
        """Forget the position of a group."""
        groups_of(self._state.directory).forget(self._state.name, message.group)
        return self._log.forget_group(message.group)

    def browse(self, message: Browse) -> Sequence[Entry]:
        """Return records by their offsets."""
        entries = self._log.browse(message.after, message.limit, lambda reading: None)
        if entries is None:
            raise NotResident(self._state)
        return entries

    def enlist(self, message: Enlist) -> QueueStatistics:
        """Return a snapshot, after feeds have taken what they can."""
        self._deliver()
        return self._state.statistics()

    # What takes messages out of a queue

    def get(self, message: Get) -> Batch | None:
        """Refuse."""
        raise NotForStreams(self._state.name, "get")

    def purge(self, message: Purge) -> int:
        """Refuse."""
        raise NotForStreams(self._state.name, "purge")

    def discard(self, message: Discard) -> int:
        """Refuse."""
        raise NotForStreams(self._state.name, "discard")

    # Time and dispatching

    def delayed_read(self, message: DelayedRead) -> None:
        """Delay again what an earlier life of the broker has delayed."""
        self._time.put_back(message)

    def due(self, message: Due) -> None:
        """Ask the domain to delete the stream if it is unused; ``after_batch`` looks at the records."""
        self._time.needs_clock = True
        self._log.retry()
        if is_unused(self._state, self._state.directory.clock.now()):
            assert self.ref.parent is not None
            self.ref.parent.tell_nowait(QueueExpired(self._state.name))

    def after_batch(self) -> None:
        """Drop what is too old, and dispatch once per turn."""
        if self._time.needs_clock:
            self._time.catch_up(self._push)
        self._log.drop_old()
        self._deliver()
        if self._ready:
            self._time.hurry()
        if self._time.needs_clock or self._log.segments.limits.age:
            self._time.look_ahead()
        if self._state.room_wanted:
            self._state.notify_room()
        if self._state.directory.idle_wanted:
            self._state.directory.look_idle()

    def _deliver(self) -> None:
        log = self._log
        if self._stop < log.stop:
            self._stop = log.stop
            for reader in self._at_end:
                self._list(reader)
            self._at_end.clear()
            self._state.notify_arrived()
        batches = _PER_TURN
        while True:
            while self._ready and batches:
                batches -= self._serve(self._ready.popleft())
            if not self._called:
                break
            called, self._called = self._called, None
            pass_on(called, self.ref, self._wake)

    def _serve(self, reader: FeedReader) -> bool:
        """Deliver the next records to a feed; return whether it got any."""
        feed = reader.feed
        feed.listed = False
        run = reader.next_run(self._log)
        if run is None:
            if not reader.fetch(self._log, self._list):
                self._at_end[reader] = None
            return False
        size = reader.next_size(run)
        window = feed.blocked_by(size)
        if window is not None:
            if window is not feed.window:
                window.wait(feed, size)
            return False
        batch = reader.take(run)
        batch.queue = self.ref
        self._log.hand_out(batch)
        if not feed.take(batch):
            self._list(reader)
        state = self._state
        state.delivered += batch.left
        if state.directory.message_observers is not None:
            state.directory.message_observers.handed_out(state, batch)
        feed.consumer.tell_nowait(Deliver(feed, batch))
        return True
