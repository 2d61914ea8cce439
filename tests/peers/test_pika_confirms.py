"""Publisher confirms and returns, with pika's blocking connection."""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError, UnroutableError

from peers.conftest import wait_until
from peers.test_pika_queues import drain, publish


@pytest.fixture
def confirming(channel: BlockingChannel) -> BlockingChannel:
    channel.confirm_delivery()
    return channel


def test_a_confirmed_publish_is_in_its_queue(confirming: BlockingChannel, queue: str) -> None:
    publish(confirming, queue, b"1", b"2")
    assert drain(confirming, queue) == [b"1", b"2"]


def test_an_unroutable_publish_is_confirmed_unless_it_is_mandatory(confirming: BlockingChannel) -> None:
    confirming.basic_publish("", "no queue", b"lost")
    with pytest.raises(UnroutableError) as caught:
        confirming.basic_publish("", "no queue", b"back", pika.BasicProperties(message_id="m"), mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("", "no queue")
    assert (returned.body, returned.properties.message_id) == (b"back", "m")


def test_a_mandatory_publish_that_is_routed_is_not_returned(confirming: BlockingChannel, queue: str) -> None:
    confirming.basic_publish("", queue, b"1", mandatory=True)
    assert drain(confirming, queue) == [b"1"]


def test_a_publish_is_returned_without_confirms_too(channel: BlockingChannel) -> None:
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _, method, properties, body: returned.append(body))
    channel.basic_publish("", "no queue", b"back", mandatory=True)
    channel.basic_publish("amq.fanout", "", b"back too", mandatory=True)
    wait_until(channel.connection, lambda: len(returned) == 2)
    assert returned == [b"back", b"back too"]


def test_a_full_queue_that_rejects_answers_with_a_nack(confirming: BlockingChannel) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    queue = confirming.queue_declare("", exclusive=True, arguments=arguments).method.queue
    publish(confirming, queue, b"1", b"2")
    with pytest.raises(NackError):
        publish(confirming, queue, b"3")
    assert confirming.basic_get(queue, auto_ack=True)[2] == b"1"
    publish(confirming, queue, b"4")
    assert drain(confirming, queue) == [b"2", b"4"]


def test_a_full_queue_that_drops_confirms(confirming: BlockingChannel) -> None:
    queue = confirming.queue_declare("", exclusive=True, arguments={"x-max-length": 1}).method.queue
    publish(confirming, queue, b"1", b"2", b"3")
    assert drain(confirming, queue) == [b"3"]


def test_a_durable_queue_confirms_persistent_messages(confirming: BlockingChannel, name: str) -> None:
    confirming.queue_declare(name, durable=True)
    for number in range(100):
        confirming.basic_publish("", name, str(number).encode(), pika.BasicProperties(delivery_mode=2))
    assert confirming.queue_delete(name).method.message_count == 100
