"""Transactions, with pika's blocking connection."""

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from peers.conftest import Connect, wait_until
from peers.test_pika_consume import NUMBERS, Taken
from peers.test_pika_queues import count, drain, publish


@pytest.fixture
def tx(connect: Connect) -> BlockingChannel:
    """A channel in transaction mode, on a connection of its own."""
    channel = connect().channel()
    channel.tx_select()
    return channel


@pytest.fixture
def filled(channel: BlockingChannel, shared_queue: str) -> str:
    """A queue that holds ten messages."""
    channel.confirm_delivery()
    publish(channel, shared_queue, *NUMBERS)
    return shared_queue


def test_what_is_published_is_there_after_the_commit(
    tx: BlockingChannel, channel: BlockingChannel, shared_queue: str
) -> None:
    publish(tx, shared_queue, *NUMBERS)
    tx.basic_qos()  # all has been read when this is answered
    assert count(channel, shared_queue) == 0
    tx.tx_commit()
    assert drain(channel, shared_queue) == NUMBERS


def test_what_is_rolled_back_was_never_published(
    tx: BlockingChannel, channel: BlockingChannel, shared_queue: str
) -> None:
    publish(tx, shared_queue, b"not")
    tx.tx_rollback()
    publish(tx, shared_queue, b"but this")
    tx.tx_commit()
    assert drain(channel, shared_queue) == [b"but this"]


def test_what_was_not_committed_when_the_connection_ends_was_never_published(
    tx: BlockingChannel, channel: BlockingChannel, shared_queue: str
) -> None:
    publish(tx, shared_queue, b"not")
    tx.connection.close()
    assert drain(channel, shared_queue) == []


def test_acks_count_from_the_commit(tx: BlockingChannel, connect: Connect, filled: str) -> None:
    taken = Taken(tx, filled).wait_for(10)
    tx.basic_cancel(taken.tag)
    tx.basic_ack(4, multiple=True)
    tx.tx_commit()
    tx.basic_ack(8, multiple=True)
    tx.connection.close()
    again = Taken(connect().channel(), filled, auto_ack=True).wait_for(6)
    assert again.bodies == NUMBERS[4:]
    assert again.redelivered == [True] * 6


def test_acks_that_are_rolled_back_can_be_given_again(tx: BlockingChannel, connect: Connect, filled: str) -> None:
    taken = Taken(tx, filled).wait_for(10)
    tx.basic_cancel(taken.tag)
    tx.basic_ack(10, multiple=True)
    tx.tx_rollback()
    tx.basic_ack(5, multiple=True)
    tx.basic_nack(6, requeue=False)
    tx.tx_commit()
    tx.connection.close()
    assert drain(connect().channel(), filled) == NUMBERS[6:]


def test_an_answer_and_the_ack_of_its_request_are_one(
    tx: BlockingChannel, connect: Connect, channel: BlockingChannel, filled: str
) -> None:
    answers = channel.queue_declare("", exclusive=True).method.queue
    taken = Taken(tx, filled).wait_for(10)
    for method, body in zip(taken.methods[:3], taken.bodies, strict=False):
        publish(tx, answers, b"answer to " + body)
        tx.basic_ack(method.delivery_tag)
        tx.tx_commit()
    publish(tx, answers, b"never sent")
    tx.connection.close()
    assert drain(channel, answers) == [b"answer to " + body for body in NUMBERS[:3]]
    assert drain(connect().channel(), filled) == NUMBERS[3:]


def test_what_reaches_no_queue_comes_back_with_the_commit(tx: BlockingChannel) -> None:
    returned: list[bytes] = []
    tx.add_on_return_callback(lambda _, __, ___, body: returned.append(body))
    tx.basic_publish("", "no queue", b"lost", mandatory=True)
    tx.tx_commit()
    wait_until(tx.connection, lambda: returned == [b"lost"])


def test_a_full_queue_that_rejects_refuses_the_whole_transaction(
    tx: BlockingChannel, channel: BlockingChannel, shared_queue: str, name: str, is_triomq: bool
) -> None:
    if not is_triomq:
        pytest.skip("RabbitMQ's transactions are atomic for one queue alone")
    full = channel.queue_declare("", exclusive=False, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    try:
        publish(tx, shared_queue, b"with the others or not at all")
        publish(tx, full.method.queue, b"1", b"2")
        with pytest.raises(ChannelClosedByBroker, match=f"queue '{full.method.queue}' .* is full"):
            tx.tx_commit()
        assert (count(channel, shared_queue), count(channel, full.method.queue)) == (0, 0)
    finally:
        channel.queue_delete(full.method.queue)
