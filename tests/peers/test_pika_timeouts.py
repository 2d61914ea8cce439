"""A consumer that never acknowledges, with pika's blocking connection."""

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from peers.conftest import wait_until
from peers.test_pika_queues import drain, publish


@pytest.fixture(autouse=True)
def ours(is_triomq: bool) -> None:
    if not is_triomq:
        pytest.skip("RabbitMQ 3.10 has no timeout of a queue's own, and its general one is looked at once a minute")


def test_a_consumer_that_never_acknowledges_loses_its_channel_and_the_messages(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True, arguments={"x-consumer-timeout": 700}).method.queue
    channel.confirm_delivery()
    publish(channel, queue, b"1", b"2")
    slow = channel.connection.channel()
    taken: list[bytes] = []
    slow.basic_consume(queue, lambda _, method, properties, body: taken.append(body))
    wait_until(channel.connection, lambda: len(taken) == 2)
    with pytest.raises(ChannelClosedByBroker) as caught:
        slow.start_consuming()
    text = (
        f"PRECONDITION_FAILED - delivery acknowledgement on channel {slow.channel_number} timed out. Timeout value "
        "used: 700 ms. This timeout value can be configured, see consumers doc guide to learn more"
    )
    assert (caught.value.reply_code, caught.value.reply_text) == (406, text)
    assert drain(channel, queue) == [b"1", b"2"]
