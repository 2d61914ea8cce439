"""What is announced to a peer, in which order, and what need not be."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from core.harness import Harness, open_harness
from triomq.actors import InPlaceActor
from triomq.core import (
    Bind,
    Changed,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    QueueOptions,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    make_binding,
)
from triomq.endpoints.federation.outbox import ResourceOutbox
from triomq.protocols.amqp import (
    Method,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
)

FEED, PIPE, JOIN = RestMSFeedCreate("topic", "s"), RestMSPipeCreate("pipe", "q"), RestMSJoinCreate("q", "s", "k")
NO_FEED, NO_PIPE, NO_JOIN = RestMSFeedDelete("s"), RestMSPipeDelete("q"), RestMSJoinDelete("q", "s", "k")


class Watcher(InPlaceActor):
    """Puts what changes into an outbox."""

    def __init__(self, harness: Harness, limit: int = 100) -> None:
        self.harness = harness
        self.outbox = ResourceOutbox("pipe", limit)
        harness.directory.observers.add(harness.start(self))

    def changed(self, message: Changed) -> None:
        self.outbox.changed(message, self.harness.directory)

    def begin(self) -> None:
        self.outbox.begin(self.harness.directory)

    def take(self, most: int = 1000) -> list[Method]:
        """Take all that there is, so many at a time."""
        found: list[Method] = []
        while taken := self.outbox.take(most):
            found += taken
        return found

    def mark_reached(self) -> bool:
        """Answer a mark behind all that was sent."""
        return self.outbox.mark_reached(self.outbox.mark())


@asynccontextmanager
async def watched() -> AsyncIterator[tuple[Harness, Watcher]]:
    """Open a domain with a watcher whose peer is there."""
    async with open_harness() as harness:
        watcher = Watcher(harness)
        watcher.begin()
        yield harness, watcher


def declare(harness: Harness) -> None:
    harness.sink("s", SinkKind.TOPIC)
    harness.queue("q")
    harness.bind("s", "q", "k")


def delete(harness: Harness) -> None:
    harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "k"), harness.session))
    harness.domain.ask_nowait(DeleteQueue("q", harness.session))
    harness.domain.ask_nowait(DeleteSink("s"))


async def test_everything_is_told_feeds_first_and_each_pipe_followed_by_its_joins() -> None:
    async with open_harness() as harness:
        watcher = Watcher(harness)
        harness.queue("p")
        declare(harness)
        harness.sink("t", SinkKind.FANOUT)
        harness.bind("t", "q")
        harness.bind("t", "p")
        assert watcher.take() == []  # the peer is not there
        watcher.begin()
        assert watcher.take() == [
            FEED,
            RestMSFeedCreate("fanout", "t"),
            RestMSPipeCreate("pipe", "p"),
            RestMSJoinCreate("p", "t", ""),
            PIPE,
            JOIN,
            RestMSJoinCreate("q", "t", ""),
        ]


async def test_changes_are_told_in_their_order() -> None:
    async with watched() as (harness, watcher):
        declare(harness)
        delete(harness)
        declare(harness)
        assert watcher.take(1) == [FEED, PIPE, JOIN, NO_JOIN, NO_PIPE, NO_FEED, FEED, PIPE, JOIN]


async def test_bindings_go_before_what_they_lead_to_and_come_from() -> None:
    async with watched() as (harness, watcher):
        declare(harness)
        harness.delete("q")
        harness.bind_sinks("s", "s")
        harness.domain.ask_nowait(DeleteSink("s"))
        assert watcher.take() == [FEED, PIPE, JOIN, NO_JOIN, NO_PIPE, NO_FEED]


async def test_resources_of_others_are_not_announced() -> None:
    async with watched() as (harness, watcher):
        harness.domain.ask_nowait(DeclareSink("s", SinkOptions(), harness.session, "peer"))
        harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(), harness.session, "peer"))
        binding = make_binding("s", Target.QUEUE, "q", "k")
        harness.domain.ask_nowait(Bind(binding, harness.session, "peer"))
        harness.bind("s", "q", "ours")
        watcher.begin()
        assert watcher.take() == [RestMSJoinCreate("q", "s", "ours")]
        harness.domain.ask_nowait(DeleteQueue("q", harness.session, origin="peer"))
        assert watcher.take() == [RestMSJoinDelete("q", "s", "ours")]


async def test_resources_that_the_class_does_not_have_are_not_announced() -> None:
    async with watched() as (harness, watcher):
        arguments: Mapping[str, object] = {"a": 1}
        harness.queue("alone", QueueOptions(exclusive=True))
        harness.queue("amq.q")
        harness.queue("long" * 63 + "er")
        harness.queue("long" * 63 + "e")
        harness.sink("amq.s")
        harness.sink("inner", internal=True)
        harness.sink("hashed", SinkKind.CONSISTENT_HASH)
        harness.sink("s", SinkKind.TOPIC)
        harness.queue("q")
        harness.bind("s", "alone", "k")
        harness.bind("s", "q", "k", arguments)
        harness.bind("inner", "q", "k")
        harness.bind("hashed", "q", "1")
        harness.bind_sinks("s", "inner")
        assert watcher.take() == [FEED, RestMSPipeCreate("pipe", "long" * 63 + "e"), PIPE]
        harness.delete("long" * 63 + "e")
        watcher.take()
        watcher.mark_reached()
        harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "k", arguments), harness.session))
        harness.delete("alone")
        assert watcher.take() == []
        watcher.begin()
        assert watcher.take() == [FEED, PIPE]


async def test_joins_of_feeds_that_every_broker_has_are_told() -> None:
    async with open_harness() as harness:
        harness.sink("amq.topic", SinkKind.TOPIC)
        harness.queue("q")
        harness.bind("amq.topic", "q", "#")
        watcher = Watcher(harness)
        watcher.begin()
        assert watcher.take() == [PIPE, RestMSJoinCreate("q", "amq.topic", "#")]


async def test_change_during_a_replay_is_announced_once() -> None:
    async with open_harness() as harness:
        declare(harness)
        watcher = Watcher(harness)
        watcher.begin()
        assert watcher.outbox.take(1) == [FEED]
        harness.sink("t", SinkKind.FANOUT)
        harness.queue("p")
        harness.bind("s", "q", "late")
        harness.delete("p")
        assert watcher.take() == [
            PIPE,
            JOIN,
            RestMSJoinCreate("q", "s", "late"),
            RestMSFeedCreate("fanout", "t"),
            RestMSPipeCreate("pipe", "p"),
            RestMSPipeDelete("p"),
        ]


async def test_resource_deleted_during_a_replay_is_announced_as_gone() -> None:
    async with open_harness() as harness:
        declare(harness)
        harness.queue("stays")
        watcher = Watcher(harness)
        watcher.begin()
        assert watcher.outbox.take(2) == [FEED, PIPE]
        delete(harness)
        assert watcher.take() == [RestMSPipeCreate("pipe", "stays"), NO_PIPE, NO_FEED]


async def test_deletes_without_a_connection_are_sent_when_the_peer_is_back_joins_first() -> None:
    async with open_harness() as harness:
        declare(harness)
        harness.queue("stays")
        watcher = Watcher(harness)
        watcher.begin()
        watcher.take()
        watcher.mark_reached()
        watcher.outbox.end()
        delete(harness)
        watcher.begin()
        assert watcher.take() == [RestMSPipeCreate("pipe", "stays"), NO_JOIN, NO_PIPE, NO_FEED]
        watcher.mark_reached()
        watcher.begin()
        assert watcher.take() == [RestMSPipeCreate("pipe", "stays")]


async def test_delete_that_may_not_have_arrived_is_sent_again() -> None:
    async with watched() as (harness, watcher):
        declare(harness)
        watcher.take()
        mark = watcher.outbox.mark()
        delete(harness)
        assert watcher.take() == [NO_JOIN, NO_PIPE, NO_FEED]
        watcher.outbox.mark_reached(mark)  # which says nothing of what came behind it
        watcher.outbox.end()
        watcher.begin()
        assert watcher.take() == [NO_JOIN, NO_PIPE, NO_FEED]
        watcher.mark_reached()
        watcher.begin()
        assert watcher.take() == []


async def test_another_one_of_the_same_name_is_told_as_such() -> None:
    async with watched() as (harness, watcher):
        declare(harness)
        watcher.take()
        watcher.outbox.end()
        delete(harness)
        harness.sink("s", SinkKind.FANOUT)
        watcher.begin()
        assert watcher.take() == [NO_FEED, RestMSFeedCreate("fanout", "s"), NO_JOIN, NO_PIPE]


async def test_too_many_changes_are_dropped_and_everything_is_told_once_more() -> None:
    async with open_harness() as harness:
        watcher = Watcher(harness, limit=2)
        declare(harness)
        watcher.begin()
        watcher.take()
        harness.delete("q")  # two changes
        harness.queue("p")
        assert watcher.outbox.statistics().replays == 2
        assert watcher.take() == [FEED, RestMSPipeCreate("pipe", "p"), NO_JOIN, NO_PIPE]


async def test_whether_the_peer_has_heard_everything_is_known() -> None:
    async with watched() as (harness, watcher):
        declare(harness)
        watcher.take()
        first, second = watcher.outbox.mark(), watcher.outbox.mark()
        assert not watcher.outbox.mark_reached(first)
        assert watcher.outbox.mark_reached(second)
        harness.delete("q")
        assert not watcher.outbox.mark_reached(second)


async def test_pipe_can_be_announced_again() -> None:
    async with watched() as (harness, watcher):
        declare(harness)
        watcher.take()
        watcher.outbox.announce_again("q", harness.directory)
        watcher.outbox.announce_again("missing", harness.directory)
        assert watcher.take() == [PIPE, JOIN]
        assert watcher.outbox.knows("q")
        assert not watcher.outbox.knows("s")


async def test_peer_may_call_a_pipe_something_else() -> None:
    async with open_harness() as harness:
        harness.queue("q")
        outbox = ResourceOutbox("fifo", 10)
        outbox.begin(harness.directory)
        assert outbox.take(10) == [RestMSPipeCreate("fifo", "q")]
        assert (outbox.statistics().announced, outbox.statistics().sent) == (1, 1)
