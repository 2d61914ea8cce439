from core.harness import Harness, close, open_harness
from triomq.actors import InPlaceActor
from triomq.core import (
    Action,
    Changed,
    ChangeKind,
    DeclareQueue,
    DeleteQueue,
    DeleteSink,
    QueueOptions,
    Session,
    SinkOptions,
    Target,
    Unbind,
    make_binding,
)
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


async def test_an_observer_hears_of_what_comes_and_goes_and_who_did_it() -> None:
    async with open_harness() as harness:
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


async def test_what_changes_nothing_is_not_told() -> None:
    async with open_harness() as harness:
        harness.sink("s")
        harness.queue("q")
        harness.bind("s", "q")
        observer = observing(harness)
        harness.sink("s")
        harness.queue("q")
        harness.bind("s", "q")
        harness.delete("nowhere")
        assert observer.take() == []


async def test_bindings_that_go_with_their_ends_are_told() -> None:
    async with open_harness() as harness:
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


async def test_what_the_house_deletes_itself_is_nobody_s_doing() -> None:
    async with open_harness() as harness:
        queue = harness.queue("q", QueueOptions(auto_delete=True))
        feed = harness.feed(queue, harness.consumer())
        observer = observing(harness)
        close(feed)
        assert observer.take() == [(Action.DELETED, ChangeKind.QUEUE, "q", None)]


async def test_what_ends_with_a_session_is_told() -> None:
    async with open_harness() as harness:
        session, observer = harness.new_session(), observing(harness)
        harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(exclusive=True), session))
        session.detach()
        assert [(action, session_) for action, _, _, session_ in observer.take()] == [
            (Action.CREATED, session),
            (Action.DELETED, session),
        ]


async def test_an_observer_that_has_stopped_or_left_is_told_no_more() -> None:
    async with open_harness() as harness:
        stays, leaves = observing(harness), observing(harness)
        harness.directory.observers.remove(leaves.ref)
        gone = observing(harness)
        parent = gone.ref.parent
        assert parent is not None
        parent.actor.stop_child_nowait(gone.ref)  # type: ignore[union-attr]
        harness.queue("q")
        assert (len(stays.take()), leaves.take(), gone.take()) == (1, [], [])
