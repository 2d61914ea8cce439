"""A queue: ordered messages, and the feeds that they leave by.

Rules:

- A queue never waits and never makes a client wait. What arrives is stored by its handler; at the end of the turn it
  dispatches once to the feeds that have room. So a run of a thousand messages costs one dispatch. Then it looks whether
  it holds more than its allowance: what follows from that, for moments, is ``credit``'s.
- Being full is an answer: the oldest messages give way, or the newest are refused (``limits``).
- The messages live in a ``Backlog`` that belongs to the ``QueueState``, which the domain owns. When a queue crashes,
  the domain puts unsettled messages back in their places, marked, tells the consumers that their feeds are closed, and
  starts the next incarnation.
- Deadlines are the ``Timekeeper``'s. Most queues have none, and never read the clock.
- In a broker with a store the backlog pages: a queue asks it for more when few messages are resident (``after_batch``),
  and the answers come as ``Arrived`` and ``PageRead``.

What one turn does:

    Publish ─▶ publish ─▶ delay, limits or ceiling ─▶ Backlog.push
    Settle ──▶ settle ──▶ Backlog.accept or requeue ─▶ Feed.give
    end of turn ─▶ after_batch ─▶ expired ─▶ dispatch ─▶ Deliver to consumers ─▶ shed ─▶ page in

Not done: dispatching in ``publish`` (it would be a batch for each run instead of one for each turn), and a timer for
each queue (ten thousand queues share one task, see ``Clock``).
"""

from collections.abc import Callable, Sequence
from math import inf

from triomq.actors import InPlaceActor
from triomq.core.backlog import Entry, PagedBacklog, Remains
from triomq.core.batch import Batch
from triomq.core.delivery import CloseFeed, Deliver, Get, MoveFeed, OpenFeed, Outcome, Postpone, Settle
from triomq.core.dispatch.dispatch import Dispatch, ReadyMessages
from triomq.core.dispatch.feed import UNLIMITED, Feed, Wake, Window, pass_on
from triomq.core.dispatch.strategies import suitable_dispatch
from triomq.core.message import Head, Stretch
from triomq.core.persistence.recorded_delay import DelayedRead, forget_delayed, read_delayed
from triomq.core.publishing.confirms import Receipt
from triomq.core.publishing.credit import LITTLE, look_at_credit
from triomq.core.publishing.publish import Fits, Offer, Publish
from triomq.core.queue.browse import Browse, Discard, Purge, discard
from triomq.core.queue.deadletter import Reason, RefusedLetters
from triomq.core.queue.expiry import is_unused
from triomq.core.queue.handover import HandBack, TakeOver, take_over
from triomq.core.queue.intake import sort_out
from triomq.core.queue.limits import (
    bytes_of,
    bytes_ready,
    count_fitting,
    fits_all,
    fits_below,
    is_full,
    make_room,
    shed,
)
from triomq.core.queue.moved import MovedMessages
from triomq.core.queue.paging import Paging
from triomq.core.queue.queue_state import Arrived, Enlist, OptionsChanged, PageRead, QueueState, QueueStatistics
from triomq.core.queue.settling import GiveUp, forget_postponed, give_up, postpone, put_back
from triomq.core.queue.timekeeper import Due, Timekeeper
from triomq.core.topology.chores import free
from triomq.core.topology.options import Overflow
from triomq.core.topology.requests import QueueExpired, QueueUnused
from triomq.errors import InExclusiveUse


class Queue(InPlaceActor):
    """The actor of one queue; started by its domain, lives until deleted."""

    __slots__ = (
        "_backlog",
        "_called",
        "_ceiling",
        "_checks",
        "_dispatch",
        "_journal",
        "_number",
        "_paging",
        "_rejects",
        "_sheds",
        "_slack",
        "_sorts",
        "_state",
        "_time",
    )

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._backlog = state.backlog
        persistence = state.directory.persistence
        self._journal = persistence.journal if persistence is not None and state.durable else None
        self._number = state.backlog.queue if isinstance(state.backlog, PagedBacklog) else 0  # the store's for it
        self._look()
        self._time = Timekeeper(state)
        self._paging = Paging(state, self._time)
        self._dispatch: Dispatch | None = None
        self._called: list[tuple[Window, Feed]] | None = None  # feeds called by a window in this turn

    def _look(self) -> None:
        """Read the options: which checks a run has to pass."""
        options = self._state.options
        self._rejects = options.is_bounded and options.overflow is not Overflow.DROP_HEAD
        self._sheds = options.is_bounded and options.overflow is Overflow.DROP_HEAD
        self._ceiling = 0 if options.is_bounded else self._state.ceiling
        self._checks = self._rejects or self._ceiling > 0  # whether some of a run may not be stored
        self._slack = (
            0  # bytes that certainly fit below the ceiling; 0 after messages became ready that were not published now
        )
        self._sorts = options.message_ttl is not None or options.max_priority > 0

    def options_changed(self, message: OptionsChanged) -> None:
        """Apply changed options; ``after_batch`` removes what exceeds new limits."""
        self._look()
        self._time.begin()

    def on_start(self) -> None:
        """Set the first deadline, if there is one, and repeat the reads that an earlier incarnation waited for."""
        self._time.begin()
        if isinstance(self._backlog, PagedBacklog):
            self._backlog.forget_reading()
            read_delayed(self._state)
            self._state.notify_arrived()

    def on_stop(self) -> None:
        """Close all feeds: the queue is deleted, or its domain ends."""
        self._state.take_back("the queue is deleted")
        if isinstance(self._backlog, PagedBacklog):
            self._backlog.forget_reading()
        if self._state.gone:
            remains: list[Remains] = []
            self._backlog.release(remains)
            free(remains, self._state.directory.chores)
            self._report_removed()
        self._state.directory.clock.forget(self._state)
        self._state.notify_room()
        self._state.notify_arrived()

    # Publishing

    def publish(self, message: Publish) -> None:
        """Store a run, or as much of it as there is room for."""
        state = self._state
        placed = count = len(message.contents)
        if message.delay > 0:
            self._time.put_off(message)
            if message.receipt is not None and self._journal is not None and message.head.traits.persistent:
                message.receipt.wait_for(self._journal.open_batch, count)
        elif self._checks:
            placed = self._push_fitting(message) if self._rejects else self._push_below_ceiling(message)
        else:
            self._push(message.head, message.contents, message.size, message.heads, message.receipt)
        state.published += placed
        if placed < count:
            state.dropped += count - placed
            if state.options.overflow is Overflow.REJECT_PUBLISH_DLX:
                self._refuse_as_dead_letters(message.part(placed, count))
        if message.receipt is not None:
            self._report(message.receipt, message, placed)

    def _refuse_as_dead_letters(self, refused: Stretch) -> None:
        letters = RefusedLetters(self._state, refused)
        if letters.go_on():
            self._state.directory.chores.add(letters)

    def _report(self, receipt: Receipt, message: Publish, placed: int) -> None:
        """Report to a publisher how many messages were stored; which batch of the store has them it knows already."""
        refused = len(message.contents) - placed
        if refused:
            message.refuse(placed)
        if placed:
            receipt.placed(placed)

    def _push(
        self,
        head: Head,
        contents: Sequence[bytes],
        size: int,
        heads: Sequence[Head] | None = None,
        receipt: Receipt | None = None,
    ) -> None:
        """Store messages behind those that are there; a publisher may wait until they are safe."""
        if receipt is not None and self._journal is not None and head.traits.persistent:
            self._journal.owe(self._number, self._backlog.next_id, len(contents), receipt)
        if not self._sorts and not head.traits.has_expiration:
            self._backlog.push(head, contents, size, inf, 0, heads)
            return
        state = self._state
        now = state.directory.clock.now()
        for part in sort_out(Stretch(head, contents, heads), size, state.options, state.directory.codecs, now):
            self._backlog.push(part.head, part.contents, part.size, part.deadline, part.level, part.heads)
            if part.deadline < inf:
                self._time.expect_expiry(now)

    def _push_due(self, head: Head, contents: Sequence[bytes], size: int, heads: Sequence[Head] | None) -> None:
        """Store messages whose delay is over."""
        self._push(head, contents, size, heads)

    def _push_fitting(self, run: Publish) -> int:
        """Store as much as fits, dispatching in between to make room; return how many messages were stored."""
        placed, count = 0, len(run.contents)
        while placed < count:
            self._deliver()
            fitting = count_fitting(self._state, run.part(placed, count))
            if not fitting:
                break
            self._push_part(run.part(placed, placed + fitting), run.receipt)
            placed += fitting
        return placed

    def _push_part(self, part: Stretch, receipt: Receipt | None) -> None:
        self._push(part.head, part.contents, sum(map(len, part.contents)), part.heads, receipt)

    def _push_below_ceiling(self, run: Publish) -> int:
        """Store a run, or as much of it as there is room for when messages have given way that may."""
        # What is in the queue is looked at only when as much has come as there was room for then.
        self._slack -= bytes_of(run)
        if self._slack >= 0:
            self._push(run.head, run.contents, run.size, run.heads, run.receipt)
            return len(run.contents)
        self._deliver()
        count = make_room(self._state, self._ceiling, run)
        self._slack = max(0, self._ceiling - bytes_ready(self._state) - bytes_of(run))
        if count:
            self._push_part(run.part(0, count), run.receipt)
        return count

    def offer(self, message: Offer) -> bool:
        """Store a message if a feed takes it at once, and leave no trace of it otherwise; return whether one did."""
        self._deliver()
        backlog = self._backlog
        if backlog.ready:
            return False
        dropped = self._state.dropped
        self._push(message.head, [message.content], len(message.content))
        self._dispatch_all()
        if backlog.resident:
            backlog.drop(1, backlog.lowest_level)
            return False
        if self._state.dropped > dropped:  # no feed wanted it
            self._state.dropped = dropped
            return False
        self._state.published += 1
        return True

    def fits(self, message: Fits) -> bool:
        """Return whether nothing of some runs would be refused."""
        if not self._rejects and not self._ceiling:
            return True
        self._deliver()
        if self._ceiling:
            return fits_below(self._state, self._ceiling, message.runs)
        return fits_all(self._state, message.runs)

    # Settling

    def settle(self, message: Settle) -> None:
        """Settle deliveries, and give their room back to the windows of their feed."""
        batch, positions, outcome = message.batch, message.positions, message.outcome
        if not self._backlog.holds(batch):
            return
        if self._state.directory.message_observers is not None:
            self._state.directory.message_observers.settled(self._state, batch, positions, outcome)
        if outcome is Outcome.ACCEPT:
            count, size = self._backlog.accept(batch, positions, consumed=not message.in_transaction)
        elif outcome is Outcome.REJECT:
            count, size = give_up(self._state, batch, positions, Reason.REJECTED)
        else:
            count, size = put_back(self._state, batch, positions, marked=outcome is Outcome.REQUEUE)
            self._slack = 0
            if batch.deadline < inf:
                self._time.expect_expiry()
        feed = batch.feed
        if feed is not None:
            feed.give(count, size)
            if not feed.listed and not feed.waiting:
                self._relist(feed)

    def give_up(self, message: GiveUp) -> None:
        """Go on with a settlement that was too much for one turn."""
        batch = message.batch
        if not self._backlog.holds(batch):
            return
        count, size = give_up(self._state, batch, message.positions, message.reason)
        if (feed := batch.feed) is not None:
            feed.give(count, size)
            if not feed.listed and not feed.waiting:
                self._relist(feed)

    def postpone(self, message: Postpone) -> None:
        """Requeue a message after a delay, and give its room in windows back at once."""
        batch = message.batch
        if self._backlog.holds(batch):
            if (observers := self._state.directory.message_observers) is not None:
                observers.settled(self._state, batch, (message.position,), Outcome.REQUEUE)
            count, size = postpone(self._state, batch, message.position, message.reason)
            self._time.needs_clock = True
            if (feed := batch.feed) is not None:
                feed.give(count, size)
                if not feed.waiting:  # else it would lose its place in the line
                    self._relist(feed)

    def _relist(self, feed: Feed) -> None:
        """Add a feed to the ready list again, if it is still open."""
        if self._dispatch is not None and self._state.feeds and feed in self._state.feeds:
            self._dispatch.add(feed)

    # Consuming

    def open_feed(self, message: OpenFeed) -> None:
        """Open a feed."""
        feeds = self._state.feeds
        if feeds and (message.feed.exclusive or next(iter(feeds)).exclusive):  # an exclusive feed is always alone
            raise InExclusiveUse(self._state.name)
        if feeds is None:
            feeds = self._state.feeds = {}
        self._dispatch = suitable_dispatch(
            self._dispatch,
            message.feed,
            feeds,
            discard=self._drop_unwanted,
            single_active=self._state.options.single_active,
        )
        self._dispatch.add(message.feed)
        feeds[message.feed] = None

    def move_feed(self, message: MoveFeed) -> None:
        """Replace a feed by another one of the same kind."""
        feeds, feed, successor = self._state.feeds, message.feed, message.successor
        if not feeds or feed not in feeds or self._dispatch is None:
            return
        self._state.feeds = {successor if other is feed else other: None for other in feeds}
        feed.forget()
        self._dispatch.remove(feed)
        self._dispatch.add(successor)

    def _drop_unwanted(self) -> None:
        """Drop the message that goes next, since no feed wants it."""
        self._backlog.drop(1, self._backlog.next_level)
        self._state.dropped += 1

    def close_feed(self, message: CloseFeed) -> None:
        """Close a feed; tell the domain if it was the last one of an auto-delete queue."""
        feeds, feed = self._state.feeds, message.feed
        if not feeds or feed not in feeds:
            return
        del feeds[feed]
        feed.forget()
        if self._dispatch is not None:
            self._dispatch.remove(feed)
        if feeds:
            return
        self._time.use()
        if self._state.options.auto_delete:
            assert self.ref.parent is not None
            self.ref.parent.tell_nowait(QueueUnused(self._state.name))

    def get(self, message: Get) -> Batch | None:
        """Hand out one message, after feeds have taken what they can."""
        self._time.use()
        if not self._deliver():
            return None
        if not self._backlog.resident:
            if self._backlog.paged and not any(feed.listed for feed in self._state.feeds or ()):
                self._paging.require_resident(self._deliver)
            else:
                return None
        self._state.delivered += 1
        batch = self._backlog.take(1, UNLIMITED)
        batch.queue = self.ref
        if (observers := self._state.directory.message_observers) is not None:
            observers.handed_out(self._state, batch)
        return batch

    def take_over(self, message: TakeOver) -> Sequence[MovedMessages]:
        """Give up the first messages for good, after feeds have taken what they can."""
        return take_over(self._state, message, self._time, self._paging, self._deliver)

    def hand_back(self, message: HandBack) -> None:
        """Store messages again that were taken over."""
        for messages in message.messages:
            self._take_back(messages)
        self._slack = 0

    def _take_back(self, messages: MovedMessages) -> None:
        head, contents, heads = messages.stretch
        self._push(head, contents, sum(map(len, contents)), heads)

    def purge(self, message: Purge) -> int:
        """Remove all ready messages, after feeds have taken what they can; return how many they were."""
        self._deliver()
        state = self._state
        if state.delayed is not None:
            forget_delayed(state, state.delayed.numbers())
        remains: list[Remains] = []
        count = self._backlog.purge(remains) + (state.delayed.purge() if state.delayed is not None else 0)
        count += forget_postponed(state)
        self._report_removed()
        if state.durable and state.directory.persistence is not None:
            state.directory.persistence.mark_sync_point()
        state.notify_arrived()  # what was being read will not come
        free(remains, state.directory.chores)
        return count

    def _report_removed(self) -> None:
        """Report that all is gone that no consumer has."""
        if (on_removed := self._state.directory.on_removed) is not None:
            on_removed(self._state, None, None, ())

    def browse(self, message: Browse) -> Sequence[Entry]:
        """Return ready messages by id, after feeds have taken what they can."""
        self._deliver()
        if self._backlog.paged and not self._backlog.resident:
            self._paging.look_for_more(self._deliver)
        ref = self._state.ref
        entries = self._backlog.browse(message.after, message.limit, lambda reading: ref.tell_nowait(PageRead(reading)))
        if entries is None:
            raise self._paging.not_resident()
        return entries

    def discard(self, message: Discard) -> int:
        """Remove ready messages up to an id; paged ones are paged in for it, some at a time."""
        count = discard(self._state, message.up_to)
        while self._backlog.has_paged(message.up_to):
            if not self._paging.page_in():
                raise self._paging.not_resident(count)
            count += discard(self._state, message.up_to)
        return count

    def enlist(self, message: Enlist) -> QueueStatistics:
        """Return a snapshot, after feeds have taken what they can."""
        self._deliver()
        return self._state.statistics()

    # Time and dispatching

    def due(self, message: Due) -> None:
        """Ask the domain to delete the queue if it is unused; ``after_batch`` looks at the messages."""
        self._time.needs_clock = True
        if self._state.allowance is not None:
            self._state.allowance.due()
        if is_unused(self._state, self._state.directory.clock.now()):
            assert self.ref.parent is not None
            self.ref.parent.tell_nowait(QueueExpired(self._state.name))

    def wake(self, message: Wake) -> None:
        """Add a feed to the ready list that waited for a window."""
        self._wake(message.feed, message.window)

    def _wake(self, feed: Feed, window: Window) -> None:
        self._relist(feed)
        if self._called is None:
            self._called = []
        self._called.append((window, feed))

    def after_batch(self) -> None:
        """Dispatch once per turn."""
        self._deliver()
        state, backlog = self._state, self._backlog
        if backlog.paged:
            self._paging.look_for_more(self._deliver)
            look_at_credit(state)
        elif state.allowance is not None or backlog.resident_bytes > LITTLE:
            look_at_credit(state)
        if state.room_wanted and not is_full(state):
            state.notify_room()
        if state.directory.idle_wanted:
            state.directory.look_idle()

    # Paging, in a broker with a store

    def page_read(self, message: PageRead) -> None:
        """Hand the backlog what was read for a browser."""
        assert isinstance(self._backlog, PagedBacklog)
        self._backlog.page_read(message.reading)
        self._state.notify_arrived()

    def arrived(self, message: Arrived) -> None:
        """Page in what was read; ``after_batch`` delivers it."""
        assert isinstance(self._backlog, PagedBacklog)
        self._backlog.arrived(message.reading)
        self._paging.expect_expiring(self._backlog)
        self._state.notify_arrived()

    def delayed_read(self, message: DelayedRead) -> None:
        """Delay again what an earlier life of the broker has delayed."""
        self._time.put_back(message)

    def _deliver(self) -> bool:
        """Dispatch to feeds that have room, then remove the oldest messages if there are still too many.

        Returns:
            Whether what is ready now may be delivered; if not, too much has expired for one turn.
        """
        time = self._time
        if time.needs_clock:
            self._slack = 0  # what is due becomes ready now
            if not time.catch_up(self._push_due):
                return False
        if self._backlog.resident or self._called:
            self._dispatch_all()
        if self._sheds and not shed(self._state):
            time.hurry()
        return not time.needs_clock or time.look_ahead()

    def _dispatch_all(self) -> None:
        while True:
            if self._backlog.resident and self._dispatch is not None:
                self._hand_out(self._dispatch.dispatch)
            if not self._called:
                break
            called, self._called = self._called, None
            pass_on(called, self.ref, self._wake)

    def _hand_out(self, deal: Callable[[ReadyMessages], list[Batch]]) -> None:
        batches = self._time.dispatch_unexpired(deal) if self._time.has_expiring else deal(self._backlog)
        state = self._state
        if state.directory.message_observers is not None:
            for batch in batches:
                state.directory.message_observers.handed_out(state, batch)
        for batch in batches:
            feed = batch.feed
            assert feed is not None
            batch.queue = self.ref
            state.delivered += batch.left
            feed.consumer.tell_nowait(Deliver(feed, batch))
