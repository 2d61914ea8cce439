"""What users may do, by every method there is; texts are those of RabbitMQ 3.10."""

from collections.abc import AsyncIterator

import pytest

from endpoints.client import Client
from endpoints.conftest import dial, endpoint_of, open_client
from triomq.app import Broker, User, open_broker
from triomq.core import SinkKind
from triomq.endpoints import AMQP
from triomq.endpoints.amqp.handlers import HANDLERS
from triomq.endpoints.amqp.permissions import NEEDS, guarded
from triomq.protocols import NO_PROPERTIES
from triomq.protocols.amqp import (
    BROKER_METHODS,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ControlRequest,
    ControlResponse,
    DirectGet,
    DirectPut,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxSelect,
    plain,
)
from triomq.protocols.control import BrowseQueue, ListQueues, encode
from triomq.security import ALL, Permission

USERS = {
    "boss": User(password="boss", permissions={"*": ALL}, tags=("administrator",)),
    "watcher": User(password="watcher", permissions={"*": Permission()}, tags=("monitoring",)),
    "none": User(password="none", permissions={}),
    "null": User(password="null", permissions={"default": Permission()}),
    "part": User(password="part", permissions={"default": Permission(r"^p\.", r"^p\.", r"^p\.")}),
    "amq": User(password="amq", permissions={"default": Permission(".*", "^amq", ".*")}),
    "reader": User(password="reader", permissions={"default": Permission("", "", ".*")}),
    "writer": User(password="writer", permissions={"default": Permission("", ".*", "")}),
}


@pytest.fixture
async def broker(virtual_time: None) -> AsyncIterator[Broker]:
    async with open_broker(AMQP(host="127.0.0.1", port=0), users=USERS) as broker:
        for queue in ("q", "p.q"):
            await broker.declare_queue(queue)
        for sink in ("e", "p.e"):
            await broker.declare_sink(sink, SinkKind.TOPIC)
        yield broker


async def enter(broker: Broker, name: str) -> Client:
    client = await open_client(endpoint_of(broker), login=plain(name, name))
    return client


def refused(kind: str, name: str, user: str) -> tuple[int, str]:
    return 403, f"ACCESS_REFUSED - access to {kind} '{name}' in vhost '/' refused for user '{user}'"


# Every method


def sent_by_clients() -> set[type[Method]]:
    """Give all methods that a client may send on a channel that is open."""
    rows = [row for row in BROKER_METHODS.by_type.values() if row.row.sender in ("client", "both")]
    return {row.row.method for row in rows if row.row.class_id != 10} - {ChannelOpen, ChannelClose, ChannelCloseOk}


def test_every_method_that_a_client_may_send_has_a_row() -> None:
    assert sent_by_clients() == set(NEEDS)


def test_method_without_a_row_cannot_have_a_handler() -> None:
    with pytest.raises(KeyError):
        guarded({ChannelOpen: lambda channel, method: None})


def test_methods_that_need_rights_have_a_handler_that_asks() -> None:
    for method, handler in HANDLERS.items():
        asks = handler.__name__ == "guarded_handler"
        assert asks is callable(NEEDS[method]), method


REFUSED: list[tuple[Method, str, str]] = [
    (BasicConsume("q"), "queue", "q"),
    (BasicConsume("missing"), "queue", "missing"),
    (BasicGet("q"), "queue", "q"),
    (BasicGet("missing"), "queue", "missing"),
    (BasicPublish("e", "k"), "exchange", "e"),
    (BasicPublish("missing", "k"), "exchange", "missing"),
    (BasicPublish("", "q"), "exchange", "amq.default"),
    (DirectGet("q"), "queue", "q"),
    (DirectGet("missing"), "queue", "missing"),
    (DirectPut("e"), "exchange", "e"),
    (DirectPut("missing"), "exchange", "missing"),
    (DirectPut(""), "exchange", "amq.default"),
    (ExchangeBind("e", "amq.topic", "k"), "exchange", "e"),
    (ExchangeBind("", "e", "k"), "exchange", "amq.default"),
    (ExchangeUnbind("e", "amq.topic", "k"), "exchange", "e"),
    (ExchangeDeclare("new"), "exchange", "new"),
    (ExchangeDeclare("e", "topic"), "exchange", "e"),
    (ExchangeDeclare("amq.x"), "exchange", "amq.x"),
    (ExchangeDelete("e"), "exchange", "e"),
    (ExchangeDelete("missing"), "exchange", "missing"),
    (QueueBind("q", "amq.topic", "k"), "queue", "q"),
    (QueueBind("missing", "amq.topic", "k"), "queue", "missing"),
    (QueueBind("q", "", "k"), "queue", "q"),
    (QueueDeclare("new"), "queue", "new"),
    (QueueDeclare("q"), "queue", "q"),
    (QueueDeclare("new", arguments={"x-message-ttl": -1}), "queue", "new"),
    (QueueDelete("q"), "queue", "q"),
    (QueueDelete("missing"), "queue", "missing"),
    (QueuePurge("q"), "queue", "q"),
    (QueueUnbind("q", "amq.topic", "k"), "queue", "q"),
]


def send(client: Client, method: Method) -> None:
    if isinstance(method, BasicPublish):
        client.engine.send_content(1, method, NO_PROPERTIES, b"body")
    else:
        client.engine.send_method(1, method)


def test_every_method_that_needs_something_is_tried() -> None:
    asking = {method for method, need in NEEDS.items() if callable(need)} | {QueueDeclare, BasicPublish}
    assert asking == {type(method) for method, _, _ in REFUSED} | {ControlRequest}


@pytest.mark.parametrize("who", ["null", "watcher", "part"])
@pytest.mark.parametrize(("method", "kind", "name"), REFUSED, ids=lambda value: str(value)[:40])
async def test_without_rights_no_method_leads_anywhere(
    broker: Broker, who: str, method: Method, kind: str, name: str
) -> None:
    before = sorted(broker.directory.queues), sorted(broker.directory.sinks), broker.directory.version
    client = await enter(broker, who)
    send(client, method)
    await client.flush()
    assert await client.channel_closed() == refused(kind, name, who)
    await client.open_channel()
    assert (sorted(broker.directory.queues), sorted(broker.directory.sinks), broker.directory.version) == before


@pytest.mark.parametrize("tx", [False, True])
async def test_publish_that_is_refused_goes_nowhere(broker: Broker, tx: bool) -> None:
    client = await enter(broker, "part")
    if tx:
        await client.call(1, TxSelect())
    await client.send(1, "", "q", b"body")
    assert await client.channel_closed() == refused("exchange", "amq.default", "part")
    assert (await broker.queue("q").statistics()).ready == 0


async def test_route_that_is_known_is_no_way_around(broker: Broker) -> None:
    client = await enter(broker, "part")
    client.publish(1, "p.e", "k", b"a", b"b")
    await client.send(1, "e", "k", b"c")
    assert await client.channel_closed() == refused("exchange", "e", "part")


# What rights allow


async def test_rights_by_pattern_allow_what_they_fit(broker: Broker) -> None:
    client = await enter(broker, "part")
    await client.declare("p.new")
    await client.call(1, ExchangeDeclare("p.sink"))
    await client.call(1, QueueBind("p.new", "p.sink", "k"))
    await client.call(1, ConfirmSelect())
    await client.send(1, "p.sink", "k", b"body")
    await client.read(BasicAck)
    await client.call(1, BasicConsume("p.new"))
    await client.deliveries(1)
    await client.say(1, QueueDelete("p.new"))
    await client.read(QueueDeleteOk)
    await client.read(BasicCancel)


async def test_to_look_whether_something_exists_needs_no_right(broker: Broker) -> None:
    client = await enter(broker, "null")
    await client.call(1, ExchangeDeclare("e", passive=True))
    await client.call(1, QueueDeclare("q", passive=True))


async def test_queue_that_the_broker_names_is_named_before_it_is_asked_for(broker: Broker) -> None:
    client = await enter(broker, "null")
    await client.say(1, QueueDeclare(""))
    code, text = await client.channel_closed()
    assert code == 403
    assert text.startswith("ACCESS_REFUSED - access to queue 'amq.gen-")
    other = await enter(broker, "boss")
    assert (await other.declare("")).queue.startswith("amq.gen-")


async def test_direct_replies_need_no_right_but_to_publish(broker: Broker) -> None:
    client = await enter(broker, "null")
    await client.call(1, BasicConsume("amq.rabbitmq.reply-to", no_ack=True))


@pytest.mark.parametrize(
    ("method", "kind", "name"),
    [
        (ExchangeBind("p.e", "e", "k"), "exchange", "e"),
        (QueueBind("p.q", "e", "k"), "exchange", "e"),
        (QueueUnbind("p.q", "e", "k"), "exchange", "e"),
        (ExchangeDeclare("p.new", arguments={"alternate-exchange": "ae"}), "exchange", "ae"),
        (QueueDeclare("p.new", arguments={"x-dead-letter-exchange": "dlx"}), "exchange", "dlx"),
        (QueueDeclare("p.new", arguments={"x-dead-letter-exchange": ""}), "exchange", "amq.default"),
    ],
    ids=str,
)
async def test_both_ends_are_asked_for(broker: Broker, method: Method, kind: str, name: str) -> None:
    client = await enter(broker, "part")
    await client.say(1, method)
    assert await client.channel_closed() == refused(kind, name, "part")


async def test_to_declare_again_what_exists_asks_for_its_own_name_alone(broker: Broker) -> None:
    await broker.declare_queue("p.letters", durable=False, dead_letter_sink="dlx")
    client = await enter(broker, "part")
    await client.declare("p.letters", arguments={"x-dead-letter-exchange": "dlx"})


@pytest.mark.parametrize(
    ("who", "method", "text"),
    [
        ("null", ExchangeDeclare(""), "operation not permitted on the default exchange"),
        ("null", ExchangeDelete(""), "operation not permitted on the default exchange"),
        ("null", ExchangeDelete("amq.topic"), "deletion of system exchange 'amq.topic' in vhost '/' not allowed"),
        ("null", QueueDeclare("amq.x"), "queue name 'amq.x' contains reserved prefix 'amq.*'"),
        ("amq", ExchangeBind("", "e", "k"), "operation not permitted on the default exchange"),
        ("amq", ExchangeBind("amq.topic", "", "k"), "operation not permitted on the default exchange"),
        ("boss", QueueBind("q", "", "k"), "operation not permitted on the default exchange"),
    ],
    ids=str,
)
async def test_method_that_is_refused_to_all_is_refused_for_what_it_is(
    broker: Broker, who: str, method: Method, text: str
) -> None:
    client = await enter(broker, who)
    await client.say(1, method)
    assert await client.channel_closed() == (403, f"ACCESS_REFUSED - {text}")


async def test_the_last_queue_is_meant_where_none_is_named(broker: Broker) -> None:
    client = await enter(broker, "null")
    await client.call(1, QueueDeclare("q", passive=True))
    await client.say(1, BasicGet(""))
    assert await client.channel_closed() == refused("queue", "q", "null")
    await client.open_channel()
    await client.say(1, QueuePurge(""))
    assert await client.channel_closed() == (404, "NOT_FOUND - no previously declared queue")


async def test_reading_and_writing_are_apart(broker: Broker) -> None:
    reader, writer = await enter(broker, "reader"), await enter(broker, "writer")
    await reader.call(1, BasicGet("q"), BasicGetEmpty)
    await writer.call(1, TxSelect())
    await writer.send(1, "", "q", b"body")
    await writer.call(1, TxCommit())
    assert (await broker.queue("q").statistics()).ready == 1
    await writer.say(1, BasicGet("q"))
    assert await writer.channel_closed() == refused("queue", "q", "writer")


# Virtual hosts


async def test_virtual_host_without_an_entry_lets_no_user_in(broker: Broker) -> None:
    client = dial(endpoint_of(broker), login=plain("none", "none"))
    await client.flush()
    events = [await client.next(), await client.next()]
    assert (events[1].code, events[1].text) == (  # type: ignore[union-attr]
        530,
        "NOT_ALLOWED - access to vhost '/' refused for user 'none'",
    )


# Looking into the broker


async def test_monitoring_user_may_not_read_messages(broker: Broker) -> None:
    client = await enter(broker, "watcher")
    await client.call(1, ControlRequest("queues", encode(ListQueues())), ControlResponse)
    await client.say(1, ControlRequest("browse", encode(BrowseQueue("q"))))
    assert await client.channel_closed() == refused("queue", "q", "watcher")


@pytest.mark.parametrize("who", ["reader", "writer", "part", "null"])
async def test_to_look_into_the_broker_needs_a_tag(broker: Broker, who: str) -> None:
    client = await enter(broker, who)
    await client.say(1, ControlRequest("queues", b"{}"))
    code, text = await client.channel_closed()
    assert code == 403
    assert text.startswith(f"ACCESS_REFUSED - operation 'queues' refused for user '{who}'")
