import pytest

from memory_store import MemoryStore
from triomq.core import (
    DeclareSink,
    Directory,
    Keeping,
    NoSuchQueue,
    NoSuchSink,
    QueueLocked,
    QueueOptions,
    QueueStopped,
    Route,
    SinkInternal,
    SinkKind,
    SinkOptions,
)
from triomq.errors import DiskFull

from .cast import House, open_house, publish, settle
from .machine.disk import Disk


def names(route: Route) -> list[str]:
    return sorted(ref.name.removeprefix("queue.") for ref in route.queues)


def make_sinks(house: House, *sinks: str, kind: SinkKind = SinkKind.FANOUT) -> None:
    for sink in sinks:
        house.sink(sink, kind)


async def test_the_default_sink_leads_to_the_queue_called_like_the_key() -> None:
    async with open_house() as house:
        house.queue("q")
        assert names(house.directory.route("", "q", dict)) == ["q"]
        assert names(house.directory.route("", "other", dict)) == []


async def test_a_sink_that_is_not_there_is_refused() -> None:
    async with open_house() as house:
        with pytest.raises(NoSuchSink):
            house.directory.route("none", "", dict)


async def test_only_other_sinks_publish_into_an_internal_one() -> None:
    async with open_house() as house:
        house.domain.ask_nowait(DeclareSink("inner", SinkOptions(kind=SinkKind.FANOUT, internal=True)))
        make_sinks(house, "outer")
        house.queue("q")
        house.bind("inner", "q")
        house.bind_sinks("outer", "inner")
        with pytest.raises(SinkInternal):
            house.directory.route("inner", "", dict)
        assert names(house.directory.route("outer", "", dict)) == ["q"]


async def test_a_message_goes_once_to_each_queue_over_whatever_ways() -> None:
    async with open_house() as house:
        make_sinks(house, "top", "left", "right")
        for queue in ("a", "b"):
            house.queue(queue)
        for sink in ("left", "right"):
            house.bind_sinks("top", sink)
            house.bind(sink, "a")
        house.bind("top", "b")
        assert names(house.directory.route("top", "", dict)) == ["a", "b"]


async def test_a_circle_of_sinks_ends() -> None:
    async with open_house() as house:
        make_sinks(house, "a", "b", "c")
        house.queue("q")
        for source, destination in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")):
            house.bind_sinks(source, destination)
        house.bind("c", "q")
        assert names(house.directory.route("a", "", dict)) == ["q"]


async def test_a_route_tells_whether_headers_were_looked_at_on_the_way() -> None:
    async with open_house() as house:
        make_sinks(house, "top", "plain")
        make_sinks(house, "by_headers", kind=SinkKind.HEADERS)
        house.queue("q")
        house.bind_sinks("top", "by_headers")
        house.bind("by_headers", "q", arguments={"a": 1})
        assert house.directory.route("top", "", lambda: {"a": 1}) == Route((house.queue("q").ref,), by_headers=True)
        assert house.directory.route("top", "", lambda: {"a": 2}) == Route((), by_headers=True)
        assert not house.directory.route("plain", "", dict).by_headers


async def test_headers_are_not_asked_for_where_nobody_looks_at_them() -> None:
    async with open_house() as house:
        make_sinks(house, "s")
        house.queue("q")
        house.bind("s", "q")

        def headers() -> dict[str, object]:
            raise AssertionError("nobody should ask")

        assert names(house.directory.route("s", "", headers)) == ["q"]


async def test_a_queue_is_found_by_those_who_may_use_it() -> None:
    async with open_house() as house:
        session = house.new_session()
        mine = house.queue("mine", QueueOptions(exclusive=True), session)
        assert house.directory.queue("mine", session) is mine
        with pytest.raises(QueueLocked):
            house.directory.queue("mine", house.session)
        with pytest.raises(NoSuchQueue):
            house.directory.queue("none", session)


async def test_a_queue_that_was_stopped_by_its_supervisor_says_so() -> None:
    async with open_house(max_restarts=0) as house:
        store = house.queue("q")
        await house.crash_for_good(store)
        with pytest.raises(QueueStopped, match="stopped by supervisor"):
            house.directory.queue("q", house.session)


async def test_who_waits_for_an_idle_domain_is_told_once_at_the_end_of_the_turn() -> None:
    async with open_house() as house:
        told: list[str] = []
        house.directory.when_idle(lambda: told.append("at once"))
        assert told == ["at once"]
        first, second, consumer = house.queue("first"), house.queue("second"), house.consumer()
        for store in first, second:
            house.feed(store, consumer)
            publish(store, b"x")
        house.directory.when_idle(lambda: told.append("idle"))
        settle(consumer.batches[0])
        assert told == ["at once"]
        settle(consumer.batches[1])
        assert told == ["at once", "idle"]
        publish(first, b"y")
        settle(consumer.batches[2])
        assert told == ["at once", "idle"]


async def test_the_last_busy_queue_may_also_be_deleted() -> None:
    async with open_house() as house:
        told: list[None] = []
        house.feed(house.queue(), house.consumer())
        publish(house.directory.queues["q"], b"x")
        house.directory.when_idle(lambda: told.append(None))
        house.delete("q")
        assert told == [None]


async def test_a_domain_is_not_idle_while_dead_letters_are_on_their_way() -> None:
    async with open_house() as house:
        dead, consumer = house.queue("dead"), house.consumer()
        house.feed(dead, consumer)
        store = house.queue(options=QueueOptions(max_length=1, dead_letter_sink="", dead_letter_key="dead"))
        told: list[str] = []
        publish(dead, b"0")

        def settle_the_last_and_shed_another() -> None:
            publish(store, b"1", b"2")
            house.directory.when_idle(lambda: told.append("idle"))
            settle(consumer.batches[0])

        house.turn(settle_the_last_and_shed_another)
        assert told == []
        settle(consumer.batches[1])
        assert told == ["idle"]


async def test_a_domain_is_not_idle_while_messages_wait_for_a_queue_that_is_being_restarted() -> None:
    async with open_house() as house:
        store = house.queue()
        told: list[int] = []

        def crash_and_publish() -> None:
            house.crash_nowait(store)
            publish(store, b"x")
            house.directory.when_idle(lambda: told.append(store.backlog.ready))
            assert told == []

        house.turn(crash_and_publish)
        await store.ref.wait_running()
        assert told == [1]


async def test_a_domain_whose_last_busy_queue_is_given_up_is_idle() -> None:
    async with open_house(max_restarts=1) as house:
        told: list[None] = []
        store, consumer = house.queue(), house.consumer()
        house.feed(store, consumer)
        publish(store, b"x")
        house.directory.when_idle(lambda: told.append(None))
        await house.crash_for_good(store)
        assert told == [None]


async def test_sessions_have_numbers_of_their_own() -> None:
    async with open_house() as house:
        numbers = [house.new_session().number for _ in range(3)]
        assert numbers == [2, 3, 4]


async def test_a_fault_of_the_store_concerns_durable_queues_alone() -> None:
    disk = Disk(MemoryStore())
    async with open_house(Directory("house", keeping=Keeping(disk.journal))) as house:
        durable, fleeting = house.queue("q"), house.queue("f", QueueOptions(durable=False))
        assert house.directory.fault_of([durable.ref, fleeting.ref]) is None
        fault = DiskFull("full")
        disk.journal.failed(fault)
        assert house.directory.fault_of([fleeting.ref, durable.ref]) is fault
        assert house.directory.fault_of([fleeting.ref]) is None
        assert house.directory.fault_of([]) is None
