import pytest
import trio.testing

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
from triomq.core.sink import RemoveBinding

from .cast import House, close, open_house, publish, ready, settle

EXCLUSIVE = QueueOptions(exclusive=True)


def crash_sink(house: House, name: str) -> None:
    house.directory.sinks[name].ref.tell_nowait(RemoveBinding([]))  # type: ignore[arg-type]  # cannot be hashed


async def test_a_declare_is_done_when_it_returns_and_a_second_one_finds_the_same() -> None:
    async with open_house() as house:
        store = house.queue("q")
        assert house.queue("q") is store
        assert store.ref.state == "running"
        declare = DeclareSink("s", SinkOptions(kind=SinkKind.TOPIC))
        assert [house.domain.ask_nowait(declare) for _ in range(2)] == [True, False]


async def test_a_second_declare_must_say_the_same() -> None:
    async with open_house() as house:
        house.queue("q")
        house.sink("s")
        with pytest.raises(Inequivalent):
            house.queue("q", QueueOptions(durable=False))
        with pytest.raises(Inequivalent):
            house.sink("s", SinkKind.TOPIC)


async def test_an_exclusive_queue_is_locked_for_others() -> None:
    async with open_house() as house:
        other = house.new_session()
        assert house.queue("q", EXCLUSIVE) is house.queue("q", EXCLUSIVE)
        house.sink("s")
        binding = make_binding("s", Target.QUEUE, "q")
        house.domain.ask_nowait(Bind(binding, house.session))
        for options in (EXCLUSIVE, QueueOptions()):
            with pytest.raises(QueueLocked):
                house.queue("q", options, other)
        for request in (Bind(binding, other), Unbind(binding, other)):
            with pytest.raises(QueueLocked):
                house.domain.ask_nowait(request)
        with pytest.raises(QueueLocked):
            house.delete("q", other)


async def test_a_shared_queue_cannot_be_declared_exclusive() -> None:
    async with open_house() as house:
        house.queue("q")
        with pytest.raises(QueueLocked):
            house.queue("q", EXCLUSIVE)


async def test_a_queue_goes_with_its_messages_its_feeds_and_its_bindings() -> None:
    async with open_house() as house:
        store, consumer = house.queue("q"), house.consumer()
        house.sink("s", SinkKind.FANOUT)
        house.bind("s", "q")
        house.feed(store, consumer, messages=1)
        publish(store, b"1", b"2")
        statistics = house.domain.ask_nowait(DeleteQueue("q", house.session))
        assert statistics is not None
        assert (statistics.ready, statistics.unsettled, statistics.feeds) == (1, 1, 1)
        assert consumer.closed == ["the queue is deleted"]
        assert house.directory.route("s", "", dict).queues == ()
        assert house.domain.ask_nowait(DeleteQueue("q", house.session)) is None
        assert ready(house.queue("q")) == []


async def test_a_queue_in_use_or_not_empty_is_kept_if_asked_so() -> None:
    async with open_house() as house:
        store = house.queue("q")
        feed = house.feed(store, house.consumer(), messages=1)
        with pytest.raises(QueueInUse):
            house.domain.ask_nowait(DeleteQueue("q", house.session, if_unused=True))
        publish(store, b"1", b"2")
        with pytest.raises(QueueNotEmpty):
            house.domain.ask_nowait(DeleteQueue("q", house.session, if_empty=True))
        close(feed)
        assert house.domain.ask_nowait(DeleteQueue("q", house.session, if_unused=True))


async def test_a_delete_counts_after_feeds_have_taken_what_they_can() -> None:
    async with open_house() as house:
        store = house.queue("q")
        house.feed(store, house.consumer())

        def publish_and_delete() -> None:
            publish(store, b"1")
            house.domain.ask_nowait(DeleteQueue("q", house.session, if_empty=True))

        house.turn(publish_and_delete)
        assert "q" not in house.directory.queues


async def test_a_queue_that_is_being_restarted_can_be_deleted() -> None:
    async with open_house() as house:
        store = house.queue("q")
        publish(store, b"1")

        def crash_and_delete() -> int:
            house.crash_nowait(store)
            statistics = house.domain.ask_nowait(DeleteQueue("q", house.session))
            assert statistics is not None
            return statistics.ready

        assert house.turn(crash_and_delete) == 1
        await trio.testing.wait_all_tasks_blocked()
        assert (store.ref.state, list(house.directory.queues)) == ("stopped", [])
        assert house.queue("q").ref.state == "running"


async def test_an_auto_delete_queue_goes_with_its_last_feed() -> None:
    async with open_house() as house:
        store = house.queue("q", QueueOptions(auto_delete=True))
        feeds = [house.feed(store, house.consumer()) for _ in range(2)]
        close(feeds[0])
        assert "q" in house.directory.queues
        close(feeds[1])
        assert "q" not in house.directory.queues


async def test_an_auto_delete_queue_stays_if_another_feed_opens_in_the_same_turn() -> None:
    async with open_house() as house:
        store = house.queue("q", QueueOptions(auto_delete=True))
        feed = house.feed(store, house.consumer())
        other = Feed(store.ref, house.consumer().ref)

        def close_and_open() -> None:
            close(feed)
            store.ref.tell_nowait(OpenFeed(other))

        house.system.turn.call(close_and_open)
        assert house.queue("q", QueueOptions(auto_delete=True)).statistics().feeds == 1


async def test_a_sink_goes_with_its_bindings() -> None:
    async with open_house() as house:
        for sink in ("a", "b", "c"):
            house.sink(sink, SinkKind.FANOUT)
        store = house.queue("q")
        house.bind_sinks("a", "b")
        house.bind_sinks("b", "c")
        house.bind("b", "q")
        house.domain.ask_nowait(DeleteSink("b"))
        assert not store.bound
        assert not house.directory.sinks["c"].bound
        assert not house.directory.sinks["a"].bindings
        assert house.directory.route("a", "", dict).queues == ()
        assert house.domain.ask_nowait(DeleteSink("b")) is False


async def test_a_sink_that_is_bound_to_itself_can_be_deleted() -> None:
    async with open_house() as house:
        house.sink("a", SinkKind.FANOUT)
        house.bind_sinks("a", "a")
        assert house.domain.ask_nowait(DeleteSink("a")) is True
        assert house.domain.state == "running"
        assert not house.directory.sinks


async def test_a_sink_in_use_is_kept_if_asked_so() -> None:
    async with open_house() as house:
        house.sink("s")
        house.queue("q")
        house.bind("s", "q")
        with pytest.raises(SinkInUse):
            house.domain.ask_nowait(DeleteSink("s", if_unused=True))
        house.delete("q")
        assert house.domain.ask_nowait(DeleteSink("s", if_unused=True)) is True


async def test_an_auto_delete_sink_goes_with_its_last_binding() -> None:
    async with open_house() as house:
        house.domain.ask_nowait(DeclareSink("s", SinkOptions(auto_delete=True)))
        for queue in ("a", "b"):
            house.queue(queue)
            house.bind("s", queue)
        house.delete("a")
        assert "s" in house.directory.sinks
        house.delete("b")
        assert "s" not in house.directory.sinks


async def test_a_binding_needs_both_ends() -> None:
    async with open_house() as house:
        house.sink("s")
        house.queue("q")
        with pytest.raises(NoSuchSink):
            house.bind("none", "q")
        with pytest.raises(NoSuchQueue):
            house.bind("s", "none")
        with pytest.raises(NoSuchSink):
            house.bind_sinks("s", "none")
        unbind = Unbind(make_binding("none", Target.QUEUE, "none"), house.session)
        assert house.domain.ask_nowait(unbind) is False


async def test_a_sink_that_is_being_restarted_or_has_crashed_is_an_answer() -> None:
    async with open_house(max_restarts=2) as house:
        house.sink("s")
        house.queue("q")
        house.bind("s", "q", "first")

        def crash_and_bind() -> None:
            crash_sink(house, "s")
            house.bind("s", "q")

        with pytest.raises(Restarting) as caught:
            house.turn(crash_and_bind)
        await caught.value.ref.wait_running()
        assert house.bind("s", "q")
        crash_sink(house, "s")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SinkBroken):
            house.bind("s", "q")
        assert house.domain.state == "running"


async def test_a_queue_and_a_sink_may_have_the_same_name() -> None:
    async with open_house() as house:
        house.queue("same")
        house.sink("same")
        house.bind("same", "same", "k")
        assert len(house.directory.route("same", "k", dict).queues) == 1


async def test_a_queue_that_is_stopped_keeps_its_messages_and_can_be_deleted() -> None:
    async with open_house(max_restarts=0) as house:
        store = house.queue("q")
        publish(store, b"1")
        await house.crash_for_good(store)
        with pytest.raises(QueueStopped):
            house.queue("q")
        assert ready(store) == [b"1"]
        statistics = house.domain.ask_nowait(DeleteQueue("q", house.session))
        assert statistics is not None
        assert statistics.ready == 1
        assert house.queue("q").ref.state == "running"


async def crash_domain(house: House) -> None:
    house.domain.tell_nowait(DeleteQueue([], house.session))  # type: ignore[arg-type]  # a name that cannot be one
    await house.domain.wait_running()


async def test_a_domain_that_crashed_comes_back_with_what_it_had() -> None:
    async with open_house() as house:
        channel, consumer = Window(5), house.consumer()
        house.sink("s", SinkKind.TOPIC)
        store = house.queue("q")
        house.bind("s", "q", "a.#")
        house.feed(store, consumer, shared=(channel,), messages=1)
        publish(store, b"1", b"2")
        [batch] = consumer.batches
        await crash_domain(house)
        assert len(consumer.closed) == 1
        assert channel.used == 0
        assert ready(store) == [b"1", b"2"]
        settle(batch)  # the incarnation that handed it out is gone
        assert ready(store) == [b"1", b"2"]
        [ref] = house.directory.route("s", "a.b", dict).queues
        assert (ref, ref.state) == (store.ref, "running")
        consumer.batches.clear()
        house.feed(store, consumer)
        assert [(batch.contents, batch.redelivered) for batch in consumer.batches] == [([b"1"], True), ([b"2"], False)]
        house.bind("s", "q", "b")


async def test_what_comes_back_when_a_domain_crashes_gives_way_if_it_is_too_much() -> None:
    async with open_house() as house:
        store, consumer = house.queue("q", QueueOptions(max_length=2)), house.consumer()
        house.feed(store, consumer)
        publish(store, b"1", b"2", b"3")
        await crash_domain(house)
        await trio.testing.wait_all_tasks_blocked()
        assert ready(store) == [b"2", b"3"]
        assert store.statistics().dropped == 1


async def test_routes_that_were_found_before_a_domain_crashed_are_known_to_be_old() -> None:
    async with open_house() as house:
        house.queue("q")
        version, [former] = house.directory.version, house.directory.route("", "q", dict).queues
        await crash_domain(house)
        assert former.state == "stopped"
        assert house.directory.version != version


async def test_a_queue_that_crashed_with_its_domain_comes_back_too() -> None:
    async with open_house() as house:
        store, consumer = house.queue("q"), house.consumer()
        house.feed(store, consumer)
        publish(store, b"1")

        def crash_both() -> None:
            house.crash_nowait(store)
            house.domain.tell_nowait(DeleteQueue([], house.session))  # type: ignore[arg-type]

        house.turn(crash_both)
        await house.domain.wait_running()
        assert (ready(store), len(consumer.closed)) == ([b"1"], 1)
        assert store.ref.state == "running"


async def test_what_a_session_owns_is_deleted_after_the_domain_is_back() -> None:
    async with open_house() as house:
        session: Session = house.new_session()
        house.queue("q", EXCLUSIVE, session)

        def crash_and_end() -> None:
            house.domain.tell_nowait(DeleteQueue([], house.session))  # type: ignore[arg-type]
            session.detach()

        house.turn(crash_and_end)
        await house.domain.wait_running()
        assert "q" not in house.directory.queues
