import pytest

from core.harness import Harness, open_harness, publish, settle
from core.simulated_disk import SimulatedDisk
from memory_store import MemoryStore
from triomq.core import (
    DeclareSink,
    Directory,
    NoSuchQueue,
    NoSuchSink,
    Persistence,
    QueueLocked,
    QueueOptions,
    Route,
    SinkInternal,
    SinkKind,
    SinkOptions,
)
from triomq.errors import DiskFull


def names(route: Route) -> list[str]:
    return sorted(ref.name.removeprefix("queue.") for ref in route.queues)


def make_sinks(harness: Harness, *sinks: str, kind: SinkKind = SinkKind.FANOUT) -> None:
    for sink in sinks:
        harness.sink(sink, kind)


async def test_default_sink_leads_to_the_queue_called_like_the_key(harness: Harness) -> None:
    harness.queue("q")
    assert names(harness.directory.route("", "q", dict)) == ["q"]
    assert names(harness.directory.route("", "other", dict)) == []


async def test_sink_that_is_not_there_is_refused(harness: Harness) -> None:
    with pytest.raises(NoSuchSink):
        harness.directory.route("none", "", dict)


async def test_only_other_sinks_publish_into_an_internal_one(harness: Harness) -> None:
    harness.domain.ask_nowait(DeclareSink("inner", SinkOptions(kind=SinkKind.FANOUT, internal=True)))
    make_sinks(harness, "outer")
    harness.queue("q")
    harness.bind("inner", "q")
    harness.bind_sinks("outer", "inner")
    with pytest.raises(SinkInternal):
        harness.directory.route("inner", "", dict)
    assert names(harness.directory.route("outer", "", dict)) == ["q"]


async def test_message_goes_once_to_each_queue_over_whatever_ways(harness: Harness) -> None:
    make_sinks(harness, "top", "left", "right")
    for queue in ("a", "b"):
        harness.queue(queue)
    for sink in ("left", "right"):
        harness.bind_sinks("top", sink)
        harness.bind(sink, "a")
    harness.bind("top", "b")
    assert names(harness.directory.route("top", "", dict)) == ["a", "b"]


async def test_circle_of_sinks_ends(harness: Harness) -> None:
    make_sinks(harness, "a", "b", "c")
    harness.queue("q")
    for source, destination in (("a", "b"), ("b", "c"), ("c", "a"), ("a", "a")):
        harness.bind_sinks(source, destination)
    harness.bind("c", "q")
    assert names(harness.directory.route("a", "", dict)) == ["q"]


async def test_route_tells_whether_headers_were_looked_at_on_the_way(harness: Harness) -> None:
    make_sinks(harness, "top", "plain")
    make_sinks(harness, "by_headers", kind=SinkKind.HEADERS)
    harness.queue("q")
    harness.bind_sinks("top", "by_headers")
    harness.bind("by_headers", "q", arguments={"a": 1})
    assert harness.directory.route("top", "", lambda: {"a": 1}) == Route((harness.queue("q").ref,), by_headers=True)
    assert harness.directory.route("top", "", lambda: {"a": 2}) == Route((), by_headers=True)
    assert not harness.directory.route("plain", "", dict).by_headers


async def test_headers_are_not_asked_for_where_nobody_looks_at_them(harness: Harness) -> None:
    make_sinks(harness, "s")
    harness.queue("q")
    harness.bind("s", "q")

    def headers() -> dict[str, object]:
        raise AssertionError("nobody should ask")

    assert names(harness.directory.route("s", "", headers)) == ["q"]


@pytest.mark.parametrize("kind", [SinkKind.DIRECT, SinkKind.FANOUT, SinkKind.TOPIC, SinkKind.CONSISTENT_HASH])
async def test_finder_finds_what_a_route_leads_to_where_only_keys_count(harness: Harness, kind: SinkKind) -> None:
    make_sinks(harness, "s", kind=kind)
    for queue, key in (("q", "1"), ("r", "1"), ("r", "2"), ("t", "3")):
        harness.queue(queue)
        harness.bind("s", queue, key)
    find = harness.directory.finder("s")
    assert find is not None
    for key in ("1", "2", "3", "4", "1"):
        assert set(find(key) or ()) == set(harness.directory.route("s", key, dict).queues)


async def test_finder_of_the_default_sink_finds_the_queue_called_like_the_key(harness: Harness) -> None:
    queue = harness.queue("q")
    find = harness.directory.finder("")
    assert find is not None
    assert (find("q"), find("r")) == ((queue.ref,), ())


async def test_finder_leaves_to_a_route_what_is_found_by_more_than_the_key(harness: Harness) -> None:
    make_sinks(harness, "h", kind=SinkKind.HEADERS)
    make_sinks(harness, "outer", "inner")
    harness.bind_sinks("outer", "inner")
    assert harness.directory.finder("h") is None
    find = harness.directory.finder("outer")
    assert find is not None
    assert find("") is None


async def test_finder_is_refused_where_a_route_is(harness: Harness) -> None:
    harness.domain.ask_nowait(DeclareSink("inner", SinkOptions(kind=SinkKind.FANOUT, internal=True)))
    with pytest.raises(SinkInternal):
        harness.directory.finder("inner")
    with pytest.raises(NoSuchSink):
        harness.directory.finder("none")


async def test_queue_is_found_by_those_who_may_use_it(harness: Harness) -> None:
    session = harness.new_session()
    mine = harness.queue("mine", QueueOptions(exclusive=True), session)
    assert harness.directory.queue("mine", session) is mine
    with pytest.raises(QueueLocked):
        harness.directory.queue("mine", harness.session)
    with pytest.raises(NoSuchQueue):
        harness.directory.queue("none", session)


async def test_waiter_for_an_idle_domain_is_called_once_at_the_end_of_the_turn(harness: Harness) -> None:
    told: list[str] = []
    harness.directory.when_idle(lambda: told.append("at once"))
    assert told == ["at once"]
    first, second, consumer = harness.queue("first"), harness.queue("second"), harness.consumer()
    for queue in first, second:
        harness.feed(queue, consumer)
        publish(queue, b"x")
    harness.directory.when_idle(lambda: told.append("idle"))
    settle(consumer.batches[0])
    assert told == ["at once"]
    settle(consumer.batches[1])
    assert told == ["at once", "idle"]
    publish(first, b"y")
    settle(consumer.batches[2])
    assert told == ["at once", "idle"]


async def test_last_busy_queue_may_also_be_deleted(harness: Harness) -> None:
    told: list[None] = []
    harness.feed(harness.queue(), harness.consumer())
    publish(harness.directory.queues["q"], b"x")
    harness.directory.when_idle(lambda: told.append(None))
    harness.delete("q")
    assert told == [None]


async def test_domain_is_not_idle_while_dead_letters_are_on_their_way(harness: Harness) -> None:
    dead, consumer = harness.queue("dead"), harness.consumer()
    harness.feed(dead, consumer)
    queue = harness.queue(options=QueueOptions(max_length=1, dead_letter_sink="", dead_letter_key="dead"))
    told: list[str] = []
    publish(dead, b"0")

    def settle_the_last_and_shed_another() -> None:
        publish(queue, b"1", b"2")
        harness.directory.when_idle(lambda: told.append("idle"))
        settle(consumer.batches[0])

    harness.turn(settle_the_last_and_shed_another)
    assert told == []
    settle(consumer.batches[1])
    assert told == ["idle"]


async def test_domain_is_not_idle_while_messages_wait_for_a_queue_that_is_being_restarted(harness: Harness) -> None:
    queue = harness.queue()
    told: list[int] = []

    def crash_and_publish() -> None:
        harness.crash_nowait(queue)
        publish(queue, b"x")
        harness.directory.when_idle(lambda: told.append(queue.backlog.ready))
        assert told == []

    harness.turn(crash_and_publish)
    await queue.ref.wait_running()
    assert told == [1]


async def test_domain_whose_last_busy_queue_is_given_up_is_idle() -> None:
    async with open_harness(max_restarts=1) as harness:
        told: list[None] = []
        queue, consumer = harness.queue(), harness.consumer()
        harness.feed(queue, consumer)
        publish(queue, b"x")
        harness.directory.when_idle(lambda: told.append(None))
        await harness.crash_for_good(queue)
        assert told == [None]


async def test_sessions_have_numbers_of_their_own(harness: Harness) -> None:
    numbers = [harness.new_session().number for _ in range(3)]
    assert numbers == [2, 3, 4]


async def test_fault_of_the_store_concerns_durable_queues_alone() -> None:
    disk = SimulatedDisk(MemoryStore())
    async with open_harness(Directory("domain", persistence=Persistence(disk.journal))) as harness:
        durable, fleeting = harness.queue("q"), harness.queue("f", QueueOptions(durable=False))
        assert harness.directory.fault_of([durable.ref, fleeting.ref]) is None
        fault = DiskFull("full")
        disk.journal.failed(fault)
        assert harness.directory.fault_of([fleeting.ref, durable.ref]) is fault
        assert harness.directory.fault_of([fleeting.ref]) is None
        assert harness.directory.fault_of([]) is None
