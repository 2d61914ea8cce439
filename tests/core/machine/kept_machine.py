"""What can happen to queues in a broker with a store: to the queues, to the disk, and to the broker."""

from functools import partial

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from triomq.core import (
    Batch,
    Browse,
    CloseFeed,
    Discard,
    Feed,
    Get,
    NotResident,
    OpenFeed,
    Outcome,
    Purge,
    QueueOptions,
    Settle,
    Window,
)

from ..simulated_disk import ReadResults
from .durable_harness import LETTERS, DurableHarness, Runs, Taking
from .kept_books import QueueBooks
from .wall_clock import WALL_CLOCK

MEMORY = st.sampled_from([300, 0, 1000])
SIZES = st.lists(st.sampled_from([4, 4, 40, 150]), min_size=1, max_size=6)
LIMITS = st.sampled_from([0, 1, 2, 5])
OUTCOMES = st.sampled_from([Outcome.REQUEUE, Outcome.REQUEUE, Outcome.ACCEPT, Outcome.REJECT, Outcome.RETURN])
DELAYS = st.sampled_from([0.5, 1.5, 3.5])


class KeptMachine(DurableHarness):
    """A queue with dead letters in another one, through everything that can happen to either."""

    @initialize(memory=MEMORY, data=st.data())
    def begin(self, memory: int, data: st.DataObject) -> None:
        self.memory = self.persistence.queue_memory = memory
        self.declare("q", data.draw(st.sampled_from(self.choice)))
        self.declare(LETTERS, QueueOptions())

    def some_queue(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.books)))

    def draw_runs(self, data: st.DataObject) -> Runs:
        return data.draw(st.lists(st.tuples(st.sampled_from(self.kinds), SIZES), min_size=1, max_size=3))

    # Publishing

    @precondition(lambda self: "q" in self.books)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        runs = self.draw_runs(data)
        self.turn(lambda: self.tell_runs("q", runs))

    @precondition(lambda self: "q" in self.books)
    @rule(data=st.data(), delay=DELAYS)
    def publish_later(self, data: st.DataObject, delay: float) -> None:
        runs = self.draw_runs(data)[:1]
        delay += self.serial / 10_000  # no two at once, so that their order is in no doubt after a crash
        self.turn(lambda: self.tell_runs("q", runs, delay=delay))

    # Consuming

    @precondition(lambda self: self.books and len(self.feeds) < 3)
    @rule(data=st.data(), limit=LIMITS)
    def open_feed(self, data: st.DataObject, limit: int) -> None:
        self.open(self.some_queue(data), limit)

    def open(self, name: str, limit: int) -> Feed:
        def opening() -> Feed:
            consumer, queue = self.harness.consumer(self.deliveries), self.books[name].queue
            feed = Feed(queue.ref, consumer.ref, window=Window(limit))
            queue.ref.ask_nowait(OpenFeed(feed))
            self.feeds[feed] = Taking(feed, name, consumer, limit)
            return feed

        return self.turn(opening)

    @precondition(lambda self: self.feeds)
    @rule(data=st.data())
    def close_feed(self, data: st.DataObject) -> None:
        """Close a feed; what is out with it stays out."""
        self.close(data.draw(st.sampled_from(list(self.feeds))))

    def close(self, feed: Feed) -> None:
        del self.feeds[feed]
        self.turn(lambda: feed.queue.tell_nowait(CloseFeed(feed)))

    @precondition(lambda self: self.books)
    @rule(data=st.data(), limit=LIMITS, outcomes=st.lists(OUTCOMES, min_size=1, max_size=3))
    def consume(self, data: st.DataObject, limit: int, outcomes: list[Outcome]) -> None:
        """Take what is at hand, or some of it, and settle it; and again."""
        name = self.some_queue(data)
        for outcome in outcomes:
            feed = self.open(name, limit)
            which = [(name, place) for place, out in self.books[name].out.items() if out.batch.feed is feed]
            self.close(feed)
            self.turn(partial(self.tell_settled, which, outcome))

    # Settling

    def all_out(self) -> list[tuple[str, int]]:
        return [(name, place) for name, books in sorted(self.books.items()) for place in books.out]

    def tell_settled(self, which: list[tuple[str, int]], outcome: Outcome) -> None:
        """Settle messages, batch by batch, in the queues and in the books."""
        batches: dict[Batch, dict[int, tuple[str, int]]] = {}
        for name, place in which:
            out = self.books[name].out[place]
            batches.setdefault(out.batch, {})[out.position] = (name, place)
        for batch, positions in batches.items():
            whole = len(positions) == batch.left
            for position in sorted(positions) if whole else positions:
                self.enter_outcome(*positions[position], outcome)
            assert batch.queue is not None
            batch.queue.tell_nowait(Settle(batch, outcome, None if whole else list(positions)))

    def enter_outcome(self, name: str, place: int, outcome: Outcome) -> None:
        books = self.books[name]
        message, limit = books.out[place].message, books.options.delivery_limit
        worn = limit is not None and message.attempts >= limit
        if outcome is Outcome.RETURN:
            books.ready[place] = books.out.pop(place).message
        elif outcome is Outcome.REQUEUE and not worn:
            books.come_back(place)
        elif outcome is Outcome.ACCEPT:
            del books.out[place]
        else:
            books.give_up(place)

    @precondition(lambda self: self.all_out())
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_some(self, data: st.DataObject, outcome: Outcome) -> None:
        which = data.draw(st.lists(st.sampled_from(self.all_out()), min_size=1, unique=True))
        self.turn(lambda: self.tell_settled(which, outcome))

    @precondition(lambda self: self.all_out())
    @rule(outcome=st.sampled_from(Outcome))
    def settle_all(self, outcome: Outcome) -> None:
        self.turn(lambda: self.tell_settled(self.all_out(), outcome))

    @precondition(lambda self: self.all_out() and "q" in self.books)
    @rule(data=st.data())
    def settle_and_publish_in_one_turn(self, data: st.DataObject) -> None:
        runs = self.draw_runs(data)

        def both() -> None:
            self.tell_settled(self.all_out(), Outcome.ACCEPT)
            self.tell_runs("q", runs)

        self.turn(both)

    @precondition(lambda self: self.dead)
    @rule(outcome=st.sampled_from(Outcome))
    def settle_what_a_queue_handed_out_that_is_gone(self, outcome: Outcome) -> None:
        dead, self.dead = self.dead, []

        def settling() -> None:
            for batch in dead:
                assert batch.queue is not None
                batch.queue.tell_nowait(Settle(batch, outcome))

        self.turn(settling)

    # Looking and forgetting

    def when_arrived(self, name: str) -> None:
        """Wait until messages are at hand, as whoever was told that they are not."""
        books, told = self.books[name], list[None]()
        assert books.backlog.is_reading
        self.waiting.append((name, told))
        books.queue.when_arrived(lambda: told.append(None))
        self.after()

    @precondition(lambda self: self.books)
    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        name = self.some_queue(data)
        books = self.books[name]
        try:
            batch = self.still.turn(lambda: books.queue.ref.ask_nowait(Get()))
        except NotResident:
            self.when_arrived(name)
            return
        if batch is not None:
            self.deliveries.append(batch)
        else:
            assert not books.backlog.resident
            assert not books.backlog.paged or any(taking.name == name for taking in self.feeds.values())
        self.after()

    @precondition(lambda self: self.books)
    @rule(data=st.data(), limit=st.integers(1, 9), discards=st.booleans())
    def browse_and_perhaps_discard(self, data: st.DataObject, limit: int, discards: bool) -> None:
        """Page through a queue until something has to be read, or to its end; forget some of what was seen."""
        name = self.some_queue(data)
        books = self.books[name]
        seen: list[tuple[int, int]] = []  # ids and places
        ended = waits = False
        while not (ended or waits):
            after = seen[-1][0] if seen else 0
            try:
                page = self.still.turn(partial(books.queue.ref.ask_nowait, Browse(after, limit)))
            except NotResident:
                waits = True
            else:
                self.after()
                assert len(page) <= limit
                places = {message.body: place for place, message in books.ready.items()}
                seen += [(entry.id, places[entry.message.body]) for entry in page]
                ended = not page
        assert [place for _, place in seen] == sorted(books.ready)[: len(seen)]
        assert waits or len(seen) == len(books.ready), "browsing ends before the queue does"
        if waits:
            self.when_arrived(name)
        if seen and discards:
            self.discard(books, data.draw(st.sampled_from(seen))[0], [place for _, place in seen])

    def discard(self, books: QueueBooks, up_to: int, seen: list[int]) -> None:
        try:
            count = self.still.turn(lambda: books.queue.ref.ask_nowait(Discard(up_to)))
        except NotResident as error:
            count = error.done  # the others are for who asks again
        for place in seen[:count]:
            del books.ready[place]
        self.after()

    @precondition(lambda self: self.books)
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        name = self.some_queue(data)
        books = self.books[name]
        count = self.still.turn(lambda: books.queue.ref.ask_nowait(Purge()))
        assert count == books.purge()
        self.after()
        self.check_waiting(name)

    # What there is

    @rule(data=st.data())
    def delete_or_declare_queue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["q", "q", LETTERS]))
        if name in self.books:
            self.delete(name)
        if name not in self.books and data.draw(st.booleans()):
            self.declare(name, data.draw(st.sampled_from(self.choice)) if name == "q" else QueueOptions())

    # Time, and crashes of actors

    @rule(seconds=st.sampled_from([1, 2, 5]))
    def pass_time(self, seconds: int) -> None:
        self.still.pass_time(seconds)
        self.after()

    def take_back(self, name: str) -> None:
        """Enter that an incarnation of a queue has crashed."""
        books = self.books[name]
        self.dead += [out.batch for out in books.out.values()]
        books.take_all_back()
        self.forget_feeds(name)

    @rule(data=st.data(), gives=st.booleans())
    def crash_actor(self, data: st.DataObject, gives: bool) -> None:
        """Crash a queue or the domain, and perhaps tell what was read before the next incarnation runs."""
        name = data.draw(st.sampled_from([*sorted(self.books), None]))
        if name is not None:
            self.take_back(name)
            self.still.turn(lambda: self.harness.crash_nowait(self.books[name].queue))
        else:
            self.harness.crash_domain_nowait()
        given = self.hear_from_disk() if gives else ReadResults()
        if name is None:  # until it takes note, its queues go on
            self.after()
            for each in self.books:
                self.take_back(each)
        self.still.rest()
        self.after()
        for each in [name] if name is not None else list(self.books):
            self.check_waiting(each)
        self.check_given(given)

    # The disk

    @rule(takes=st.integers(0, 2), writes=st.integers(0, 2), answers=st.booleans())
    def commit(self, takes: int, writes: int, answers: bool) -> None:
        """Take the next batch, write some of what was taken, and say so; or not all of that."""
        number = self.disk.take() if takes else None
        if number is not None:
            self.pictures[number] = self.picture()
        if self.disk.has_unanswered and self.disk.journal.fault is None:
            self.disk.write(writes)
            if answers:
                self.disk.answer()
        self.after()

    @precondition(lambda self: self.disk.has_unanswered)
    @rule(starts_again=st.booleans())
    def fail(self, starts_again: bool) -> None:
        """Fail to write, or forget everything and be told again."""
        if starts_again:
            self.disk.restart()
        else:
            self.disk.fail()
        self.after()

    @precondition(lambda self: self.disk.journal.fault is not None)
    @rule()
    def mend(self) -> None:
        self.disk.recover()
        self.after()

    @rule(gives=st.booleans())
    def read(self, gives: bool) -> None:
        """Read what is wished for, and perhaps give it."""
        self.disk.read()
        if gives:
            self.enter_given()

    def hear_from_disk(self) -> ReadResults:
        """Tell what was read."""
        given = self.disk.answer_fetches()
        for books in self.books.values():
            for each in books.put_off:
                each.here = each.here or books.backlog.queue in given.delayed
        return given

    def check_given(self, given: ReadResults) -> None:
        for name, books in self.books.items():
            if books.backlog.queue in given.messages:
                self.check_waiting(name)

    def enter_given(self) -> bool:
        """Tell what was read, and follow what queues do with it."""
        given = self.hear_from_disk()
        self.after()
        self.check_given(given)
        return bool(given.messages or given.delayed)

    @rule()
    def settle_down(self) -> None:
        """Let the disk do all that is asked of it, and see that it has what it must."""
        going = True
        while going:
            if self.disk.journal.fault is not None:
                self.disk.recover()
            before = self.disk.progress
            self.commit(1, 2, True)
            going = self.disk.progress != before
            self.disk.read()
            going = self.enter_given() or going
        assert not self.promised, "what is on disk was not confirmed"
        for books in self.books.values():
            assert all(each.here for each in books.put_off), "what was put off in an earlier life is not read"
            books.check_disk(self.disk)

    @rule()
    def drain(self) -> None:
        """Let somebody take all there is."""
        for name in self.books:
            feed = self.open(name, 0)
            self.settle_down()
            assert not self.books[name].ready
            self.close(feed)

    # The broker

    @rule(writes=st.integers(0, 2), passed=st.sampled_from([0, 0, 2]))
    def crash_broker(self, writes: int, passed: int) -> None:
        """Crash the broker, perhaps with something written of which it has not heard, and start it somewhat later."""
        self.commit(1, writes, False)
        self.still.close()
        WALL_CLOCK.pass_time(passed)
        self.begin_life()
