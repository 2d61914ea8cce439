import trio
from trio.testing import MockClock

from core.harness import Harness, close, settle
from triomq.actors import InPlaceActor
from triomq.core import (
    EVERYTHING,
    Action,
    CachedRoute,
    Changed,
    ChangeKind,
    DeclareQueue,
    DeleteQueue,
    DeleteSink,
    Directory,
    Expired,
    Get,
    HandedOut,
    Head,
    Outcome,
    Publish,
    Published,
    Publisher,
    QueueOptions,
    RoutedRun,
    SentToDeadLetters,
    Session,
    Settled,
    SinkKind,
    SinkOptions,
    Target,
    Transaction,
    Unbind,
    make_binding,
)
from triomq.core.queue.deadletter import Reason
from triomq.core.topology.requests import DeclareSink

Seen = list[tuple[Action, ChangeKind, str, Session | None]]


class Observer(InPlaceActor):
    def __init__(self) -> None:
        self.seen: Seen = []

    def changed(self, message: Changed) -> None:
        self.seen.append((message.action, message.kind, message.name, message.session))

    def take(self) -> Seen:
        seen, self.seen = self.seen, []
        return seen


def observing(harness: Harness) -> Observer:
    observer = Observer()
    harness.directory.observers.add(harness.start(observer))
    return observer


async def test_observer_hears_of_what_comes_and_goes_and_who_did_it(harness: Harness) -> None:
    observer, other = observing(harness), harness.new_session()
    harness.domain.ask_nowait(DeclareSink("s", SinkOptions(), other))
    harness.queue("q")
    harness.bind("s", "q", "key")
    assert observer.take() == [
        (Action.CREATED, ChangeKind.SINK, "s", other),
        (Action.CREATED, ChangeKind.QUEUE, "q", harness.session),
        (Action.CREATED, ChangeKind.BINDING, "s", harness.session),
    ]
    harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "key"), other))
    harness.domain.ask_nowait(DeleteSink("s", session=other))
    harness.domain.ask_nowait(DeleteQueue("q", harness.session))
    assert observer.take() == [
        (Action.DELETED, ChangeKind.BINDING, "s", other),
        (Action.DELETED, ChangeKind.SINK, "s", other),
        (Action.DELETED, ChangeKind.QUEUE, "q", harness.session),
    ]


async def test_observer_is_not_told_of_what_changes_nothing(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    harness.bind("s", "q")
    observer = observing(harness)
    harness.sink("s")
    harness.queue("q")
    harness.bind("s", "q")
    harness.delete("nowhere")
    assert observer.take() == []


async def test_bindings_that_go_with_their_ends_are_told(harness: Harness) -> None:
    harness.sink("s")
    harness.sink("t")
    for name in "a", "b":
        harness.queue(name)
        harness.bind("s", name)
    harness.bind_sinks("s", "t")
    observer = observing(harness)
    harness.delete("a")
    harness.domain.ask_nowait(DeleteSink("t"))
    harness.domain.ask_nowait(DeleteSink("s"))
    assert [(action, kind, name) for action, kind, name, _ in observer.take()] == [
        (Action.DELETED, ChangeKind.BINDING, "s"),
        (Action.DELETED, ChangeKind.QUEUE, "a"),
        (Action.DELETED, ChangeKind.BINDING, "s"),
        (Action.DELETED, ChangeKind.SINK, "t"),
        (Action.DELETED, ChangeKind.BINDING, "s"),
        (Action.DELETED, ChangeKind.SINK, "s"),
    ]


async def test_deletion_by_the_broker_itself_names_no_session(harness: Harness) -> None:
    queue = harness.queue("q", QueueOptions(auto_delete=True))
    feed = harness.feed(queue, harness.consumer())
    observer = observing(harness)
    close(feed)
    assert observer.take() == [(Action.DELETED, ChangeKind.QUEUE, "q", None)]


async def test_observer_is_told_of_what_ends_with_a_session(harness: Harness) -> None:
    session, observer = harness.new_session(), observing(harness)
    harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(exclusive=True), session))
    session.detach()
    assert [(action, session_) for action, _, _, session_ in observer.take()] == [
        (Action.CREATED, session),
        (Action.DELETED, session),
    ]


async def test_observer_that_has_stopped_or_left_is_told_no_more(harness: Harness) -> None:
    stays, leaves = observing(harness), observing(harness)
    harness.directory.observers.remove(leaves.ref)
    gone = observing(harness)
    parent = gone.ref.parent
    assert parent is not None
    parent.actor.stop_child_nowait(gone.ref)  # type: ignore[union-attr]
    harness.queue("q")
    assert (len(stays.take()), leaves.take(), gone.take()) == (1, [], [])


class MessageObserver(InPlaceActor):
    """Remembers what it is told, in a form that is easy to compare."""

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def published(self, message: Published) -> None:
        queues = [Directory.name_of(queue) for queue in message.queues]
        self.seen.append(("published", message.messages.head.routing_key, list(message.messages.contents), queues))

    def handed_out(self, message: HandedOut) -> None:
        contents = list(message.messages.contents)
        self.seen.append(("handed out", message.queue, list(message.ids), contents, message.attempts))

    def settled(self, message: Settled) -> None:
        self.seen.append(("settled", message.queue, list(message.ids), message.outcome))

    def expired(self, message: Expired) -> None:
        self.seen.append(("expired", message.queue, list(message.messages.contents)))

    def dead_lettered(self, message: SentToDeadLetters) -> None:
        seen = ("dead letter", message.queue, list(message.messages.contents), message.reason, message.copies)
        self.seen.append(seen)

    def take(self) -> list[tuple[object, ...]]:
        seen, self.seen = self.seen, []
        return seen


def observing_messages(harness: Harness) -> MessageObserver:
    observer = MessageObserver()
    harness.directory.observe_messages(harness.start(observer))
    return observer


def run_of(*contents: bytes, key: str = "q") -> RoutedRun:
    return RoutedRun(CachedRoute("", key), Head(routing_key=key), list(contents), sum(map(len, contents)))


async def test_observer_of_messages_is_told_of_a_run_of_its_batch_and_of_each_settlement(harness: Harness) -> None:
    observer, queue, consumer = observing_messages(harness), harness.queue("q"), harness.consumer()
    publisher = Publisher(harness.directory, EVERYTHING, harness.system.turn)
    harness.feed(queue, consumer, messages=2)
    harness.turn(lambda: publisher.publish(*run_of(b"1", b"2", b"3")))
    assert observer.take() == [
        ("published", "q", [b"1", b"2", b"3"], ["q"]),
        ("handed out", "q", [1, 2], [b"1", b"2"], 0),
    ]
    (batch,) = consumer.batches
    settle(batch, Outcome.ACCEPT, [1])
    settle(batch, Outcome.REQUEUE)
    assert observer.take() == [
        ("settled", "q", [2], Outcome.ACCEPT),
        ("handed out", "q", [3], [b"3"], 0),
        ("settled", "q", [1], Outcome.REQUEUE),
        ("handed out", "q", [1], [b"1"], 1),
    ]


async def test_observer_of_messages_is_told_of_a_get_of_a_transaction_and_of_what_no_queue_gets(
    harness: Harness,
) -> None:
    observer, first, _ = observing_messages(harness), harness.queue("a"), harness.queue("b")
    harness.sink("fan", SinkKind.FANOUT)
    harness.bind("fan", "a")
    harness.bind("fan", "b")
    publisher, transaction = (
        Publisher(harness.directory, EVERYTHING, harness.system.turn),
        Transaction(harness.directory),
    )
    run = run_of(b"x", key="")._replace(route=CachedRoute("fan", ""))

    def publish() -> None:
        publisher.publish(*run_of(b"lost", key="nowhere"))
        (admitted,) = publisher.admit([run])
        transaction.publish(admitted.route.queues, Publish(run.head, run.contents, run.size))
        assert len(observer.seen) == 1  # nothing has happened yet
        publisher.commit(transaction)

    harness.turn(publish)
    assert observer.take() == [("published", "nowhere", [b"lost"], []), ("published", "", [b"x"], ["a", "b"])]
    first.ref.ask_nowait(Get())
    assert observer.take() == [("handed out", "a", [1], [b"x"], 0)]


async def test_observer_of_messages_is_told_of_expiry_and_of_dead_letters(
    harness: Harness, autojump_clock: MockClock
) -> None:
    observer, dead = observing_messages(harness), harness.queue("dead")
    queue = harness.queue("q", QueueOptions(message_ttl=1.0, dead_letter_sink="", dead_letter_key="dead"))
    queue.ref.tell_nowait(Publish(Head(), [b"1", b"2"], 2))
    batch = queue.ref.ask_nowait(Get())
    assert batch is not None
    settle(batch, Outcome.REJECT)
    await trio.sleep(2)
    assert observer.take() == [
        ("handed out", "q", [1], [b"1"], 0),
        ("settled", "q", [1], Outcome.REJECT),
        ("dead letter", "q", [b"1"], Reason.REJECTED, 1),
        ("expired", "q", [b"2"]),
        ("dead letter", "q", [b"2"], Reason.EXPIRED, 1),
    ]
    assert dead.ready_count() == 2


async def test_observer_of_messages_that_stopped_or_leaves_is_told_no_longer_and_costs_nothing(
    harness: Harness,
) -> None:
    observer, queue = MessageObserver(), harness.queue("q")
    ref = harness.start(observer)
    harness.directory.observe_messages(ref)
    harness.directory.ignore_messages(ref)
    assert harness.directory.message_observers is None
    harness.directory.ignore_messages(ref)
    harness.directory.observe_messages(ref)
    ref.parent.actor.stop_child_nowait(ref)  # type: ignore[union-attr]
    publisher = Publisher(harness.directory, EVERYTHING, harness.system.turn)
    harness.turn(lambda: publisher.publish(*run_of(b"1")))
    assert not observer.seen
    assert harness.directory.message_observers is None
    assert queue.ready_count() == 1
