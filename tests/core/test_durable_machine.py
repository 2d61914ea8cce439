"""Queues in a broker with a store, beside a disk that takes its time, fails, and is all that a crash leaves."""

import logging
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from triomq.core import (
    Batch,
    Bind,
    Browse,
    CloseFeed,
    DeclareSink,
    DeleteSink,
    Discard,
    Feed,
    Get,
    NotResident,
    OpenFeed,
    Outcome,
    Overflow,
    Purge,
    QueueOptions,
    Settle,
    SinkOptions,
    Target,
    Unbind,
    Window,
    make_binding,
)

from .machine.durable_model import SPILL, QueueModel
from .machine.durable_oracle import LETTERS, DurableOracle, OpenedFeed, Runs
from .machine.model import make_kind
from .machine.stepped_harness import WALL_CLOCK
from .simulated_disk import ReadResults

KINDS = [
    make_kind(persistent=True),
    make_kind(persistent=True, key="other"),
    make_kind(persistent=True, publisher=7),
    make_kind(),
    make_kind(key="other"),
    make_kind(publisher=7),
]
EXPIRING = [
    *KINDS,
    make_kind(persistent=True, expiration=2.5),
    make_kind(expiration=2.5),
    make_kind(persistent=True, expiration=0),
]
URGENT = [*KINDS, make_kind(persistent=True, priority=9), make_kind(priority=9), make_kind(priority=1)]
MEMORY = st.sampled_from([300, 0, 1000])
SIZES = st.lists(st.sampled_from([4, 4, 40, 150]), min_size=1, max_size=6)
LIMITS = st.sampled_from([0, 1, 2, 5])
OUTCOMES = st.sampled_from([Outcome.REQUEUE, Outcome.REQUEUE, Outcome.ACCEPT, Outcome.REJECT, Outcome.RETURN])
DELAYS = st.sampled_from([0.5, 1.5, 3.5])
SINKS = st.sampled_from(["s", "t"])
KEYS = st.sampled_from(["", "k"])


def lettered(**options: object) -> QueueOptions:
    """Return options of a queue whose dead letters go to the other one."""
    return QueueOptions(dead_letter_sink="", dead_letter_key=LETTERS, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def small_pieces_and_a_clock(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and write in small pieces, so that there are many; and let no time pass but that of the harness."""
    caplog.set_level(logging.CRITICAL, "triomq")
    monkeypatch.setattr("triomq.core.backlog.tail._SPILL", SPILL)
    monkeypatch.setattr("triomq.core.backlog.tail._READ", 200)
    monkeypatch.setattr("triomq.core.backlog.tail._PEEK", 100)
    monkeypatch.setattr("triomq.store.batch_builder._SEGMENT", 150)
    for module in ("persistence.records", "persistence.recorded_delay", "queue.timekeeper"):
        monkeypatch.setattr(f"triomq.core.{module}.time", WALL_CLOCK)


class DurableMachine(DurableOracle):
    """A queue with dead letters in another one, sinks and bindings, through everything that can happen to them."""

    choice = (
        QueueOptions(),
        QueueOptions(durable=False),
        lettered(max_length=5),
        QueueOptions(max_length=6, overflow=Overflow.REJECT_PUBLISH),
        lettered(message_ttl=3.5),
        lettered(delivery_limit=1),
        QueueOptions(max_priority=2),
        lettered(max_priority=2, delivery_limit=2),
    )

    @initialize(memory=MEMORY, data=st.data())
    def begin(self, memory: int, data: st.DataObject) -> None:
        self.memory = self.persistence.queue_memory = memory
        self.declare("q", data.draw(st.sampled_from(self.choice)))
        self.declare(LETTERS, QueueOptions())

    def some_queue(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.models)))

    def draw_runs(self, data: st.DataObject) -> Runs:
        kinds = URGENT if self.models["q"].options.max_priority else EXPIRING
        return data.draw(st.lists(st.tuples(st.sampled_from(kinds), SIZES), min_size=1, max_size=3))

    # Publishing

    @precondition(lambda self: "q" in self.models)
    @rule(data=st.data())
    def publish(self, data: st.DataObject) -> None:
        runs = self.draw_runs(data)
        self.turn(lambda: self.publish_runs("q", runs))

    @precondition(lambda self: "q" in self.models)
    @rule(data=st.data(), delay=DELAYS)
    def publish_later(self, data: st.DataObject, delay: float) -> None:
        runs = self.draw_runs(data)[:1]
        delay += self.serial / 10_000  # no two at once, so that their order is in no doubt after a crash
        self.turn(lambda: self.publish_runs("q", runs, delay=delay))

    # Consuming

    @precondition(lambda self: self.models and len(self.feeds) < 3)
    @rule(data=st.data(), limit=LIMITS)
    def open_feed(self, data: st.DataObject, limit: int) -> None:
        self.open(self.some_queue(data), limit)

    def open(self, name: str, limit: int) -> Feed:
        def opening() -> Feed:
            consumer, queue = self.harness.consumer(self.deliveries), self.models[name].queue
            feed = Feed(queue.ref, consumer.ref, window=Window(limit))
            queue.ref.ask_nowait(OpenFeed(feed))
            self.feeds[feed] = OpenedFeed(feed, name, consumer, limit)
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

    @precondition(lambda self: self.models)
    @rule(data=st.data(), limit=LIMITS, outcomes=st.lists(OUTCOMES, min_size=1, max_size=3))
    def consume(self, data: st.DataObject, limit: int, outcomes: list[Outcome]) -> None:
        """Consume resident messages, or some of them, and settle them; and again."""
        name = self.some_queue(data)
        for outcome in outcomes:
            feed = self.open(name, limit)
            which = [(name, place) for place, out in self.models[name].out.items() if out.batch.feed is feed]
            self.close(feed)
            self.turn(partial(self.settle_all_of, which, outcome))

    # Settling

    def all_out(self) -> list[tuple[str, int]]:
        return [(name, place) for name, model in sorted(self.models.items()) for place in model.out]

    def settle_all_of(self, which: list[tuple[str, int]], outcome: Outcome) -> None:
        """Settle messages, batch by batch, in the queues and in the model."""
        batches: dict[Batch, dict[int, tuple[str, int]]] = {}
        for name, place in which:
            out = self.models[name].out[place]
            batches.setdefault(out.batch, {})[out.position] = (name, place)
        for batch, positions in batches.items():
            whole = len(positions) == batch.left
            for position in sorted(positions) if whole else positions:
                self.apply_outcome(*positions[position], outcome)
            assert batch.queue is not None
            batch.queue.tell_nowait(Settle(batch, outcome, None if whole else list(positions)))

    def apply_outcome(self, name: str, place: int, outcome: Outcome) -> None:
        model = self.models[name]
        message, limit = model.out[place].message, model.options.delivery_limit
        worn = limit is not None and message.attempts >= limit
        if outcome is Outcome.RETURN:
            model.ready[place] = model.out.pop(place).message
        elif outcome is Outcome.REQUEUE and not worn:
            model.come_back(place)
        elif outcome is Outcome.ACCEPT:
            model.out.pop(place).message.accepted = True
        else:
            model.give_up(place)

    @precondition(lambda self: self.all_out())
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_some(self, data: st.DataObject, outcome: Outcome) -> None:
        which = data.draw(st.lists(st.sampled_from(self.all_out()), min_size=1, unique=True))
        self.turn(lambda: self.settle_all_of(which, outcome))

    @precondition(lambda self: self.all_out())
    @rule(outcome=st.sampled_from(Outcome))
    def settle_all(self, outcome: Outcome) -> None:
        self.turn(lambda: self.settle_all_of(self.all_out(), outcome))

    @precondition(lambda self: self.all_out() and "q" in self.models)
    @rule(data=st.data())
    def settle_and_publish_in_one_turn(self, data: st.DataObject) -> None:
        runs = self.draw_runs(data)

        def both() -> None:
            self.settle_all_of(self.all_out(), Outcome.ACCEPT)
            self.publish_runs("q", runs)

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
        """Wait for messages, as a caller does that was told that they are not resident."""
        model, told = self.models[name], list[None]()
        assert model.backlog.is_reading
        self.waiting.append((name, told))
        model.queue.when_arrived(lambda: told.append(None))
        self.after()

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        name = self.some_queue(data)
        model = self.models[name]
        try:
            batch = self.stepped.turn(lambda: model.queue.ref.ask_nowait(Get()))
        except NotResident:
            self.when_arrived(name)
            return
        if batch is not None:
            self.deliveries.append(batch)
        else:
            assert not model.backlog.resident
            assert not model.backlog.paged or any(opened.name == name for opened in self.feeds.values())
        self.after()

    @precondition(lambda self: self.models)
    @rule(data=st.data(), limit=st.integers(1, 9), discards=st.booleans())
    def browse_and_perhaps_discard(self, data: st.DataObject, limit: int, discards: bool) -> None:
        """Page through a queue until something has to be read, or to its end; forget some of what was seen."""
        name = self.some_queue(data)
        model = self.models[name]
        seen: list[tuple[int, int]] = []  # ids and places
        ended = waits = False
        while not (ended or waits):
            after = seen[-1][0] if seen else 0
            try:
                page = self.stepped.turn(partial(model.queue.ref.ask_nowait, Browse(after, limit)))
            except NotResident:
                waits = True
            else:
                self.after()
                assert len(page) <= limit
                places = {message.body: place for place, message in model.ready.items()}
                seen += [(entry.id, places[entry.message.body]) for entry in page]
                ended = not page
        assert [place for _, place in seen] == sorted(model.ready)[: len(seen)]
        assert waits or len(seen) == len(model.ready), "browsing ends before the queue does"
        if waits:
            self.when_arrived(name)
        if seen and discards:
            self.discard(model, data.draw(st.sampled_from(seen))[0], seen)

    def discard(self, model: QueueModel, up_to: int, seen: list[tuple[int, int]]) -> None:
        try:
            count = self.stepped.turn(lambda: model.queue.ref.ask_nowait(Discard(up_to)))
        except NotResident as error:
            count = error.done  # the others are for the next request
        else:
            assert count == sum(number <= up_to for number, _ in seen), "messages up to the id are left"
        for _, place in seen[:count]:
            del model.ready[place]
        self.after()

    @precondition(lambda self: self.models)
    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        name = self.some_queue(data)
        model = self.models[name]
        count = self.stepped.turn(lambda: model.queue.ref.ask_nowait(Purge()))
        assert count == model.purge()
        self.after()
        self.check_waiting(name)

    # What there is

    @rule(data=st.data())
    def delete_or_declare_queue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["q", "q", LETTERS]))
        if name in self.models:
            self.delete(name)
        if name not in self.models and data.draw(st.booleans()):
            self.declare(name, data.draw(st.sampled_from(self.choice)) if name == "q" else QueueOptions())

    @rule(name=SINKS, durable=st.booleans())
    def delete_or_declare_sink(self, name: str, durable: bool) -> None:
        if name in self.topology.sinks:
            self.topology.forget_sink(name)
            self.turn(lambda: self.harness.domain.ask_nowait(DeleteSink(name, session=self.harness.session)))
            return
        options = SinkOptions(durable=durable, alternate="u")
        self.topology.sinks[name] = options
        self.turn(lambda: self.harness.domain.ask_nowait(DeclareSink(name, options)))

    @precondition(lambda self: self.topology.sinks)
    @rule(data=st.data(), key=KEYS, arguments=st.sampled_from([None, {"x": 1}]))
    def bind_or_unbind(self, data: st.DataObject, key: str, arguments: dict[str, object] | None) -> None:
        source = data.draw(st.sampled_from(sorted(self.topology.sinks)))
        ends = [(Target.SINK, name) for name in sorted(self.topology.sinks)]
        ends += [(Target.QUEUE, name) for name in sorted(self.topology.queues)] * 2
        target, name = data.draw(st.sampled_from(ends))
        binding, session = make_binding(source, target, name, key, arguments), self.harness.session
        if binding in self.topology.bindings:
            self.topology.bindings.discard(binding)
            self.turn(lambda: self.harness.domain.ask_nowait(Unbind(binding, session)))
        else:
            self.topology.bindings.add(binding)
            self.turn(lambda: self.harness.domain.ask_nowait(Bind(binding, session)))

    # Time, and crashes of actors

    @rule(seconds=st.sampled_from([1, 2, 5]))
    def pass_time(self, seconds: int) -> None:
        self.stepped.pass_time(seconds)
        self.after()

    def take_back(self, name: str) -> None:
        """Follow the crash of an incarnation of a queue."""
        model = self.models[name]
        self.dead += [out.batch for out in model.out.values()]
        model.take_all_back()
        self.forget_feeds(name)

    @rule(data=st.data(), answers_too=st.booleans())
    def crash_actor(self, data: st.DataObject, answers_too: bool) -> None:
        """Crash a queue or the domain, and perhaps tell what was read before the next incarnation runs."""
        name = data.draw(st.sampled_from([*sorted(self.models), None]))
        if name is not None:
            self.take_back(name)
            self.stepped.turn(lambda: self.harness.crash_nowait(self.models[name].queue))
        else:
            self.harness.crash_domain_nowait()
        results = self.answer_fetches() if answers_too else ReadResults()
        if name is None:  # until it takes note, its queues go on
            self.after()
            for each in self.models:
                self.take_back(each)
        self.stepped.rest()
        self.after()
        for each in [name] if name is not None else list(self.models):
            self.check_waiting(each)
        self.check_answered(results)

    # The disk

    @rule(takes=st.integers(0, 2), writes=st.integers(0, 2), answers=st.booleans())
    def commit(self, takes: int, writes: int, answers: bool) -> None:
        """Take the next batch, write some batches, and answer; or not all of that."""
        number = self.disk.take() if takes else None
        if number is not None:
            self.snapshots[number] = self.snapshot()
        if self.disk.has_unanswered and self.disk.journal.fault is None:
            self.disk.write(writes)
            if answers:
                self.disk.answer()
        self.after()

    @precondition(lambda self: self.disk.has_unanswered)
    @rule(starts_again=st.booleans())
    def fail(self, starts_again: bool) -> None:
        """Fail to write, or restart."""
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

    @rule(answers_too=st.booleans())
    def read(self, answers_too: bool) -> None:
        """Read what is requested, and perhaps answer."""
        self.disk.read()
        if answers_too:
            self.answer_and_follow()

    def answer_fetches(self) -> ReadResults:
        """Answer with what was read."""
        results = self.disk.answer_fetches()
        for model in self.models.values():
            for each in model.delayed_runs:
                each.here = each.here or model.backlog.queue in results.delayed
        return results

    def check_answered(self, results: ReadResults) -> None:
        for name, model in self.models.items():
            if model.backlog.queue in results.messages:
                self.check_waiting(name)

    def answer_and_follow(self) -> bool:
        """Answer with what was read, and follow what queues do with it."""
        results = self.answer_fetches()
        self.after()
        self.check_answered(results)
        return bool(results.messages or results.delayed)

    @rule()
    def settle_down(self) -> None:
        """Let the disk do all its work, and check its contents."""
        going = True
        while going:
            if self.disk.journal.fault is not None:
                self.disk.recover()
            before = self.disk.progress
            self.commit(1, 2, True)
            going = self.disk.progress != before
            self.disk.read()
            going = self.answer_and_follow() or going
        assert not self.promised, "what is on disk was not confirmed"
        for model in self.models.values():
            assert all(each.here for each in model.delayed_runs), "delayed messages of an earlier life are not read"
            model.check_disk(self.disk)

    @rule()
    def drain(self) -> None:
        """Consume all messages."""
        for name in self.models:
            feed = self.open(name, 0)
            self.settle_down()
            assert not self.models[name].ready
            self.close(feed)

    # The broker

    @rule(writes=st.integers(0, 2), passed=st.sampled_from([0, 0, 2]))
    def crash_broker(self, writes: int, passed: int) -> None:
        """Crash the broker, perhaps with a batch written that it does not know of, and start it somewhat later."""
        self.commit(1, writes, False)
        self.stepped.close()
        WALL_CLOCK.pass_time(passed)
        self.begin_life()


TestDurableMachine = DurableMachine.TestCase
# Faults of the kind that it is made for show with so many.
TestDurableMachine.settings = settings(stateful_step_count=50, max_examples=max(600, settings().max_examples))
