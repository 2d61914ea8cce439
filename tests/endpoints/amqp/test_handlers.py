"""What each method does that a client may send on a channel, the default case and the refusals."""

import pytest
import trio
import trio.testing

from endpoints.client import Client
from endpoints.conftest import Connect, counts
from triomq.app import Broker
from triomq.core import DeclareSink, SinkKind, SinkOptions
from triomq.endpoints.amqp.handlers import HANDLERS
from triomq.endpoints.declaring import STANDARD_EXCHANGES
from triomq.protocols.amqp import (
    METHODS,
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
)


def test_every_method_that_a_client_may_send_on_a_channel_has_a_handler() -> None:
    # Publishes come as runs; opening, closing and their answers are the engine's.
    elsewhere = {"basic.publish", "channel.open", "channel.close", "channel.close-ok"}
    asked = {row.method: row.name for row in METHODS if row.class_id != 10 and row.sender != "server"}
    assert {name for method, name in asked.items() if method not in HANDLERS} == elsewhere


async def refused(client: Client, method: Method) -> tuple[int, str]:
    """Send what is refused with a close of the channel, and open the channel again."""
    await client.say(1, method)
    code, text = await client.channel_closed()
    await client.open_channel(1)
    return code, text.split(" - ", 1)[1]


# Exchanges


async def test_exchange_is_declared_found_and_deleted(client: Client, broker: Broker) -> None:
    await client.call(1, ExchangeDeclare("e", "topic", durable=True))
    await client.call(1, ExchangeDeclare("e", "topic", durable=True))
    await client.call(1, ExchangeDeclare("e", passive=True))
    assert broker.sink("e").name == "e"
    await client.call(1, ExchangeDelete("e"))
    await client.call(1, ExchangeDelete("e"))
    assert await refused(client, ExchangeDeclare("e", passive=True)) == (404, "no exchange 'e' in vhost '/'")


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("auto_delete", [False, True])
@pytest.mark.parametrize("name", STANDARD_EXCHANGES)
async def test_standard_exchange_is_found_however_long_it_is_to_live(
    client: Client, broker: Broker, name: str, durable: bool, auto_delete: bool
) -> None:
    kind = STANDARD_EXCHANGES[name].value
    await client.call(1, ExchangeDeclare(name, kind, durable=durable, auto_delete=auto_delete))
    options = broker.directory.sinks[name].options
    assert options.durable
    assert not options.auto_delete


@pytest.mark.parametrize(
    ("method", "option"),
    [
        (ExchangeDeclare("amq.direct", "fanout", auto_delete=True), "type"),
        (ExchangeDeclare("amq.direct", "direct", internal=True), "internal"),
        (ExchangeDeclare("amq.direct", "direct", arguments={"alternate-exchange": "amq.fanout"}), "alternate-exchange"),
        (ExchangeDeclare("amq.of-the-program", "direct", durable=True, auto_delete=True), "auto_delete"),
    ],
)
async def test_properties_in_a_declare_of_a_standard_exchange_must_be_equal(
    client: Client, broker: Broker, method: ExchangeDeclare, option: str
) -> None:
    await broker.domain_ref.ask(DeclareSink("amq.of-the-program", SinkOptions(SinkKind.DIRECT, durable=True)))
    code, text = await refused(client, method)
    assert code == 406
    assert text.startswith(f"inequivalent arg '{option}' for exchange '{method.exchange}' in vhost '/'")


async def test_exchanges_are_bound_to_exchanges_and_unbound(client: Client) -> None:
    await client.call(1, ExchangeDeclare("from", "topic"))
    await client.call(1, ExchangeDeclare("to", "fanout"))
    await client.declare("q")
    await client.call(1, QueueBind("q", "to"))
    await client.call(1, ExchangeBind("to", "from", "a.#"))
    client.publish(1, "from", "a.b", b"through")
    await client.call(1, ExchangeUnbind("to", "from", "a.#"))
    client.publish(1, "from", "a.b", b"nowhere")
    assert (await client.declare("q")).message_count == 1


# Queues


async def test_queue_is_declared_counted_purged_and_deleted(client: Client, broker: Broker) -> None:
    assert await client.declare("q", durable=True) == QueueDeclareOk("q", 0, 0)
    client.publish(1, "", "q", b"1", b"2", b"3")
    assert await client.declare("q", passive=True) == QueueDeclareOk("q", 3, 0)
    assert (await client.call(1, QueuePurge("q"), QueuePurgeOk)).message_count == 3
    client.publish(1, "", "q", b"4")
    assert (await client.call(1, QueueDelete("q"), QueueDeleteOk)).message_count == 1
    assert (await client.call(1, QueueDelete("q"), QueueDeleteOk)).message_count == 0
    assert "q" not in broker.directory.queues


async def test_the_empty_name_is_the_queue_declared_last(client: Client) -> None:
    name = (await client.declare("")).queue
    assert name.startswith("amq.gen-")
    await client.call(1, QueueBind("", "amq.fanout"))
    client.publish(1, "amq.fanout", "", b"x")
    assert (await client.declare(name, passive=True)) == QueueDeclareOk(name, 1, 0)
    assert (await client.get("")).body == b"x"
    await client.call(1, BasicConsume("", consumer_tag="t"))
    await client.call(1, BasicCancel("t"))
    await client.call(1, QueueUnbind("", "amq.fanout"))
    await client.call(1, QueuePurge(""))
    await client.call(1, QueueDelete(""))


async def test_server_named_queue_may_be_declared_again_by_its_name(client: Client) -> None:
    name = (await client.declare("")).queue
    assert (await client.declare(name)).queue == name


async def test_declares_that_differ_are_refused_by_the_first_difference(client: Client) -> None:
    await client.declare("q", durable=True, arguments={"x-max-length": 10, "x-queue-mode": "lazy"})
    code, text = await refused(client, QueueDeclare("q", arguments={"x-max-length": 10, "x-queue-mode": "lazy"}))
    where = "inequivalent arg '{}' for queue 'q' in vhost '/': "
    assert (code, text) == (406, where.format("durable") + "received 'false' but current is 'true'")
    _, text = await refused(
        client, QueueDeclare("q", durable=True, arguments={"x-max-length": 9, "x-queue-mode": "lazy"})
    )
    assert text == where.format("x-max-length") + "received '9' but current is '10'"
    _, text = await refused(client, QueueDeclare("q", durable=True, arguments={"x-max-length": 10}))
    assert text == where.format("x-queue-mode") + "received none but current is the value 'lazy' of type 'longstr'"


async def test_no_wait_means_no_reply(client: Client, broker: Broker) -> None:
    methods: list[Method] = [
        ExchangeDeclare("e", "fanout", no_wait=True),
        ExchangeDeclare("f", "fanout", no_wait=True),
        QueueDeclare("q", no_wait=True),
        QueueBind("q", "e", no_wait=True),
        ExchangeBind("e", "f", no_wait=True),
        ExchangeUnbind("e", "f", no_wait=True),
        ConfirmSelect(no_wait=True),
        BasicConsume("q", consumer_tag="t", no_wait=True),
        BasicCancel("t", no_wait=True),
        QueuePurge("q", no_wait=True),
        ExchangeDelete("f", no_wait=True),
    ]
    await client.say(1, *methods)
    await client.silence()
    assert "q" in broker.directory.queues
    assert "f" not in broker.directory.sinks
    await client.say(1, QueueDelete("q", no_wait=True))
    await client.silence()
    assert "q" not in broker.directory.queues


# Consumers


async def test_consumer_gets_what_is_there_and_what_comes(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"before")
    await client.call(1, BasicConsume("q", consumer_tag="mine"))
    await client.send(1, "", "q", b"after")
    first, second = await client.deliveries(2)
    assert (first.body, first.tag, first.consumer, first.exchange, first.key) == (b"before", 1, "mine", "", "q")
    assert (second.body, second.tag, second.redelivered) == (b"after", 2, False)


async def test_consumer_without_a_tag_is_given_one(client: Client) -> None:
    await client.declare("q")
    tag = (await client.call(1, BasicConsume("q"), BasicConsumeOk)).consumer_tag
    assert tag.startswith("amq.ctag-")
    assert (await client.declare("q")).consumer_count == 1
    assert (await client.call(1, BasicCancel(tag), BasicCancelOk)).consumer_tag == tag
    assert (await client.declare("q")).consumer_count == 0


async def test_the_same_tag_on_another_channel_is_another_consumer(client: Client) -> None:
    await client.declare("q")
    await client.open_channel(2)
    for channel in (1, 2):
        await client.call(channel, BasicConsume("q", consumer_tag="t"))
    await client.send(1, "", "q", b"1", b"2")
    assert {one.channel for one in await client.deliveries(2)} == {1, 2}


async def test_messages_of_a_cancelled_consumer_stay_its_own(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"x")
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    (delivery,) = await client.deliveries(1)
    await client.call(1, BasicCancel("t"))
    client.publish(1, "", "q", b"y")
    assert (await client.declare("q")).message_count == 1
    await client.say(1, BasicAck(delivery.tag))
    await client.silence()


async def test_channel_that_deletes_a_queue_gets_its_answer_before_its_consumers_are_cancelled(client: Client) -> None:
    await client.declare("q")
    await client.open_channel(2)
    for number, tag in ((1, "own"), (2, "other")):
        await client.call(number, BasicConsume("q", consumer_tag=tag))
    await client.say(1, QueueDelete("q"))
    assert (await client.read(BasicCancel, 2)).consumer_tag == "other"
    await client.read(QueueDeleteOk)
    assert (await client.read(BasicCancel)).consumer_tag == "own"
    await client.silence()


async def test_delete_that_is_refused_holds_no_cancel_back(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await client.open_channel(2)
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    await client.say(2, QueueDelete("q", if_unused=True))
    assert (await client.channel_closed(2))[0] == 406
    await broker.queue("q").delete()
    assert (await client.read(BasicCancel)).consumer_tag == "t"


async def test_binding_with_neither_queue_nor_key_is_of_the_last_declared_queue_for_both(client: Client) -> None:
    await client.declare("other")
    await client.declare("q")
    await client.call(1, QueueBind("", "amq.direct", ""))
    client.publish(1, "amq.direct", "q", b"by its name")
    client.publish(1, "amq.direct", "", b"by no key")
    assert (await client.get("q", no_ack=True)).body == b"by its name"
    await client.call(1, QueueUnbind("", "amq.direct", ""))
    await client.call(1, QueueBind("q", "amq.direct", ""))  # a queue by its name keeps the empty key
    client.publish(1, "amq.direct", "q", b"not any more")
    client.publish(1, "amq.direct", "", b"by no key")
    assert (await client.get("q", no_ack=True)).body == b"by no key"
    assert (await client.declare("q")).message_count == 0


async def test_passive_declare_lets_a_queue_live_on(client: Client, broker: Broker) -> None:
    await client.declare("q", arguments={"x-expires": 10_000})
    for _ in range(3):
        await trio.sleep(6)
        await client.declare("q", passive=True)
    await trio.sleep(11)
    assert "q" not in broker.directory.queues


async def test_queue_may_be_declared_again_with_another_time_for_consumers(client: Client, broker: Broker) -> None:
    await client.declare("q", arguments={"x-consumer-timeout": 10_000})
    await client.declare("q", arguments={"x-consumer-timeout": 20_000})
    await client.declare("q")
    assert broker.directory.queues["q"].options.consumer_timeout == 10.0


async def test_consumers_get_a_cancel_when_their_queue_is_deleted(client: Client, connect: Connect) -> None:
    await client.declare("q")
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    other = await connect()
    await other.call(1, QueueDelete("q"))
    assert await client.read(BasicCancel) == BasicCancel("t", no_wait=True)
    await client.declare("q")
    await client.call(1, BasicConsume("q", consumer_tag="t"))


# Get


async def test_get_takes_one_message_and_tells_how_many_are_left(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"1", b"2")
    event = await client.get("q")
    assert (event.body, event.tag) == (b"1", 1)
    await client.say(1, BasicAck(1), BasicGet("q", no_ack=True))
    assert (await client.got()).tag == 2
    await client.call(1, BasicGet("q"), BasicGetEmpty)
    code, text = await refused(client, BasicAck(2))
    assert (code, text) == (406, "unknown delivery tag 2")  # it was settled when it left


# Qos


async def test_prefetch_holds_back_what_is_too_much_for_each_consumer(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=2))
    for tag in ("a", "b"):
        await client.call(1, BasicConsume("q", consumer_tag=tag))
    await client.send(1, "", "q", *[b"x"] * 10)
    out = await client.deliveries(4)
    assert sorted(one.consumer for one in out) == ["a", "a", "b", "b"]
    await client.silence()
    await client.say(1, BasicAck(out[0].tag))
    assert (await client.deliveries(1))[0].consumer == out[0].consumer


async def test_prefetch_for_the_channel_is_shared_by_its_consumers(client: Client) -> None:
    for name in ("q1", "q2"):
        await client.declare(name)
    await client.call(1, BasicQos(prefetch_count=3, global_=True))
    for name in ("q1", "q2"):
        await client.call(1, BasicConsume(name, consumer_tag=name))
    client.publish(1, "", "q1", *[b"x"] * 3)
    await client.send(1, "", "q2", *[b"y"] * 3)
    out = await client.deliveries(3)
    await client.silence()
    await client.say(1, BasicAck(out[0].tag))  # an ack on one queue starts the other
    assert (await client.deliveries(1))[0].consumer == "q2"
    await client.call(1, BasicQos(prefetch_count=0, global_=True))
    await client.deliveries(2)


async def test_prefetch_size_counts_octets_and_lets_one_message_through(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_size=1000))
    await client.call(1, BasicConsume("q"))
    await client.send(1, "", "q", b"x" * 5_000, b"y" * 300, b"z" * 300, b"w" * 900)
    (large,) = await client.deliveries(1)
    await client.silence()
    await client.say(1, BasicAck(large.tag))
    small = await client.deliveries(2)
    assert [one.body[:1] for one in small] == [b"y", b"z"]
    await client.silence()
    await client.say(1, BasicAck(small[1].tag, multiple=True))
    assert (await client.deliveries(1))[0].body[:1] == b"w"


async def test_prefetch_does_not_hold_consumers_that_do_not_ack(client: Client) -> None:
    await client.declare("q")
    await client.call(1, BasicQos(prefetch_count=1))
    await client.call(1, BasicConsume("q", no_ack=True))
    await client.send(1, "", "q", *[b"x"] * 10)
    await client.deliveries(10)


# Settling


async def consume(client: Client, count: int) -> list[int]:
    """Let a consumer have so many messages, and give their tags."""
    await client.declare("q")
    client.publish(1, "", "q", *(bytes([number]) for number in range(count)))
    await client.call(1, BasicConsume("q", consumer_tag="t"))
    return [one.tag for one in await client.deliveries(count)]


async def test_ack_may_mean_all_up_to_a_tag_or_all(client: Client, broker: Broker) -> None:
    tags = await consume(client, 6)
    await client.say(1, BasicAck(tags[4]), BasicAck(tags[2], multiple=True))
    await client.declare("q")
    assert (await broker.queue("q").statistics()).unsettled == 2
    await client.say(1, BasicAck(0, multiple=True), BasicAck(0, multiple=True))
    await client.declare("q")
    assert (await broker.queue("q").statistics()).unsettled == 0


async def test_rejected_message_is_dropped_or_comes_again_marked(client: Client, broker: Broker) -> None:
    tags = await consume(client, 3)
    await client.say(1, BasicReject(tags[0], requeue=False), BasicReject(tags[1], requeue=True))
    (again,) = await client.deliveries(1)
    assert (again.body, again.redelivered, again.tag) == (b"\1", True, 4)
    await client.say(1, BasicNack(0, multiple=True, requeue=False))
    await client.declare("q")
    assert await counts(broker, "q") == (0, 0)


async def test_nack_of_many_puts_them_back_in_their_order(client: Client) -> None:
    tags = await consume(client, 5)
    await client.call(1, BasicCancel("t"))
    await client.say(1, BasicNack(tags[3], multiple=True, requeue=True), BasicAck(tags[4]))
    for number in range(4):
        got = await client.get("q")
        assert (got.body, got.redelivered) == (bytes([number]), True)
    await client.call(1, BasicGet("q"), BasicGetEmpty)


async def test_recover_brings_everything_again(client: Client) -> None:
    await consume(client, 3)
    await client.say(1, BasicRecover(requeue=True))
    # The specification leaves open whether recover-ok comes before what it brings; the replies of a turn go first.
    await client.read(BasicRecoverOk)
    assert [(one.body, one.redelivered) for one in await client.deliveries(3)] == [
        (b"\0", True),
        (b"\1", True),
        (b"\2", True),
    ]
    await client.open_channel(2)
    await client.call(2, BasicConsume("q", consumer_tag="first", arguments={"x-priority": 1}))
    await client.say(1, BasicRecoverAsync(requeue=True))  # to their queue, and so to whoever comes first there
    assert [(one.consumer, one.tag) for one in await client.deliveries(3)] == [("first", 1), ("first", 2), ("first", 3)]


# Flow, confirms, access


@pytest.mark.parametrize("no_ack", [False, True], ids=["acks", "no acks"])
async def test_flow_off_holds_deliveries_and_flow_on_lets_them_go(client: Client, no_ack: bool) -> None:
    for name in ("q1", "q2"):
        await client.declare(name)
        await client.call(1, BasicConsume(name, no_ack=no_ack))
    assert await client.call(1, ChannelFlow(active=False), ChannelFlowOk) == ChannelFlowOk(active=False)
    client.publish(1, "", "q1", *[b"x"] * 5)
    await client.send(1, "", "q2", *[b"y"] * 5)
    await client.silence()
    assert await client.call(1, ChannelFlow(active=True), ChannelFlowOk) == ChannelFlowOk(active=True)
    assert sorted(one.body for one in await client.deliveries(10)) == [b"x"] * 5 + [b"y"] * 5


async def test_answer_to_nothing_does_no_harm(client: Client) -> None:
    await client.say(1, ChannelFlowOk(active=True), BasicCancelOk("t"))
    await client.call(1, BasicQos())


async def test_flow_off_does_not_hold_gets_and_other_channels(client: Client) -> None:
    await client.declare("q")
    await client.call(1, ChannelFlow(active=False))
    await client.open_channel(2)
    await client.call(2, BasicConsume("q"))
    await client.send(1, "", "q", b"1")
    await client.deliveries(1)
    await client.declare("r")
    client.publish(1, "", "r", b"2")
    assert (await client.get("r")).body == b"2"


async def test_confirms_may_be_asked_for_twice_and_count_on(client: Client) -> None:
    await client.declare("q")
    await client.call(1, ConfirmSelect())
    await client.send(1, "", "q", b"1")
    assert (await client.read(BasicAck)).delivery_tag == 1
    await client.call(1, ConfirmSelect())
    await client.send(1, "", "q", b"2")
    assert (await client.read(BasicAck)).delivery_tag == 2


async def test_access_is_granted_to_clients_that_still_ask(client: Client) -> None:
    assert await client.call(1, AccessRequest(), AccessRequestOk) == AccessRequestOk(1)


async def test_sinks_and_queues_of_handles_and_of_clients_are_the_same(client: Client, broker: Broker) -> None:
    shop = await broker.declare_sink("shop", "topic")
    await shop.bind(await broker.declare_queue("orders"), "order.*")
    await client.call(1, ExchangeDeclare("shop", "topic", durable=True))
    await client.declare("orders", durable=True)
    client.publish(1, "shop", "order.new", b"x")
    assert (await client.get("orders")).exchange == "shop"
    await trio.testing.wait_all_tasks_blocked()
