"""Queues as pika's blocking connection sees them: declare, publish, get, purge, delete, bounds."""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from peers.conftest import Connect


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body)


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Get everything that is ready."""
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


def count(channel: BlockingChannel, queue: str) -> int:
    return channel.queue_declare(queue, passive=True).method.message_count


def test_a_published_message_is_got_back(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"hello")
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (method.routing_key, method.exchange, method.redelivered, body) == (queue, "", False, b"hello")
    assert properties.headers is None


def test_get_says_how_many_messages_remain(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    remaining = [channel.basic_get(queue, auto_ack=True)[0].message_count for _ in range(3)]
    assert remaining == [2, 1, 0]


def test_get_from_an_empty_queue_is_answered_empty(channel: BlockingChannel, queue: str) -> None:
    assert channel.basic_get(queue) == (None, None, None)


def test_messages_come_out_in_the_order_in_which_they_went_in(channel: BlockingChannel, queue: str) -> None:
    bodies = [str(number).encode() for number in range(300)]
    publish(channel, queue, *bodies)
    assert drain(channel, queue) == bodies


def test_an_empty_body_stays_empty(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"", b"then", b"")
    assert drain(channel, queue) == [b"", b"then", b""]


def test_all_properties_arrive_intact(channel: BlockingChannel, queue: str) -> None:
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
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert vars(properties) == vars(sent)


def test_a_server_named_queue_has_a_generated_name(channel: BlockingChannel) -> None:
    first = channel.queue_declare("", exclusive=True).method.queue
    second = channel.queue_declare("", exclusive=True).method.queue
    assert first.startswith("amq.gen")
    assert first != second


def test_declaring_again_is_the_same_queue(channel: BlockingChannel, shared_queue: str) -> None:
    channel.confirm_delivery()  # RabbitMQ counts past publishes that it has not confirmed
    publish(channel, shared_queue, b"1", b"2")
    declared = channel.queue_declare(shared_queue).method
    assert (declared.queue, declared.message_count, declared.consumer_count) == (shared_queue, 2, 0)


def test_a_passive_declare_counts_ready_messages_and_consumers(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()  # RabbitMQ counts past publishes that it has not confirmed
    publish(channel, queue, b"1", b"2", b"3")
    channel.basic_get(queue)
    before = channel.queue_declare(queue, passive=True).method
    channel.basic_qos(prefetch_count=1)
    tag = channel.basic_consume(queue, lambda *_: None)
    with_consumer = channel.queue_declare(queue, passive=True).method
    channel.basic_cancel(tag)
    without = channel.queue_declare(queue, passive=True).method
    assert (before.message_count, before.consumer_count) == (2, 0)
    assert with_consumer.consumer_count == 1
    assert without.consumer_count == 0


def test_purge_counts_and_removes_what_is_ready(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()  # RabbitMQ counts past publishes that it has not confirmed
    publish(channel, queue, b"1", b"2", b"3")
    channel.basic_get(queue)
    assert channel.queue_purge(queue).method.message_count == 2
    assert count(channel, queue) == 0


def test_delete_counts_what_was_ready(channel: BlockingChannel, name: str) -> None:
    channel.confirm_delivery()  # RabbitMQ counts past publishes that it has not confirmed
    channel.queue_declare(name)
    publish(channel, name, b"1", b"2")
    assert channel.queue_delete(name).method.message_count == 2
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_delete_if_empty_spares_a_queue_that_holds_a_message(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    publish(channel, name, b"1")
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_delete(name, if_empty=True)
    assert caught.value.reply_code == 406
    other = connection.channel()
    assert drain(other, name) == [b"1"]
    other.queue_delete(name, if_empty=True)


def test_delete_if_unused_spares_a_queue_with_a_consumer(connection: pika.BlockingConnection, name: str) -> None:
    channel, other = connection.channel(), connection.channel()
    channel.queue_declare(name)
    tag = channel.basic_consume(name, lambda *_: None)
    with pytest.raises(ChannelClosedByBroker) as caught:
        other.queue_delete(name, if_unused=True)
    assert caught.value.reply_code == 406
    channel.basic_cancel(tag)
    channel.queue_delete(name, if_unused=True)


def test_an_exclusive_queue_is_locked_for_others_and_goes_with_its_connection(connect: Connect, name: str) -> None:
    owner, other = connect(), connect()
    owner.channel().queue_declare(name, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        other.channel().basic_get(name)
    assert caught.value.reply_code == 405
    owner.close()
    with pytest.raises(ChannelClosedByBroker) as caught:
        other.channel().queue_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_an_auto_delete_queue_goes_with_its_last_consumer(connection: pika.BlockingConnection, name: str) -> None:
    channel = connection.channel()
    channel.queue_declare(name, auto_delete=True)
    tags = [channel.basic_consume(name, lambda *_: None) for _ in range(2)]
    channel.basic_cancel(tags[0])
    assert channel.queue_declare(name, passive=True).method.consumer_count == 1
    channel.basic_cancel(tags[1])
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(connect: Connect, name: str) -> None:
    first = connect()
    first.channel().queue_declare(name, auto_delete=True)
    first.close()
    channel = connect().channel()
    assert channel.queue_declare(name, passive=True).method.queue == name
    channel.queue_delete(name)


def test_a_full_queue_drops_its_oldest_messages(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 3}).method.queue
    publish(channel, queue, *[str(number).encode() for number in range(10)])
    assert drain(channel, queue) == [b"7", b"8", b"9"]


def test_a_bound_in_bytes_counts_bodies(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True, arguments={"x-max-length-bytes": 100}).method.queue
    publish(channel, queue, *[str(number).encode() * 40 for number in range(5)])
    assert drain(channel, queue) == [b"3" * 40, b"4" * 40]


def test_a_bound_counts_what_is_ready_not_what_is_unsettled(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 2}).method.queue
    publish(channel, queue, b"1", b"2")
    taken = channel.basic_get(queue)
    publish(channel, queue, b"3")
    assert taken[2] == b"1"
    assert drain(channel, queue) == [b"2", b"3"]


def test_a_full_queue_that_rejects_keeps_its_oldest_messages(channel: BlockingChannel) -> None:
    arguments = {"x-max-length": 3, "x-overflow": "reject-publish"}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    publish(channel, queue, *[str(number).encode() for number in range(10)])
    assert drain(channel, queue) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("redeclared", [{"x-max-length": 4}, {"x-max-length": 3, "x-overflow": "reject-publish"}, None])
def test_declaring_again_with_other_arguments_is_refused(
    connection: pika.BlockingConnection, queue: str, redeclared: dict[str, object] | None, name: str
) -> None:
    channel = connection.channel()
    channel.queue_declare(name, exclusive=True, arguments={"x-max-length": 3})
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, exclusive=True, arguments=redeclared)
    assert caught.value.reply_code == 406


@pytest.mark.parametrize("size", [131_064, 131_065, 1_000_000, 20_000_000])
def test_a_large_body_passes_both_ways(channel: BlockingChannel, queue: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    publish(channel, queue, body, b"behind")
    assert drain(channel, queue) == [body, b"behind"]
