"""What a broker tells about itself."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec
import pytest
import trio

from endpoints.client import Client
from endpoints.conftest import Connect, crash, knock_out, only_connection, queue_ref
from triomq.app import Broker
from triomq.core import (
    DeclareQueue,
    NoSuchQueue,
    NoSuchSink,
    Policy,
    PolicyOptions,
    Properties,
    QueueOptions,
    SetPosition,
    StreamOptions,
)
from triomq.endpoints import AMQPEndpoint
from triomq.endpoints.content import REPLY_TO
from triomq.endpoints.management.inspector import BrokerInspector, DomainInspector
from triomq.endpoints.management.paging import Paged
from triomq.protocols.amqp import BasicConsume, QueueDeclareOk
from triomq.protocols.control import (
    BrowseQueue,
    GetTotals,
    ListBindings,
    ListConnections,
    ListQueues,
    ListSinks,
    ShowTree,
)

T = TypeVar("T")


@pytest.fixture
def domain(client: Client, endpoint: AMQPEndpoint, broker: Broker) -> DomainInspector:
    """Look into the domain as the client may."""
    connection = only_connection(endpoint)
    return DomainInspector(
        broker.context,
        broker.directory,
        connection.session,
        connection.ref,
        browse=connection.ask,
        properties=lambda message: b"\0\0",
        room=10_000,
    )


@pytest.fixture
def whole(client: Client, endpoint: AMQPEndpoint, broker: Broker) -> BrokerInspector:
    """Look at the whole broker."""
    return BrokerInspector(broker.context, only_connection(endpoint).ref)


def records(entries: Iterable[Paged[T]]) -> list[T]:
    return [entry.record for entry in entries]


def names(entries: Iterable[Paged[object]]) -> list[object]:
    return [entry.record.name for entry in entries]


# Queues


async def test_queue_is_listed_with_options_and_counts(broker: Broker, domain: DomainInspector) -> None:
    await broker.declare_queue("q", max_length=3, overflow="reject-publish", durable=False)
    for body in (b"a", b"bc"):
        await broker.publish("", "q", body)
    (queue,) = records(domain.list_queues(ListQueues()))
    assert (queue.name, queue.state, queue.restarts) == ("q", "running", 0)
    assert (queue.ready, queue.ready_bytes, queue.unsettled, queue.feeds) == (2, 3, 0, 0)
    assert (queue.published, queue.delivered, queue.dropped) == (2, 0, 0)
    assert (queue.expired, queue.rejected, queue.exhausted, queue.dead_lettered) == (0, 0, 0, 0)
    assert (queue.max_length, queue.overflow, queue.durable, queue.exclusive) == (3, "reject-publish", False, False)


async def test_stream_is_listed_with_its_bounds_and_what_its_groups_have_not_read(
    broker: Broker, domain: DomainInspector, whole: BrokerInspector
) -> None:
    options = QueueOptions(stream=StreamOptions())
    state = broker.domain_ref.ask_nowait(DeclareQueue("s", options, broker.session))
    for body in (b"a", b"bc"):
        await broker.publish("", "s", body)
    state.ref.ask_nowait(SetPosition("audit", 1))
    (entry,) = domain.list_queues(ListQueues())
    stream = entry.record.stream
    assert stream is not None
    assert (entry.record.kind, entry.record.ready) == ("stream", 2)
    assert (stream.first, stream.next, stream.segments, stream.lags) == (0, 2, 1, {"audit": 1})
    assert entry.shorten is not None
    shorter = entry.shorten(entry.record, 0).stream
    assert shorter is not None
    assert (shorter.next, shorter.lags) == (2, None)
    assert whole.get_totals(GetTotals()).ready == 0  # they wait for nobody


async def test_name_for_direct_replies_is_shown_without_its_secret_part(
    broker: Broker, client: Client, domain: DomainInspector, whole: BrokerInspector
) -> None:
    for channel in (1, 2):
        if channel > 1:
            await client.open_channel(channel)
        await client.call(channel, BasicConsume(REPLY_TO, no_ack=True))
    secrets = [name.removeprefix(f"{REPLY_TO}.") for name in broker.directory.queues]
    shown = [str(name) for name in names(domain.list_queues(ListQueues()))]
    paths = [record.path for record in records(whole.show_tree(ShowTree()))]
    assert len(set(shown)) == 2
    assert all(name.startswith(f"{REPLY_TO}.") for name in shown)
    assert not [secret for secret in secrets for text in (*shown, *paths) if secret in text]
    guess = ListQueues(pattern=f"{REPLY_TO}.{secrets[0][:1]}*{secrets[0][-1:]}")
    assert not records(domain.list_queues(guess))
    (later,) = names(domain.list_queues(ListQueues(after=shown[0])))
    assert later == shown[1]


async def test_consumer_shows_in_its_queue(broker: Broker, client: Client, domain: DomainInspector) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    await broker.publish("", "q", b"a")
    (queue,) = records(domain.list_queues(ListQueues()))
    assert (queue.ready, queue.unsettled, queue.feeds, queue.delivered) == (0, 1, 1, 1)


async def test_queues_come_by_name_and_by_pattern(broker: Broker, domain: DomainInspector) -> None:
    for name in ("mail.b", "mail.a", "x", "Mail.c"):
        await broker.declare_queue(name)
    assert names(domain.list_queues(ListQueues())) == ["Mail.c", "mail.a", "mail.b", "x"]
    assert names(domain.list_queues(ListQueues("mail.*"))) == ["mail.a", "mail.b"]
    assert names(domain.list_queues(ListQueues(after="mail.a"))) == ["mail.b", "x"]


async def test_the_fullest_queues_come_first_if_asked(broker: Broker, domain: DomainInspector) -> None:
    for name, count in (("a", 1), ("b", 3), ("c", 2)):
        await broker.declare_queue(name)
        for _ in range(count):
            await broker.publish("", name, b"")
    found = list(domain.list_queues(ListQueues(order="ready", limit=2)))
    assert names(found) == ["b", "c"]
    assert [entry.cursor for entry in found] == [None, None]


async def test_stream_is_as_full_as_it_has_records(broker: Broker, domain: DomainInspector) -> None:
    await broker.declare_queue("q")
    await broker.declare_stream("s")
    for name in ("q", "s", "s"):
        await broker.publish("", name, b"")
    assert names(domain.list_queues(ListQueues(order="ready"))) == ["s", "q"]


async def test_queue_in_trouble_says_so(broker: Broker, domain: DomainInspector) -> None:
    await broker.declare_queue("q")
    await knock_out(broker, "q")
    (queue,) = records(domain.list_queues(ListQueues()))
    assert (queue.state, queue.restarts) == ("backing_off", 1)


async def test_name_that_is_no_utf8_can_be_shown(client: Client, domain: DomainInspector) -> None:
    await client.declare("a\udcff")
    assert names(domain.list_queues(ListQueues())) == [r"a\xff"]


# Sinks and bindings


async def test_sinks_are_listed(broker: Broker, domain: DomainInspector) -> None:
    sink = await broker.declare_sink("shop", "topic", auto_delete=True, durable=False)
    await sink.bind(await broker.declare_queue("q"), "order.*")
    (shop,) = records(domain.list_sinks(ListSinks("s*")))
    assert msgspec.structs.astuple(shop) == ("shop", "topic", "running", 1, False, True, False, None, None, None)
    assert "amq.direct" in names(domain.list_sinks(ListSinks()))


async def test_policies_show_and_what_holds_under_them(broker: Broker, domain: DomainInspector) -> None:
    await broker.declare_queue("q", max_length=10)
    await broker.declare_sink("s")
    await broker.set_policies([Policy("limits", "^(q|s)$", PolicyOptions(max_length=5, alternate="lost"))])
    (queue,) = records(domain.list_queues(ListQueues()))
    assert (queue.policy, queue.max_length) == ("limits", 5)
    (sink,) = records(domain.list_sinks(ListSinks("s")))
    assert (sink.policy, sink.alternate) == ("limits", "lost")


async def test_bindings_are_listed_for_one_sink_or_for_all(broker: Broker, domain: DomainInspector) -> None:
    queue = await broker.declare_queue("q")
    for name in ("one", "two"):
        await (await broker.declare_sink(name)).bind(queue, "k")
    every = records(domain.list_bindings(ListBindings()))
    assert [(binding.source, binding.target, binding.destination, binding.key) for binding in every] == [
        ("one", "queue", "q", "k"),
        ("two", "queue", "q", "k"),
    ]
    assert records(domain.list_bindings(ListBindings("two"))) == every[1:]
    assert records(domain.list_bindings(ListBindings(after=1))) == every[1:]
    with pytest.raises(NoSuchSink):
        records(domain.list_bindings(ListBindings("three")))


async def test_arguments_that_are_too_long_are_left_out(broker: Broker, domain: DomainInspector) -> None:
    sink = await broker.declare_sink("h", "headers")
    await sink.bind(await broker.declare_queue("q"), arguments={"x-match": "all", "n": 1})
    ((entry),) = domain.list_bindings(ListBindings("h"))
    assert entry.record.arguments == {"x-match": "all", "n": 1}
    assert entry.shorten is not None
    assert entry.shorten(entry.record, 1).arguments is None


# Messages


async def test_messages_are_shown_in_order_and_stay(broker: Broker, domain: DomainInspector) -> None:
    await broker.declare_queue("q")
    for body in (b"a", b"b", b"c"):
        await broker.publish("", "q", body)
    assert [(message.id, message.body) for message in records(domain.browse(BrowseQueue("q", after=1)))] == [
        (2, b"b"),
        (3, b"c"),
    ]
    (queue,) = records(domain.list_queues(ListQueues()))
    assert (queue.ready, queue.delivered) == (3, 0)


async def test_body_is_cut_where_one_asks(broker: Broker, domain: DomainInspector) -> None:
    await broker.declare_queue("q")
    await broker.publish("", "q", b"abcdef")
    (message,) = records(domain.browse(BrowseQueue("q", body=2)))
    assert (message.body, message.size, message.redelivered) == (b"ab", 6, False)


async def test_message_that_came_back_is_marked(broker: Broker, domain: DomainInspector) -> None:
    queue = await broker.declare_queue("q")
    await broker.publish("", "q", b"a")
    async with queue.open_feed() as feed:
        await anext(aiter(feed))  # and back with it, for the feed closes
    (message,) = records(domain.browse(BrowseQueue("q")))
    assert (message.id, message.redelivered, message.attempts) == (1, True, 1)


async def test_browsing_looks_for_the_queue(domain: DomainInspector) -> None:
    with pytest.raises(NoSuchQueue):
        records(domain.browse(BrowseQueue("nope")))


async def test_queue_with_priorities_is_shown_by_id_so_that_pages_miss_nothing(
    broker: Broker, client: Client, domain: DomainInspector
) -> None:
    declared = await client.declare("q", arguments={"x-max-priority": 5})
    assert isinstance(declared, QueueDeclareOk)
    for priority in (1, 5, 3):
        await broker.publish("", "q", b"%d" % priority, Properties(priority=priority))
    assert [message.id for message in records(domain.browse(BrowseQueue("q")))] == [1, 2, 3]


# Connections


async def test_connections_are_listed(client: Client, connect: Connect, domain: DomainInspector) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    await trio.sleep(5)
    await (await connect()).open_channel(2)
    first, second = records(domain.list_connections(ListConnections()))
    assert (first.peer, first.user, first.virtual_host, first.channels, first.consumers) == (
        "memory",
        "guest",
        "/",
        1,
        1,
    )
    assert first.age >= 5
    assert (second.channels, second.consumers, second.age < first.age) == (2, 0, True)
    assert records(domain.list_connections(ListConnections(after=2))) == []


# The whole broker


async def test_the_tree_shows_parents_first(broker: Broker, whole: BrokerInspector) -> None:
    await broker.declare_queue("q")
    found = records(whole.show_tree(ShowTree()))
    paths = [actor.path for actor in found]
    assert paths[:2] == ["/", "/broker"]
    assert queue_ref(broker, "q").path in paths
    assert paths == [node.path for node in broker.system.tree().walk()]
    assert records(whole.show_tree(ShowTree(after=2))) == found[2:]


async def test_of_many_children_the_troubled_are_shown_first(broker: Broker, whole: BrokerInspector) -> None:
    for number in range(9):
        await broker.declare_queue(f"q{number}")
    await knock_out(broker, "q8")
    found = records(whole.show_tree(ShowTree(children=1)))
    (queue,) = [actor for actor in found if "queue." in actor.path]
    assert (queue.path, queue.state, queue.restarts) == (queue_ref(broker, "q8").path, "backing_off", 1)
    (parent,) = [actor for actor in found if actor.path == queue.path.rpartition("/")[0]]
    assert parent.children >= 9


async def test_totals_add_up(broker: Broker, client: Client, whole: BrokerInspector) -> None:
    before = whole.get_totals(GetTotals())
    await client.declare("q")
    await client.call(1, BasicConsume("q"))
    await broker.declare_queue("p")
    for name in ("q", "p", "p"):
        await broker.publish("", name, b"")
    await trio.sleep(7)
    after = whole.get_totals(GetTotals())
    assert (after.queues, after.connections, after.consumers) == (2, 1, 1)
    assert (after.ready, after.unsettled, after.published, after.delivered) == (2, 1, 3, 1)
    assert after.uptime - before.uptime == pytest.approx(7)
    assert (after.sinks, after.version) == (before.sinks, before.version)


async def test_crash_is_counted(broker: Broker, whole: BrokerInspector) -> None:
    await broker.declare_queue("q")
    crash(broker, "q")
    await queue_ref(broker, "q").wait_running()
    (queue,) = [actor for actor in records(whole.show_tree(ShowTree())) if actor.path.endswith("queue.q")]
    assert (queue.state, queue.restarts) == ("running", 1)
