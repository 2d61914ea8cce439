"""The steps of machines over one queue: publish, consume, settle, browse, purge, crash."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from triomq.core import (
    Batch,
    Browse,
    CloseFeed,
    Discard,
    Feed,
    Get,
    Offer,
    OpenFeed,
    Outcome,
    Purge,
    Settle,
    Window,
)

from .model import BYTE_LIMITS, LARGEST, LIMITS, SIZES, OpenedFeed, Runs, UnsettledMessage, WindowModel
from .queue_oracle import QueueOracle


class QueueRules(QueueOracle):
    """The steps that any queue has; subclasses have options, and steps of their own.

    A run of the machine has one of the options of its ``choice`` from the beginning.
    """

    channel_choice = st.integers(0, 2)  # which of the shared windows a feed has; 2 is none
    feed_options: st.SearchStrategy[tuple[int, int, int]] = st.just((0, 0, 0))  # priority, weight, no-local

    def draw_runs(self, data: st.DataObject, most: int = 3, least: int = 1) -> Runs:
        kinds = st.sampled_from(self.kinds)
        return data.draw(st.lists(st.tuples(kinds, SIZES), min_size=least, max_size=most))

    def draw_feed_options(self, data: st.DataObject) -> tuple[int, int, int]:
        return data.draw(self.feed_options)

    # Publishing

    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        """Publish runs in one turn; the consumers of the queue get them at its end."""
        runs = self.draw_runs(data)
        self.turn(lambda: self.publish_runs(runs))

    @rule(data=st.data(), size=st.integers(2, LARGEST))
    def offer(self, data: st.DataObject, size: int) -> None:
        """Offer a message to consumers that take it at once."""
        kind = data.draw(st.sampled_from(self.kinds))
        content = kind.content(self.serial, size)
        self.serial += 1
        taken = self.stepped.turn(lambda: self.queue.ref.ask_nowait(Offer(kind.head, content)))
        if not taken:
            assert self.ready or not any(
                self.would_take(opened, kind.head.traits.publisher) for opened in self.feeds.values()
            )
            self.next_id += not self.ready  # an id is used up, nothing else
        else:
            assert not self.ready
            number = self.place(kind, content)
            self.placed += 1
            assert [list(batch.ids) for batch in self.deliveries] == [[number]]
        self.after()

    def would_take(self, opened: OpenedFeed, publisher: int) -> bool:
        return opened.has_room

    # Feeds

    @initialize(
        data=st.data(),
        channels=st.lists(st.tuples(LIMITS, BYTE_LIMITS), min_size=2, max_size=2),
        feeds=st.lists(st.tuples(LIMITS, BYTE_LIMITS), max_size=4),
    )
    def begin_with_feeds(
        self, data: st.DataObject, channels: list[tuple[int, int]], feeds: list[tuple[int, int]]
    ) -> None:
        self.begin(data.draw(st.sampled_from(self.choice)))
        for number, (limit, byte_limit) in enumerate(channels):
            self.resize_shared_window(number, limit, byte_limit)
        for limit, byte_limit in feeds:
            self.open_feed(limit, byte_limit, data, held=False)

    @precondition(lambda self: len(self.feeds) < 4)
    @rule(limit=LIMITS, byte_limit=BYTE_LIMITS, data=st.data(), held=st.booleans())
    def open_feed(self, limit: int, byte_limit: int, data: st.DataObject, held: bool) -> None:
        channel = data.draw(self.channel_choice)
        own, shared, gate = WindowModel(limit, byte_limit), self.channels[channel : channel + 1], Window()
        priority, weight, no_local = self.draw_feed_options(data)
        largest = max(len(kind.content(0, LARGEST)) for kind in self.kinds)
        if held:
            gate.hold()

        def opening() -> None:
            consumer = self.harness.consumer(self.deliveries)
            windows = tuple(count.window for count in shared)
            feed = Feed(
                self.queue.ref,
                consumer.ref,
                window=own.window,
                shared=windows,
                gate=gate,
                priority=priority,
                weight=weight,
                no_local=no_local,
            )
            self.queue.ref.ask_nowait(OpenFeed(feed))
            self.feeds[feed] = OpenedFeed(feed, consumer, own, shared, gate, largest)

        self.turn(opening)

    def some_feed(self, data: st.DataObject) -> OpenedFeed:
        return data.draw(st.sampled_from(list(self.feeds.values())))

    def forget_feed(self, opened: OpenedFeed) -> None:
        del self.feeds[opened.feed]
        self.closed.append((opened.consumer, 0))

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def close_feed(self, data: st.DataObject) -> None:
        """Close a feed; its unsettled messages stay unsettled."""
        opened = self.some_feed(data)
        self.forget_feed(opened)
        self.turn(lambda: self.queue.ref.tell_nowait(CloseFeed(opened.feed)))

    @precondition(lambda self: self.feeds)
    @rule(data=st.data(), settles_first=st.booleans())
    def cancel_and_requeue(self, data: st.DataObject, settles_first: bool) -> None:
        """Close a feed and requeue its unsettled messages, as a connection that ends does, in either order."""
        opened = self.some_feed(data)
        self.forget_feed(opened)
        numbers = [number for number, sent in self.out.items() if sent.batch.feed is opened.feed]

        def ending() -> None:
            if settles_first:
                self.settle_all_of(numbers, Outcome.REQUEUE)
            self.queue.ref.tell_nowait(CloseFeed(opened.feed))
            if not settles_first:
                self.settle_all_of(numbers, Outcome.REQUEUE)

        self.turn(ending)

    @precondition(lambda self: self.feeds)
    @rule(data=st.data(), limit=LIMITS, byte_limit=BYTE_LIMITS)
    def resize_own_window(self, data: st.DataObject, limit: int, byte_limit: int) -> None:
        opened = self.some_feed(data)
        self.turn(lambda: opened.feed.resize(limit, bytes=byte_limit))

    @rule(channel=st.integers(0, 1), limit=LIMITS, byte_limit=BYTE_LIMITS)
    def resize_shared_window(self, channel: int, limit: int, byte_limit: int) -> None:
        self.turn(lambda: self.channels[channel].window.resize(limit, bytes=byte_limit))

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def turn_gate(self, data: st.DataObject) -> None:
        gate = self.some_feed(data).gate
        self.turn(gate.release if gate.held else gate.hold)

    # Settling

    def settle_all_of(self, numbers: list[int], outcome: Outcome) -> None:
        """Settle messages, batch by batch, in the queue and in the model."""
        batches: dict[Batch, dict[int, int]] = {}
        for number in numbers:
            sent = self.out[number]
            batches.setdefault(sent.batch, {})[sent.position] = number
        for batch, positions in batches.items():
            whole = len(positions) == batch.left
            for position in sorted(positions) if whole else positions:
                self.settle_one(positions[position], outcome)
            self.queue.ref.tell_nowait(Settle(batch, outcome, None if whole else list(positions)))

    def settle_one(self, number: int, outcome: Outcome) -> None:
        sent = self.out.pop(number)
        for count in sent.counts:
            del count.sizes[number]
        self.apply_outcome(number, sent, outcome)

    def apply_outcome(self, number: int, sent: UnsettledMessage, outcome: Outcome) -> None:
        limit = self.options.delivery_limit
        worn = limit is not None and self.attempts.get(number, 0) >= limit
        if outcome is Outcome.RETURN or (outcome is Outcome.REQUEUE and not worn):
            self.put_back(number, sent, marked=outcome is Outcome.REQUEUE)
            return
        self.attempts.pop(number, None)
        if outcome is not Outcome.ACCEPT:
            self.lose(sent.message, "rejected" if outcome is Outcome.REJECT else "delivery_limit")

    def put_back(self, number: int, sent: UnsettledMessage, *, marked: bool) -> None:
        self.ready[number] = sent.message
        if marked:
            self.attempts[number] = self.attempts.get(number, 0) + 1

    def some_out(self, data: st.DataObject) -> list[int]:
        return data.draw(st.lists(st.sampled_from(sorted(self.out)), min_size=1, unique=True))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_some(self, data: st.DataObject, outcome: Outcome) -> None:
        numbers = self.some_out(data)
        self.turn(lambda: self.settle_all_of(numbers, outcome))

    @precondition(lambda self: self.out)
    @rule(outcome=st.sampled_from(Outcome))
    def settle_all(self, outcome: Outcome) -> None:
        self.turn(lambda: self.settle_all_of(list(self.out), outcome))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_up_to(self, data: st.DataObject, outcome: Outcome) -> None:
        order = list(self.out)
        last = data.draw(st.sampled_from(order))
        self.turn(lambda: self.settle_all_of(order[: order.index(last) + 1], outcome))

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def settle_and_publish_in_one_turn(self, data: st.DataObject) -> None:
        numbers, runs = self.some_out(data), self.draw_runs(data, 2)

        def both() -> None:
            self.settle_all_of(numbers, Outcome.ACCEPT)
            self.publish_runs(runs)

        self.turn(both)

    # Browsing and purging

    @rule()
    def get(self) -> None:
        batch = self.stepped.turn(lambda: self.queue.ref.ask_nowait(Get()))
        if batch is None:
            assert not self.ready
        else:
            assert list(batch.ids) == self.order()[:1]
            assert batch.feed is None
            self.send(batch.ids[0], batch, 0, [])
        self.mark_used()
        self.after()

    def mark_used(self) -> None:
        """Note that a client uses the queue."""

    @rule(data=st.data(), limit=st.integers(1, 9), discards=st.booleans())
    def browse_and_perhaps_discard(self, data: st.DataObject, limit: int, discards: bool) -> None:
        """Browse a page, and perhaps discard everything up to its last message."""
        after = data.draw(st.integers(0, self.next_id))
        page = self.turn(lambda: self.queue.ref.ask_nowait(Browse(after, limit)))
        assert [(entry.id, entry.message.content, entry.attempts) for entry in page] == [
            (number, self.ready[number].content, self.attempts.get(number, 0))
            for number in sorted(self.ready)
            if number > after
        ][:limit]
        if page and discards:
            last = page[-1].id
            count = self.stepped.turn(lambda: self.queue.ref.ask_nowait(Discard(last)))
            assert count == len([self.remove(number) for number in sorted(self.ready) if number <= last])
            self.after()

    @rule()
    def purge(self) -> None:
        count = self.stepped.turn(lambda: self.queue.ref.ask_nowait(Purge()))
        assert count == len([self.remove(number) for number in sorted(self.ready)]) + self.forget_delayed()
        self.after()

    def forget_delayed(self) -> int:
        return 0

    # Crashing

    def put_all_back(self) -> None:
        """Follow the crash of the incarnation."""
        for number, sent in self.out.items():
            self.put_back(number, sent, marked=True)
            self.dead.append(sent.batch)
            for count in sent.counts:
                count.sizes.clear()
        self.out.clear()
        self.closed += [(opened.consumer, 1) for opened in self.feeds.values()]
        self.feeds.clear()

    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def crash(self, data: st.DataObject, outcome: Outcome) -> None:
        """Settle something, crash the incarnation, and publish before the next one runs."""
        settles = data.draw(st.booleans())
        numbers = self.some_out(data) if settles and self.out else []
        runs = self.draw_runs(data, 2, 0)

        def crashing() -> None:
            self.settle_all_of(numbers, outcome)
            self.harness.crash_nowait(self.queue)
            self.put_all_back()
            self.publish_runs(runs)

        self.stepped.turn(crashing)
        self.stepped.rest()
        self.after()

    @precondition(lambda self: self.dead)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_what_a_dead_incarnation_handed_out(self, data: st.DataObject, outcome: Outcome) -> None:
        batch = data.draw(st.sampled_from(self.dead))
        self.turn(lambda: self.queue.ref.tell_nowait(Settle(batch, outcome)))
