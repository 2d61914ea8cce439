"""Each feature of a broker once, with pika's blocking connection.

How RabbitMQ and triomq behave in detail is asked by ``test_differences``, with single frames; here a client that many
use shows that it can use what it finds.
"""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from peers.conftest import Connect, wait_until
from peers.pika_client import Consumer, count, declare, drain, publish

NUMBERS = [str(number).encode() for number in range(10)]


@pytest.fixture
def filled(channel: BlockingChannel, shared_queue: str) -> str:
    """A queue that holds ten messages."""
    channel.confirm_delivery()
    publish(channel, shared_queue, *NUMBERS)
    return shared_queue


# Messages


def test_properties_arrive_intact(channel: BlockingChannel, queue: str) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"a": 1, "b": "two", "c": [1, "x", {"d": True}], "e": None},
        delivery_mode=2,
        priority=3,
        correlation_id="correlation",
        reply_to="reply",
        expiration="600000",
        message_id="message",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="application",
        cluster_id="cluster",
    )
    channel.basic_publish("", queue, b"body", sent)
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (method.routing_key, method.exchange, method.redelivered, body) == (queue, "", False, b"body")
    assert vars(properties) == vars(sent)


def test_gets_count_down_in_order(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *NUMBERS)
    found = [channel.basic_get(queue, auto_ack=True) for _ in NUMBERS]
    assert [body for _, _, body in found] == NUMBERS
    assert [method.message_count for method, _, _ in found] == list(range(9, -1, -1))
    assert channel.basic_get(queue) == (None, None, None)


@pytest.mark.parametrize("size", [0, 131_064, 131_065, 20_000_000])
def test_body_of_any_size_passes_both_ways(channel: BlockingChannel, queue: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    publish(channel, queue, body, b"behind")
    assert drain(channel, queue) == [body, b"behind"]


# Queues


def test_queue_is_declared_purged_and_deleted(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.confirm_delivery()  # RabbitMQ counts past publishes that it has not confirmed
    channel.queue_declare(name)
    publish(channel, name, b"1", b"2", b"3")
    channel.basic_get(name)
    declared = channel.queue_declare(name).method
    assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 2, 0)
    assert channel.queue_purge(name).method.message_count == 2
    publish(channel, name, b"4")
    assert channel.queue_delete(name).method.message_count == 1
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_exclusive_queue_is_locked_for_others_and_ends_with_its_connection(connect: Connect, name: str) -> None:
    owner, other = connect(), connect()
    owner.channel().queue_declare(name, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        other.channel().basic_get(name)
    assert caught.value.reply_code == 405
    owner.close()
    with pytest.raises(ChannelClosedByBroker) as caught:
        other.channel().queue_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_auto_delete_queue_ends_with_its_last_consumer(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, auto_delete=True)
    tags = [channel.basic_consume(name, lambda *_: None) for _ in range(2)]
    channel.basic_cancel(tags[0])
    assert channel.queue_declare(name, passive=True).method.consumer_count == 1
    channel.basic_cancel(tags[1])
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_full_queue_drops_its_oldest_messages(channel: BlockingChannel) -> None:
    queue = declare(channel, max_length=3)
    publish(channel, queue, *NUMBERS)
    assert drain(channel, queue) == NUMBERS[7:]


def test_priority_queue_delivers_the_most_urgent_first(channel: BlockingChannel) -> None:
    queue = declare(channel, max_priority=5)
    for number, priority in enumerate((1, 5, None, 3, 5)):
        channel.basic_publish("", queue, str(number).encode(), pika.BasicProperties(priority=priority))
    assert drain(channel, queue) == [b"1", b"4", b"3", b"0", b"2"]


def test_unused_queue_expires(connect: Connect, name: str) -> None:
    channel = connect().channel()
    channel.queue_declare(name, arguments={"x-expires": 200})
    channel.confirm_delivery()

    def is_gone() -> bool:
        try:
            channel.basic_publish("", name, b"x", mandatory=True)  # a passive declare would be a use, this is none
        except UnroutableError:
            return True
        return False

    assert not is_gone()
    wait_until(channel.connection, is_gone, "the end of the queue")


# Consumers


def test_consumer_gets_waiting_and_new_messages(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"waits")
    consumer = Consumer(channel, queue, auto_ack=True, consumer_tag="mine").wait_for(1)
    publish(channel, queue, b"comes")
    assert consumer.wait_for(2).bodies == [b"waits", b"comes"]
    assert [(method.delivery_tag, method.consumer_tag) for method in consumer.methods] == [(1, "mine"), (2, "mine")]


@pytest.mark.parametrize("for_all", [False, True])
def test_prefetch_limit_holds_back_the_rest(connect: Connect, filled: str, for_all: bool) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=3, global_qos=for_all)
    consumer = Consumer(channel, filled).wait_for(3)
    assert count(channel, filled) == 7
    channel.basic_ack(1)
    consumer.wait_for(4)
    assert count(channel, filled) == 6
    assert consumer.bodies == NUMBERS[:4]


def test_acknowledged_messages_are_gone(connect: Connect, filled: str) -> None:
    connection = connect()
    channel = connection.channel()
    Consumer(channel, filled).wait_for(10)
    channel.basic_ack(3)
    channel.basic_ack(7, multiple=True)
    channel.basic_reject(10, requeue=False)
    connection.close()
    assert drain(connect().channel(), filled) == NUMBERS[7:9]


@pytest.mark.parametrize("way", ["reject", "nack multiple", "recover", "channel close", "connection close"])
def test_requeued_messages_come_again_in_order_and_marked(connect: Connect, filled: str, way: str) -> None:
    connection = connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=5)
    channel.basic_cancel(Consumer(channel, filled).wait_for(5).tag)
    if way == "reject":
        for tag in (3, 1, 5, 2, 4):
            channel.basic_reject(tag)
    elif way == "nack multiple":
        channel.basic_nack(5, multiple=True)
    elif way == "recover":
        channel.basic_recover(requeue=True)
    elif way == "channel close":
        channel.close()
    else:
        connection.close()
    again = Consumer(connect().channel(), filled, auto_ack=True).wait_for(10)
    assert (again.bodies, again.redelivered) == (NUMBERS, [True] * 5 + [False] * 5)


def test_consumer_is_cancelled_when_its_queue_is_deleted(connection: pika.BlockingConnection, name: str) -> None:
    channel, other = connection.channel(), connection.channel()
    other.queue_declare(name)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    consumer = Consumer(channel, name)
    other.queue_delete(name)
    wait_until(connection, lambda: cancelled == [consumer.tag])


def test_exclusive_consumer_keeps_others_out(connect: Connect, shared_queue: str) -> None:
    owner = connect().channel()
    consumer = Consumer(owner, shared_queue, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        Consumer(connect().channel(), shared_queue)
    assert caught.value.reply_code == 403
    owner.basic_cancel(consumer.tag)
    Consumer(connect().channel(), shared_queue)


def test_single_active_consumer_is_followed_by_the_next(channel: BlockingChannel) -> None:
    queue = declare(channel, single_active_consumer=True)
    first, second = (Consumer(channel, queue, auto_ack=True) for _ in range(2))
    publish(channel, queue, b"1", b"2")
    assert first.wait_for(2).bodies == [b"1", b"2"]
    channel.basic_cancel(first.tag)
    publish(channel, queue, b"3")
    assert second.wait_for(1).bodies == [b"3"]


def test_consumer_generator_gives_back_what_it_has_not_yielded(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *NUMBERS)
    bodies = []
    for method, _, body in channel.consume(queue, inactivity_timeout=100):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 4:
            break
    channel.cancel()
    assert bodies + drain(channel, queue) == NUMBERS


def test_backlog_under_a_consumer_without_limit_leaves_the_broker_answering(
    connect: Connect, channel: BlockingChannel, shared_queue: str
) -> None:
    publishing = connect().channel()
    for _ in range(3_000):  # 30 MB, which no buffer of a socket takes
        publishing.basic_publish("", shared_queue, b"x" * 10_000)
    publishing.confirm_delivery()
    publish(publishing, shared_queue, b"last")
    consumer = Consumer(connect().channel(), shared_queue, auto_ack=True)
    for _ in range(20):  # while the backlog flows to the other connection
        assert drain(channel, declare(channel)) == []
    assert consumer.wait_for(3_001).bodies[-1] == b"last"


def test_consumer_timeout_closes_the_channel_and_requeues(channel: BlockingChannel, is_triomq: bool) -> None:
    if not is_triomq:
        pytest.skip("RabbitMQ 3.10 has no timeout of a queue's own, and checks its general one once a minute")
    queue = declare(channel, consumer_timeout=700)
    channel.confirm_delivery()
    publish(channel, queue, b"1", b"2")
    slow = channel.connection.channel()
    Consumer(slow, queue).wait_for(2)
    with pytest.raises(ChannelClosedByBroker, match=r"timed out\. Timeout value used: 700 ms") as caught:
        slow.start_consuming()
    assert caught.value.reply_code == 406
    assert drain(channel, queue) == [b"1", b"2"]


# Confirms, returns, transactions


def test_unroutable_publish_is_returned_if_mandatory(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", "no queue", b"lost")
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", "no queue", b"back", pika.BasicProperties(message_id="m"), mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.body, returned.properties.message_id) == (b"back", "m")


def test_full_queue_that_rejects_nacks(channel: BlockingChannel) -> None:
    queue = declare(channel, max_length=2, overflow="reject-publish")
    channel.confirm_delivery()
    publish(channel, queue, b"1", b"2")
    with pytest.raises(NackError):
        publish(channel, queue, b"3")
    assert drain(channel, queue) == [b"1", b"2"]


def test_durable_queue_confirms_persistent_messages(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True)
    for number in range(100):
        channel.basic_publish("", name, str(number).encode(), pika.BasicProperties(delivery_mode=2))
    assert channel.queue_delete(name).method.message_count == 100


def test_transaction_is_committed_or_rolled_back(connect: Connect, channel: BlockingChannel, filled: str) -> None:
    tx = connect().channel()
    tx.tx_select()
    answers = channel.queue_declare("", exclusive=True).method.queue
    consumer = Consumer(tx, filled).wait_for(10)
    tx.basic_cancel(consumer.tag)
    publish(tx, answers, b"rolled back")
    tx.basic_ack(10, multiple=True)
    tx.tx_rollback()
    publish(tx, answers, b"committed")
    tx.basic_ack(4, multiple=True)
    tx.tx_commit()
    publish(tx, answers, b"never committed")
    tx.basic_ack(8, multiple=True)
    tx.connection.close()
    assert drain(channel, answers) == [b"committed"]
    again = Consumer(connect().channel(), filled, auto_ack=True).wait_for(6)
    assert (again.bodies, again.redelivered) == (NUMBERS[4:], [True] * 6)


# Exchanges


@pytest.mark.parametrize(
    ("kind", "key", "arguments", "arriving"),
    [
        ("direct", "a.b", {}, [b"a.b"]),
        ("fanout", "ignored", {}, [b"a", b"a.b", b"b.a"]),
        ("topic", "a.#", {}, [b"a", b"a.b"]),
        ("headers", "ignored", {"x-match": "any", "key": "b.a"}, [b"b.a"]),
        ("x-consistent-hash", "1", {}, [b"a", b"a.b", b"b.a"]),
    ],
)
def test_exchange_routes_by_its_type(
    channel: BlockingChannel,
    queue: str,
    name: str,
    kind: str,
    key: str,
    arguments: dict[str, object],
    arriving: list[bytes],
) -> None:
    channel.exchange_declare(name, kind, auto_delete=True)
    channel.queue_bind(queue, name, key, arguments)
    for text in ("a", "a.b", "b.a"):
        channel.basic_publish(name, text, text.encode(), pika.BasicProperties(headers={"key": text}))
    assert drain(channel, queue) == arriving
    channel.queue_unbind(queue, name, key, arguments)
    with pytest.raises(ChannelClosedByBroker) as caught:  # deleted with its last binding
        channel.exchange_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_bound_and_alternate_exchanges_pass_messages_on(connect: Connect, channel: BlockingChannel, name: str) -> None:
    outer, inner, alternate = (f"{name}.{part}" for part in ("outer", "inner", "alternate"))
    found, lost = declare(channel), declare(channel)
    channel.exchange_declare(alternate, "fanout")
    channel.exchange_declare(outer, "topic", arguments={"alternate-exchange": alternate})
    channel.exchange_declare(inner, "direct", internal=True)
    channel.exchange_bind(inner, outer, "a.*")
    channel.queue_bind(found, inner, "a.x")
    channel.queue_bind(lost, alternate)
    for key in ("a.x", "b.x"):
        channel.basic_publish(outer, key, key.encode())
    method, _, body = channel.basic_get(found, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (outer, "a.x", b"a.x")
    assert drain(channel, lost) == [b"b.x"]
    for exchange in (outer, inner, alternate):
        channel.exchange_delete(exchange)


def test_copies_go_by_further_keys(channel: BlockingChannel) -> None:
    queues = [declare(channel) for _ in range(3)]
    headers = {"CC": queues[1:2], "BCC": queues[2:], "other": 7}
    channel.basic_publish("", queues[0], b"x", pika.BasicProperties(headers=headers))
    found = [channel.basic_get(queue, auto_ack=True) for queue in queues]
    assert [(properties.headers, body) for _, properties, body in found] == [
        ({"CC": queues[1:2], "other": 7}, b"x")  # BCC is taken off
    ] * 3
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", "no queue", b"x", pika.BasicProperties(headers={"CC": ["nor this"]}), mandatory=True)
    assert [returned.properties.headers for returned in caught.value.messages] == [{"CC": ["nor this"]}]


def test_reply_goes_straight_to_the_requester(connect: Connect, channel: BlockingChannel, shared_queue: str) -> None:
    requester = connect().channel()
    replies = Consumer(requester, "amq.rabbitmq.reply-to", auto_ack=True)
    server = Consumer(channel, shared_queue, auto_ack=True)
    for number in range(20):
        properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=str(number))
        requester.basic_publish("", shared_queue, b"request", properties)
    for properties in server.wait_for(20).properties:
        channel.basic_publish("", properties.reply_to, b"reply", properties)
    assert [properties.correlation_id for properties in replies.wait_for(20).properties] == list(map(str, range(20)))


# Dead letters


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen", "delivery_limit"])
def test_dead_letter_says_why_it_died(connect: Connect, channel: BlockingChannel, name: str, reason: str) -> None:
    dead = declare(channel)
    arguments: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    if reason == "delivery_limit":
        arguments |= {"x-queue-type": "quorum", "x-delivery-limit": 1}
    elif reason == "maxlen":
        arguments |= {"x-max-length": 0}
    elif reason == "expired":
        arguments |= {"x-message-ttl": 50}
    channel.queue_declare(name, durable=True, arguments=arguments)
    publish(channel, name, b"x")
    if reason in ("rejected", "delivery_limit"):
        consumer = Consumer(channel, name).wait_for(1)
        channel.basic_reject(1, requeue=reason == "delivery_limit")
    if reason == "delivery_limit":
        assert consumer.wait_for(2).properties[1].headers["x-delivery-count"] == 1
        channel.basic_reject(2, requeue=True)
    wait_until(channel.connection, lambda: count(channel, dead) > 0, "a dead letter")
    _, properties, body = channel.basic_get(dead, auto_ack=True)
    (death,) = properties.headers["x-death"]
    assert (body, death["queue"], death["reason"], death["count"]) == (b"x", name, reason, 1)
    connect().channel().queue_delete(name)
