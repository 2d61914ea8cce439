"""Resources of a RestMS server: made, found, deleted, and never answered."""

from pathlib import Path

import pytest
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect, endpoint_of, open_client
from endpoints.restarts import at_home
from triomq.app import Broker, User, open_broker
from triomq.core import SinkKind
from triomq.endpoints import AMQP
from triomq.errors import AccessRefused, LimitExceeded
from triomq.protocols.amqp import (
    ORIGIN_PROPERTY,
    BasicAck,
    BasicQos,
    BasicQosOk,
    ChannelFlow,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
    plain,
)
from triomq.security import Permission


async def peer(broker: Broker, *, origin: str = "") -> Client:
    """Connect as a peer, which may say who it is."""
    said = {"client_properties": {ORIGIN_PROPERTY: origin}} if origin else {}
    client = await open_client(endpoint_of(broker), **said)
    return client


EVERYTHING: list[Method] = [
    RestMSFeedCreate("topic", "prices"),
    RestMSFeedCreate("rotator", "work"),
    RestMSPipeCreate("pipe", "mine"),
    RestMSJoinCreate("mine", "prices", "stock.*"),
]


async def say(client: Client, *methods: Method) -> None:
    """Send methods, and see that the channel is still there behind them."""
    await client.say(1, *methods)
    await client.call(1, ChannelFlow(active=True))


def resources(broker: Broker) -> tuple[set[str], set[str], int]:
    """Name sinks and queues of ours, and count bindings."""
    directory = broker.directory
    sinks = {name for name in directory.sinks if not name.startswith("amq.")}
    bindings = sum(len(sink.bindings) for sink in directory.sinks.values())
    return sinks, set(directory.queues) - {"behind"}, bindings


async def test_feeds_pipes_and_joins_become_sinks_queues_and_bindings(client: Client, broker: Broker) -> None:
    await say(client, *EVERYTHING)
    assert resources(broker) == ({"prices"}, {"work", "mine"}, 1)
    await client.send(1, "prices", "stock.ACME", b"42")
    (delivery,) = await client.deliveries(1)
    assert (delivery.consumer, delivery.exchange, delivery.key, delivery.body) == (
        "x:mine",
        "prices",
        "stock.ACME",
        b"42",
    )


def noted(log: pytest.LogCaptureFixture) -> str:
    """Give all that was noted, with its fields."""
    return "\n".join(f"{record.getMessage()} {getattr(record, 'fields', '')}" for record in log.records)


async def test_all_of_it_may_be_declared_again(client: Client, connect: Connect, broker: Broker) -> None:
    await say(client, *EVERYTHING)
    before = resources(broker), broker.directory.version
    await say(client, *EVERYTHING)
    other = await connect()
    await say(other, *EVERYTHING)
    assert (resources(broker), broker.directory.version) == before


async def test_pipe_s_messages_are_settled_by_its_peer(client: Client, broker: Broker) -> None:
    await client.call(1, BasicQos(prefetch_count=1))
    await say(client, *EVERYTHING)
    await client.send(1, "prices", "stock.a", b"1", b"2")
    (first,) = await client.deliveries(1)
    await client.say(1, BasicAck(first.tag))
    (second,) = await client.deliveries(1)
    assert second.body == b"2"
    await client.leave()
    again = await peer(broker)
    await again.say(1, *EVERYTHING)
    (second,) = await again.deliveries(1)
    assert (second.body, second.redelivered) == (b"2", True)


async def test_pipe_refuses_what_it_has_no_room_for_in_a_broker_without_a_store(
    client: Client, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await say(client, *EVERYTHING)
    await client.leave()
    body = bytes(1_000_000)
    for _ in range(67):
        await broker.publish("", "mine", body)
        await broker.publish("", "work", body)
    with pytest.raises(LimitExceeded):
        await broker.publish("", "mine", body)
    await broker.publish("", "work", body)
    assert broker.directory.queues["mine"].backlog.ready == 67
    assert "queue has no room and refuses messages" in caplog.messages


async def test_pipe_keeps_a_large_backlog_when_its_peer_comes_after_a_restart_and_takes_more(tmp_path: Path) -> None:
    bodies = [b"%03d" % number + bytes(1_000_000) for number in range(81)]
    async with at_home(tmp_path) as home:
        told = await peer(home.broker)
        await told.say(1, RestMSPipeCreate("pipe", "mine"), BasicQos(prefetch_count=1))
        await told.read(BasicQosOk)
        await told.hang_up()
        await home.publish("mine", *bodies[:80])
    async with at_home(tmp_path) as home:
        told = await peer(home.broker)
        await told.say(1, BasicQos(prefetch_count=1))
        await told.read(BasicQosOk)
        await told.say(1, RestMSPipeCreate("pipe", "mine"))
        assert (await told.deliveries(1))[0].body == bodies[0]
        await home.publish("mine", bodies[80])
        await told.hang_up()
        assert await home.drain("mine") == bodies


async def test_pipe_whose_name_makes_no_tag_keeps_its_messages(client: Client, broker: Broker) -> None:
    name = "p" * 254
    await say(client, RestMSPipeCreate("pipe", name))
    await broker.publish("", name, b"1")
    await say(client)
    assert broker.directory.queues[name].backlog.ready == 1


async def test_pipe_takes_from_one_feed_that_is_a_queue(
    client: Client, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    join, other = RestMSJoinCreate("mine", "work", "*"), RestMSJoinCreate("mine", "others", "*")
    await say(client, *EVERYTHING, RestMSFeedCreate("service", "others"), join, join)
    await broker.publish("", "work", b"1")
    (delivery,) = await client.deliveries(1)
    assert (delivery.consumer, delivery.body) == ("q:mine", b"1")
    await say(client, other)
    assert "takes from another feed already" in noted(caplog)
    await say(client, RestMSJoinDelete("mine", "others", "*"), RestMSJoinDelete("mine", "work", "*"), other)
    await broker.publish("", "work", b"2")
    await broker.publish("", "others", b"3")
    assert [delivery.body for delivery in await client.deliveries(1)] == [b"3"]
    assert broker.directory.queues["work"].backlog.ready == 1
    await say(client, RestMSPipeDelete("mine"))
    assert not broker.directory.queues["others"].feeds


async def test_stream_is_no_feed_of_a_pipe(client: Client, broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    await broker.declare_stream("s")
    await say(client, RestMSPipeCreate("pipe", "mine"), RestMSJoinCreate("mine", "s", "*"))
    assert not broker.directory.queues["s"].feeds
    assert "a join of a pipe is not for stream 's', which keeps what was read" in noted(caplog)


@pytest.mark.parametrize("method", [RestMSPipeCreate("pipe", "ours"), RestMSJoinCreate("ours", "work", "*")], ids=str)
async def test_queue_of_our_own_is_not_drained_for_a_peer(
    client: Client, broker: Broker, method: Method, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await broker.declare_queue("ours")
    await say(client, RestMSFeedCreate("rotator", "work"), method)
    assert not broker.directory.queues["ours"].feeds
    assert not broker.directory.queues["work"].feeds
    assert "ours" in noted(caplog)


async def test_resources_of_a_peer_are_protected_from_all_others(
    client: Client, connect: Connect, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await say(client, *EVERYTHING)
    for method in (
        QueueDelete("mine"),
        ExchangeDelete("prices"),
        QueueUnbind("mine", "prices", "stock.*"),
    ):
        other = await connect()
        await other.say(1, method)
        code, text = await other.channel_closed()
        assert code == 403
        assert "'guest@memory'" in text
    with pytest.raises(AccessRefused, match="guest@memory"):
        await broker.queue("mine").delete()
    elsewhere = await peer(broker, origin="elsewhere")
    gone = RestMSPipeDelete("mine"), RestMSFeedDelete("prices"), RestMSJoinDelete("mine", "prices", "stock.*")
    await say(elsewhere, *gone)
    assert resources(broker) == ({"prices"}, {"work", "mine"}, 1)
    assert noted(caplog).count("resource refused") == 3


async def test_peer_comes_back_as_its_origin(client: Client, broker: Broker) -> None:
    first = await peer(broker, origin="there")
    await say(first, *EVERYTHING)
    assert broker.directory.queues["mine"].origin == "guest@there"
    await first.leave()
    again = await peer(broker, origin="there")
    await say(again, RestMSPipeDelete("mine"), RestMSFeedDelete("prices"), RestMSFeedDelete("work"))
    assert resources(broker) == (set(), set(), 0)


async def test_resources_that_were_here_before_are_not_deleted_by_a_peer(client: Client, broker: Broker) -> None:
    await broker.declare_sink("prices", "topic")
    await broker.declare_queue("mine")
    await say(client, *EVERYTHING, RestMSPipeDelete("mine"), RestMSFeedDelete("prices"))
    assert resources(broker) == ({"prices"}, {"work", "mine"}, 0)


async def test_pipe_of_a_name_that_a_client_has_declared_is_refused_and_so_are_its_joins(
    client: Client, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.declare_queue("mine")
    await broker.declare_queue("work")
    await say(client, *EVERYTHING)
    assert noted(caplog).count("was made here and not by 'guest@memory'") == 3  # both queues, and the join
    assert resources(broker)[2] == 0
    await broker.publish("", "mine", b"x")
    assert broker.directory.queues["mine"].backlog.ready == 1


async def test_queue_of_a_name_that_a_peer_has_declared_is_refused_and_an_exchange_of_its_type_is_not(
    client: Client, connect: Connect, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    await say(client, *EVERYTHING)
    other = await connect()
    await other.call(1, ExchangeDeclare("prices", "topic", durable=True))
    await other.call(1, QueueDeclare("mine", passive=True))
    await other.say(1, QueueDeclare("mine", durable=True))
    code, text = await other.channel_closed()
    assert (code, "comes from 'guest@memory'" in text) == (403, True)
    assert "comes from 'guest@memory'" in noted(caplog)
    with pytest.raises(AccessRefused, match="guest@memory"):
        await broker.declare_queue("mine")


async def test_resources_of_a_peer_outlive_its_connection(client: Client, broker: Broker) -> None:
    await say(client, *EVERYTHING)
    await client.leave()
    await trio.testing.wait_all_tasks_blocked()
    assert resources(broker) == ({"prices"}, {"work", "mine"}, 1)


async def test_all_of_it_may_go_again_and_more_than_once(client: Client, broker: Broker) -> None:
    gone: list[Method] = [
        RestMSJoinDelete("mine", "prices", "stock.*"),
        RestMSPipeDelete("mine"),
        RestMSFeedDelete("prices"),
        RestMSFeedDelete("work"),
    ]
    await say(client, *EVERYTHING, *gone, *gone)
    assert resources(broker) == (set(), set(), 0)


@pytest.mark.parametrize("kind", ["fanout", "direct", "topic", "headers"])
async def test_each_type_of_feed_is_a_kind_of_sink(client: Client, broker: Broker, kind: str) -> None:
    await say(client, RestMSFeedCreate(kind, "f"))
    assert broker.directory.sinks["f"].options.kind is SinkKind(kind)


@pytest.mark.parametrize("kind", ["pipe", "fifo", ""])
async def test_pipe_is_called_by_three_names(client: Client, broker: Broker, kind: str) -> None:
    await say(client, RestMSPipeCreate(kind, "p"))
    assert "p" in broker.directory.queues


WRONG: list[Method] = [
    RestMSPipeCreate("stream", "p"),
    RestMSPipeCreate("pipe", ""),
    RestMSPipeCreate("pipe", "amq.p"),
    RestMSPipeCreate("pipe", "locked"),
    RestMSPipeDelete("locked"),
    RestMSPipeDelete("amq.p"),
    RestMSFeedCreate("system", "f"),
    RestMSFeedCreate("topic", "amq.f"),
    RestMSFeedCreate("topic", "amq.direct"),
    RestMSFeedDelete("amq.direct"),
    RestMSFeedDelete(""),
    RestMSFeedDelete("locked"),
    RestMSJoinCreate("missing", "amq.direct", "k"),
    RestMSJoinCreate("missing", "missing", "k"),
    RestMSJoinCreate("locked", "amq.direct", "k"),
    RestMSJoinCreate("missing", "", "missing"),
    RestMSJoinCreate("missing", "locked", "k"),
    RestMSJoinDelete("locked", "", "k"),
]


@pytest.mark.parametrize("method", WRONG, ids=str)
async def test_requests_that_cannot_be_done_are_logged_and_not_answered(
    client: Client, connect: Connect, broker: Broker, method: Method, caplog: pytest.LogCaptureFixture
) -> None:
    other = await connect()
    await other.declare("locked", exclusive=True)
    before = resources(broker)
    await say(client, method)
    assert resources(broker) == before
    assert [record.getMessage() for record in caplog.records if "refused" in record.getMessage()] == [
        "resource refused"
    ]


@pytest.mark.parametrize("method", [*EVERYTHING, RestMSPipeDelete("there"), RestMSFeedDelete("there")], ids=str)
async def test_user_without_rights_makes_and_deletes_nothing(virtual_time: None, method: Method) -> None:
    users = {"null": User(password="null", permissions={"default": Permission("^behind$", "", "")})}
    async with open_broker(AMQP(host="127.0.0.1", port=0), users=users) as broker:
        for name in ("mine", "there"):
            await broker.declare_queue(name)
        if isinstance(method, RestMSJoinCreate):
            await broker.declare_sink("prices", SinkKind.TOPIC)
        before = resources(broker)
        client = await open_client(endpoint_of(broker), login=plain("null", "null"))
        await client.say(1, method)
        await client.say(1, QueueDeclare("behind", exclusive=True))
        await client.next()
        assert resources(broker) == before
