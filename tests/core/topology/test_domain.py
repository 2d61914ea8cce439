import pytest
import trio.testing

from core.harness import Harness, close, open_harness, publish, ready, settle
from triomq.core import (
    Bind,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    Feed,
    Inequivalent,
    NoSuchQueue,
    NoSuchSink,
    OpenFeed,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueOptions,
    QueueStopped,
    Restarting,
    Session,
    SinkBroken,
    SinkInUse,
    SinkKind,
    SinkOptions,
    Target,
    Unbind,
    Window,
    make_binding,
)
from triomq.core.routing.sink import RemoveBinding

EXCLUSIVE = QueueOptions(exclusive=True)


def crash_sink(harness: Harness, name: str) -> None:
    harness.directory.sinks[name].ref.tell_nowait(RemoveBinding([]))  # type: ignore[arg-type]  # cannot be hashed


async def test_declare_is_done_when_it_returns_and_a_second_one_finds_the_same(harness: Harness) -> None:
    queue = harness.queue("q")
    assert harness.queue("q") is queue
    assert queue.ref.state == "running"
    declare = DeclareSink("s", SinkOptions(kind=SinkKind.TOPIC))
    assert [harness.domain.ask_nowait(declare) for _ in range(2)] == [True, False]


async def test_second_declare_must_say_the_same(harness: Harness) -> None:
    harness.queue("q")
    harness.sink("s")
    with pytest.raises(Inequivalent):
        harness.queue("q", QueueOptions(durable=False))
    with pytest.raises(Inequivalent):
        harness.sink("s", SinkKind.TOPIC)


async def test_exclusive_queue_is_locked_for_others(harness: Harness) -> None:
    other = harness.new_session()
    assert harness.queue("q", EXCLUSIVE) is harness.queue("q", EXCLUSIVE)
    harness.sink("s")
    binding = make_binding("s", Target.QUEUE, "q")
    harness.domain.ask_nowait(Bind(binding, harness.session))
    for options in (EXCLUSIVE, QueueOptions()):
        with pytest.raises(QueueLocked):
            harness.queue("q", options, other)
    for request in (Bind(binding, other), Unbind(binding, other)):
        with pytest.raises(QueueLocked):
            harness.domain.ask_nowait(request)
    with pytest.raises(QueueLocked):
        harness.delete("q", other)


async def test_shared_queue_cannot_be_declared_exclusive(harness: Harness) -> None:
    harness.queue("q")
    with pytest.raises(QueueLocked):
        harness.queue("q", EXCLUSIVE)


async def test_queue_goes_with_its_messages_its_feeds_and_its_bindings(harness: Harness) -> None:
    queue, consumer = harness.queue("q"), harness.consumer()
    harness.sink("s", SinkKind.FANOUT)
    harness.bind("s", "q")
    harness.feed(queue, consumer, messages=1)
    publish(queue, b"1", b"2")
    statistics = harness.domain.ask_nowait(DeleteQueue("q", harness.session))
    assert statistics is not None
    assert (statistics.ready, statistics.unsettled, statistics.feeds) == (1, 1, 1)
    assert consumer.closed == ["the queue is deleted"]
    assert harness.directory.route("s", "", dict).queues == ()
    assert harness.domain.ask_nowait(DeleteQueue("q", harness.session)) is None
    assert ready(harness.queue("q")) == []


async def test_queue_in_use_or_not_empty_is_kept_if_asked_so(harness: Harness) -> None:
    queue = harness.queue("q")
    feed = harness.feed(queue, harness.consumer(), messages=1)
    with pytest.raises(QueueInUse):
        harness.domain.ask_nowait(DeleteQueue("q", harness.session, if_unused=True))
    publish(queue, b"1", b"2")
    with pytest.raises(QueueNotEmpty):
        harness.domain.ask_nowait(DeleteQueue("q", harness.session, if_empty=True))
    close(feed)
    assert harness.domain.ask_nowait(DeleteQueue("q", harness.session, if_unused=True))


async def test_delete_counts_after_feeds_have_taken_what_they_can(harness: Harness) -> None:
    queue = harness.queue("q")
    harness.feed(queue, harness.consumer())

    def publish_and_delete() -> None:
        publish(queue, b"1")
        harness.domain.ask_nowait(DeleteQueue("q", harness.session, if_empty=True))

    harness.turn(publish_and_delete)
    assert "q" not in harness.directory.queues


async def test_queue_that_is_being_restarted_can_be_deleted(harness: Harness) -> None:
    queue = harness.queue("q")
    publish(queue, b"1")

    def crash_and_delete() -> int:
        harness.crash_nowait(queue)
        statistics = harness.domain.ask_nowait(DeleteQueue("q", harness.session))
        assert statistics is not None
        return statistics.ready

    assert harness.turn(crash_and_delete) == 1
    await trio.testing.wait_all_tasks_blocked()
    assert (queue.ref.state, list(harness.directory.queues)) == ("stopped", [])
    assert harness.queue("q").ref.state == "running"


async def test_auto_delete_queue_stays_if_another_feed_opens_in_the_same_turn(harness: Harness) -> None:
    queue = harness.queue("q", QueueOptions(auto_delete=True))
    feed = harness.feed(queue, harness.consumer())
    other = Feed(queue.ref, harness.consumer().ref)

    def close_and_open() -> None:
        close(feed)
        queue.ref.tell_nowait(OpenFeed(other))

    harness.system.turn.call(close_and_open)
    assert harness.queue("q", QueueOptions(auto_delete=True)).statistics().feeds == 1


async def test_sink_goes_with_its_bindings(harness: Harness) -> None:
    for sink in ("a", "b", "c"):
        harness.sink(sink, SinkKind.FANOUT)
    queue = harness.queue("q")
    harness.bind_sinks("a", "b")
    harness.bind_sinks("b", "c")
    harness.bind("b", "q")
    harness.domain.ask_nowait(DeleteSink("b"))
    assert not queue.bound
    assert not harness.directory.sinks["c"].bound
    assert not harness.directory.sinks["a"].bindings
    assert harness.directory.route("a", "", dict).queues == ()
    assert harness.domain.ask_nowait(DeleteSink("b")) is False


async def test_sink_that_is_bound_to_itself_can_be_deleted(harness: Harness) -> None:
    harness.sink("a", SinkKind.FANOUT)
    harness.bind_sinks("a", "a")
    assert harness.domain.ask_nowait(DeleteSink("a")) is True
    assert harness.domain.state == "running"
    assert not harness.directory.sinks


async def test_sink_in_use_is_kept_if_asked_so(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    harness.bind("s", "q")
    with pytest.raises(SinkInUse):
        harness.domain.ask_nowait(DeleteSink("s", if_unused=True))
    harness.delete("q")
    assert harness.domain.ask_nowait(DeleteSink("s", if_unused=True)) is True


async def test_auto_delete_sink_goes_with_its_last_binding(harness: Harness) -> None:
    harness.domain.ask_nowait(DeclareSink("s", SinkOptions(auto_delete=True)))
    for queue in ("a", "b"):
        harness.queue(queue)
        harness.bind("s", queue)
    harness.delete("a")
    assert "s" in harness.directory.sinks
    harness.delete("b")
    assert "s" not in harness.directory.sinks


async def test_binding_needs_both_ends(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    with pytest.raises(NoSuchSink):
        harness.bind("none", "q")
    with pytest.raises(NoSuchQueue):
        harness.bind("s", "none")
    with pytest.raises(NoSuchSink):
        harness.bind_sinks("s", "none")
    unbind = Unbind(make_binding("none", Target.QUEUE, "none"), harness.session)
    assert harness.domain.ask_nowait(unbind) is False


async def test_sink_that_is_being_restarted_or_has_crashed_is_an_answer() -> None:
    async with open_harness(max_restarts=2) as harness:
        harness.sink("s")
        harness.queue("q")
        harness.bind("s", "q", "first")

        def crash_and_bind() -> None:
            crash_sink(harness, "s")
            harness.bind("s", "q")

        with pytest.raises(Restarting) as caught:
            harness.turn(crash_and_bind)
        await caught.value.ref.wait_running()
        assert harness.bind("s", "q")
        crash_sink(harness, "s")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SinkBroken):
            harness.bind("s", "q")
        assert harness.domain.state == "running"


async def test_queue_and_a_sink_may_have_the_same_name(harness: Harness) -> None:
    harness.queue("same")
    harness.sink("same")
    harness.bind("same", "same", "k")
    assert len(harness.directory.route("same", "k", dict).queues) == 1


async def test_queue_that_is_stopped_keeps_its_messages_and_can_be_deleted() -> None:
    async with open_harness(max_restarts=0) as harness:
        queue = harness.queue("q")
        publish(queue, b"1")
        await harness.crash_for_good(queue)
        with pytest.raises(QueueStopped):
            harness.queue("q")
        assert ready(queue) == [b"1"]
        statistics = harness.domain.ask_nowait(DeleteQueue("q", harness.session))
        assert statistics is not None
        assert statistics.ready == 1
        assert harness.queue("q").ref.state == "running"


async def crash_domain(harness: Harness) -> None:
    harness.domain.tell_nowait(DeleteQueue([], harness.session))  # type: ignore[arg-type]  # a name that cannot be one
    await harness.domain.wait_running()


async def test_domain_that_crashed_comes_back_with_what_it_had(harness: Harness) -> None:
    channel, consumer = Window(5), harness.consumer()
    harness.sink("s", SinkKind.TOPIC)
    queue = harness.queue("q")
    harness.bind("s", "q", "a.#")
    harness.feed(queue, consumer, shared=(channel,), messages=1)
    publish(queue, b"1", b"2")
    [batch] = consumer.batches
    await crash_domain(harness)
    assert len(consumer.closed) == 1
    assert channel.used == 0
    assert ready(queue) == [b"1", b"2"]
    settle(batch)  # the incarnation that handed it out is gone
    assert ready(queue) == [b"1", b"2"]
    [ref] = harness.directory.route("s", "a.b", dict).queues
    assert (ref, ref.state) == (queue.ref, "running")
    consumer.batches.clear()
    harness.feed(queue, consumer)
    assert [(batch.contents, batch.redelivered) for batch in consumer.batches] == [([b"1"], True), ([b"2"], False)]
    harness.bind("s", "q", "b")


async def test_routes_that_were_found_before_a_domain_crashed_are_known_to_be_old(harness: Harness) -> None:
    harness.queue("q")
    version, [former] = harness.directory.version, harness.directory.route("", "q", dict).queues
    await crash_domain(harness)
    assert former.state == "stopped"
    assert harness.directory.version != version


async def test_queue_that_crashed_with_its_domain_comes_back_too(harness: Harness) -> None:
    queue, consumer = harness.queue("q"), harness.consumer()
    harness.feed(queue, consumer)
    publish(queue, b"1")

    def crash_both() -> None:
        harness.crash_nowait(queue)
        harness.domain.tell_nowait(DeleteQueue([], harness.session))  # type: ignore[arg-type]

    harness.turn(crash_both)
    await harness.domain.wait_running()
    assert (ready(queue), len(consumer.closed)) == ([b"1"], 1)
    assert queue.ref.state == "running"


async def test_exclusive_queues_of_an_ended_session_are_deleted_after_the_domain_is_back(harness: Harness) -> None:
    session: Session = harness.new_session()
    harness.queue("q", EXCLUSIVE, session)

    def crash_and_end() -> None:
        harness.domain.tell_nowait(DeleteQueue([], harness.session))  # type: ignore[arg-type]
        session.detach()

    harness.turn(crash_and_end)
    await harness.domain.wait_running()
    assert "q" not in harness.directory.queues
