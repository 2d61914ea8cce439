"""The guarded way into the queues: what is refused, when the guards change, and that runs are taken whole."""

from collections.abc import AsyncIterator

import pytest

from core.durable import DurableHarness
from core.harness import Harness, open_harness
from triomq.core import (
    EVERYTHING,
    Bind,
    CachedRoute,
    Comparison,
    Condition,
    Confirms,
    Directory,
    Forbidden,
    Head,
    MemoryAlarm,
    NoSuchSink,
    Pressure,
    Properties,
    Publish,
    Publisher,
    PublishingPaused,
    QueueOptions,
    RoutedRun,
    SinkInternal,
    SinkKind,
    Target,
    Transaction,
    encode_core,
    make_binding,
    make_predicate,
    traits_of,
)
from triomq.core.memory import MESSAGE_OVERHEAD

PERSISTENT = Head(traits=traits_of(persistent=True))
MEMORY_ONLY = QueueOptions(durable=False)


class NotQ:
    """May do everything but publish into ``q``."""

    def may_write(self, name: str, /) -> bool:
        return name != "q"

    def may_read(self, name: str, /) -> bool:
        return True


def publisher(harness: Harness) -> Publisher:
    return Publisher(harness.directory, EVERYTHING, harness.system.turn)


def publish(
    harness: Harness,
    publisher: Publisher,
    route: CachedRoute,
    *contents: bytes,
    head: Head | None = None,
    confirms: Confirms | None = None,
) -> int:
    """Publish a run, in a turn of its own."""
    run = RoutedRun(route, head or Head(), contents, sum(map(len, contents)))
    return harness.turn(lambda: publisher.publish(*run, confirms))


def with_header(name: str) -> bytes:
    """Properties that only a headers sink looks at, all of one length."""
    return encode_core(Properties(headers={name: 1}))


HEADERS_HEAD = Head(
    properties_stop=len(with_header("a")), body_start=len(with_header("a")), traits=traits_of(persistent=True)
)


def by_headers(harness: Harness) -> None:
    """Bind a queue in memory to the header ``a``, a durable one to ``b``, and nothing to others."""
    harness.sink("h", SinkKind.HEADERS)
    harness.queue("transient", MEMORY_ONLY)
    harness.queue("durable")
    harness.bind("h", "transient", arguments={"a": 1})
    harness.bind("h", "durable", arguments={"b": 1})


def has(harness: Harness, name: str) -> int:
    return harness.directory.queues[name].statistics().ready


async def test_publish_returns_how_many_queues_a_run_went_to(harness: Harness) -> None:
    harness.sink("s", SinkKind.FANOUT)
    route, way = CachedRoute("s", "k"), publisher(harness)
    lost: list[bytes] = []
    run = RoutedRun(route, Head(), [b"1"], 1)
    assert harness.turn(lambda: way.publish(*run, unrouted=lambda head, contents: lost.extend(contents))) == 0
    assert lost == [b"1"]
    for name in "ab":
        harness.queue(name)
        harness.bind("s", name)
        harness.bind("s", name, "another")
    assert publish(harness, way, route, b"2", b"3") == 2
    assert (has(harness, "a"), has(harness, "b")) == (2, 2)


async def test_route_that_was_found_stands_until_something_changes(harness: Harness) -> None:
    harness.queue("q")
    route, way = CachedRoute("", "q"), publisher(harness)
    publish(harness, way, route, b"1")
    assert route.version == harness.directory.version
    harness.delete("q")
    assert publish(harness, way, route, b"2") == 0
    harness.queue("q")
    assert publish(harness, way, route, b"3") == 1


async def test_user_who_may_not_publish_is_refused_before_anything_is_looked_up(harness: Harness) -> None:
    way = Publisher(harness.directory, NotQ(), harness.system.turn)
    with pytest.raises(Forbidden) as refused:
        publish(harness, way, CachedRoute("q", ""), b"x")
    assert (refused.value.kind, refused.value.name) == ("sink", "q")
    with pytest.raises(NoSuchSink):
        publish(harness, way, CachedRoute("missing", ""), b"x")


async def test_internal_sink_takes_nothing(harness: Harness) -> None:
    harness.sink("s", SinkKind.FANOUT, internal=True)
    with pytest.raises(SinkInternal):
        publish(harness, publisher(harness), CachedRoute("s", ""), b"x")


async def test_further_keys_lead_a_message_to_each_queue_once(harness: Harness) -> None:
    for name in "abc":
        harness.queue(name)
    assert publish(harness, publisher(harness), CachedRoute("", "a", ("b", "b", "missing")), b"x") == 2
    assert [has(harness, name) for name in "abc"] == [1, 1, 0]


async def test_messages_routed_by_content_keep_their_order_and_their_numbers(harness: Harness) -> None:
    by_headers(harness)
    confirms = Confirms(lambda: None)
    contents = [with_header(name) + body for name, body in (("a", b"1"), ("a", b"2"), ("c", b"3"), ("b", b"4"))]
    assert (
        publish(harness, publisher(harness), CachedRoute("h", ""), *contents, head=HEADERS_HEAD, confirms=confirms) == 1
    )
    assert [entry.message.body for entry in harness.directory.queues["transient"].backlog.entries()] == [b"1", b"2"]
    assert has(harness, "durable") == 1
    assert confirms.take().up_to == 4


def filtered(harness: Harness, *names: str) -> None:
    """Bind a durable queue for each name to the header of that name."""
    harness.sink("f", SinkKind.TOPIC)
    for name in names:
        harness.queue(name)
        predicate = make_predicate([Condition(name, Comparison.PRESENT)])
        harness.domain.ask_nowait(
            Bind(make_binding("f", Target.QUEUE, name, "k", predicate=predicate), harness.session)
        )


def bodies_of(harness: Harness, name: str) -> list[bytes]:
    return [entry.message.body for entry in harness.directory.queues[name].backlog.entries()]


async def test_run_that_is_filtered_into_several_queues_keeps_order_in_each_and_its_numbers(harness: Harness) -> None:
    filtered(harness, "a", "b")
    confirms = Confirms(lambda: None)
    lost: list[bytes] = []
    pattern = "abcabbacab"
    contents = [with_header(name) + b"%d" % number for number, name in enumerate(pattern)]
    run = RoutedRun(CachedRoute("f", "k"), HEADERS_HEAD, contents, sum(map(len, contents)))
    way = publisher(harness)
    assert harness.turn(lambda: way.publish(*run, confirms, lambda head, contents: lost.extend(contents))) == 1
    for name in "ab":
        assert bodies_of(harness, name) == [b"%d" % number for number, one in enumerate(pattern) if one == name]
    assert [content[-1:] for content in lost] == [b"%d" % number for number, one in enumerate(pattern) if one == "c"]
    assert confirms.take().up_to == len(pattern)


async def test_filtered_run_with_a_delay_is_ready_when_that_is_over(harness: Harness) -> None:
    filtered(harness, "a", "b")
    contents = [with_header(name) + b"x" for name in "ab"]
    run = RoutedRun(CachedRoute("f", "k"), HEADERS_HEAD, contents, sum(map(len, contents)))
    way = publisher(harness)
    assert harness.turn(lambda: way.publish(*run, delay=5.0)) == 1
    assert [has(harness, name) for name in "ab"] == [0, 0]


# Memory


@pytest.fixture
async def watched() -> AsyncIterator[Harness]:
    """A domain under a memory alarm that begins at 10,000 octets."""
    async with open_harness(Directory("watched", memory=MemoryAlarm(10_000))) as harness:
        harness.queue("q")
        yield harness


async def test_publish_counts_memory_and_the_budget_of_the_turn(watched: Harness) -> None:
    way, memory = publisher(watched), watched.directory.memory

    def publish_and_look() -> int:
        way.publish(CachedRoute("", "q"), Head(), [b"12", b"3"], 3)
        way.offer(way.admit([RoutedRun(CachedRoute("", "q"), Head(), [b"4"], 1)])[0])
        transaction = Transaction(watched.directory)
        transaction.publish((watched.directory.queues["q"].ref,), Publish(Head(), [b"56"], 2))
        way.commit(transaction)
        return watched.system.turn.spent

    assert watched.turn(publish_and_look) == 4
    assert memory.fresh == 6 + 4 * MESSAGE_OVERHEAD


async def test_alarm_begins_before_the_first_publish_of_a_turn_and_never_within_one(watched: Harness) -> None:
    way, memory, route = publisher(watched), watched.directory.memory, CachedRoute("", "q")
    large = bytes(9 << 20)

    def publish_twice() -> None:
        for _ in range(2):
            way.publish(route, Head(), [large], len(large))

    watched.turn(publish_twice)
    assert not memory.on
    with pytest.raises(PublishingPaused) as paused:
        publish(watched, way, route, b"x")
    assert paused.value.pressure is Pressure.MEMORY
    assert paused.value.queues == (watched.directory.queues["q"].ref,)
    assert memory.on
    assert has(watched, "q") == 2


async def test_alarm_is_not_kept_away_by_other_work_at_the_begin_of_each_turn(watched: Harness) -> None:
    way, route = publisher(watched), CachedRoute("", "q")
    large = bytes(9 << 20)

    def work_and_publish() -> None:
        watched.system.turn.charge(1)
        way.publish(route, Head(), [large], len(large))

    watched.turn(work_and_publish)
    with pytest.raises(PublishingPaused):
        watched.turn(work_and_publish)


async def test_message_that_no_queue_is_bound_for_is_taken_under_any_pressure(watched: Harness) -> None:
    memory = watched.directory.memory
    way = publisher(watched)
    publish(watched, way, CachedRoute("", "q"), bytes(20_000))
    memory.measure()
    assert memory.on
    assert publish(watched, way, CachedRoute("", "missing"), b"x") == 0


async def test_callers_are_called_when_the_alarm_is_over(watched: Harness) -> None:
    memory, way, route = watched.directory.memory, publisher(watched), CachedRoute("", "q")
    publish(watched, way, route, bytes(20_000))
    memory.measure()
    called: list[str] = []
    first, second = (lambda: called.append("first")), (lambda: called.append("second"))
    way.when_open(Pressure.MEMORY, first)
    way.when_open(Pressure.MEMORY, second)
    way.forget(second)
    memory.set_mark(0)
    assert called == ["first"]
    assert publish(watched, way, route, b"x") == 1


# The store


async def test_run_routed_by_content_is_not_taken_if_one_of_its_messages_cannot_be(durable: DurableHarness) -> None:
    by_headers(durable.harness)
    durable.disk.take()
    durable.disk.fail()
    way, route = publisher(durable.harness), CachedRoute("h", "")
    contents = [with_header(name) + b"x" for name in "ab"]
    with pytest.raises(PublishingPaused) as paused:
        publish(durable.harness, way, route, *contents, head=HEADERS_HEAD)
    assert paused.value.pressure is Pressure.DISK
    assert has(durable.harness, "transient") == 0
    durable.disk.recover()
    publish(durable.harness, way, route, *contents, head=HEADERS_HEAD)
    assert (has(durable.harness, "transient"), has(durable.harness, "durable")) == (1, 1)


async def test_several_runs_are_taken_together_or_not_at_all(durable: DurableHarness) -> None:
    durable.harness.queue("transient", MEMORY_ONLY)
    durable.harness.queue("durable")
    durable.disk.take()
    durable.disk.fail()
    way = publisher(durable.harness)
    runs = [RoutedRun(CachedRoute("", name), PERSISTENT, [b"x"], 1) for name in ("transient", "durable")]
    with pytest.raises(PublishingPaused):
        durable.harness.turn(lambda: way.publish_all(runs))
    assert has(durable.harness, "transient") == 0
    assert durable.harness.turn(lambda: way.publish_all(runs[:1])) == 1


async def test_disk_that_fails_keeps_out_what_should_be_on_it_and_nothing_else(durable: DurableHarness) -> None:
    durable.harness.queue("transient", MEMORY_ONLY)
    durable.harness.queue("durable")
    way = publisher(durable.harness)
    route, transient = CachedRoute("", "durable"), CachedRoute("", "transient")
    publish(durable.harness, way, route, b"before", head=PERSISTENT)
    durable.disk.take()
    durable.disk.fail()
    publish(durable.harness, way, transient, b"x", head=PERSISTENT)
    publish(durable.harness, way, route, b"x")
    with pytest.raises(PublishingPaused, match="cannot be written"):
        publish(durable.harness, way, route, b"x", head=PERSISTENT)
    called: list[None] = []
    way.when_open(Pressure.DISK, lambda: called.append(None))
    durable.disk.recover()
    assert called == [None]
    publish(durable.harness, way, route, b"x", head=PERSISTENT)
    assert (has(durable.harness, "durable"), has(durable.harness, "transient")) == (3, 1)


async def test_store_that_is_behind_is_waited_for_from_the_next_turn_on(durable: DurableHarness) -> None:
    durable.harness.queue("q")
    way, route = publisher(durable.harness), CachedRoute("", "q")
    large = bytes(9 << 20)

    def publish_three() -> None:
        for _ in range(3):
            way.publish(route, PERSISTENT, [large], len(large))

    durable.harness.turn(publish_three)
    with pytest.raises(PublishingPaused) as paused:
        publish(durable.harness, way, route, b"x")
    assert paused.value.pressure is Pressure.BEHIND
    called: list[None] = []
    way.when_open(Pressure.BEHIND, lambda: called.append(None))
    durable.disk.work()
    durable.disk.work()
    assert called == [None]
    assert publish(durable.harness, way, route, b"x") == 1
