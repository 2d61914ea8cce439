"""Consumers: prefetch, acknowledgement, requeue, cancel; with pika's blocking connection."""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from pika.spec import Basic

from peers.conftest import Connect, wait_until
from peers.test_pika_queues import count, drain, publish

NUMBERS = [str(number).encode() for number in range(10)]


class Taken:
    """What a consumer has been given: bodies, tags and marks, in order."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: object) -> None:
        self.channel = channel
        self.bodies: list[bytes] = []
        self.methods: list[Basic.Deliver] = []
        self.tag = channel.basic_consume(queue, self._take, **options)

    def _take(self, _: BlockingChannel, method: Basic.Deliver, __: pika.BasicProperties, body: bytes) -> None:
        self.methods.append(method)
        self.bodies.append(body)

    def wait_for(self, number: int) -> "Taken":
        wait_until(self.channel.connection, lambda: len(self.bodies) >= number, f"{number} deliveries")
        return self

    @property
    def redelivered(self) -> list[bool]:
        return [method.redelivered for method in self.methods]


@pytest.fixture
def filled(channel: BlockingChannel, shared_queue: str) -> str:
    """A queue that holds ten messages."""
    channel.confirm_delivery()
    publish(channel, shared_queue, *NUMBERS)
    return shared_queue


def test_a_consumer_gets_what_waits_and_what_comes(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"waits")
    taken = Taken(channel, queue, auto_ack=True)
    taken.wait_for(1)
    publish(channel, queue, b"comes")
    taken.wait_for(2)
    assert taken.bodies == [b"waits", b"comes"]
    assert [method.delivery_tag for method in taken.methods] == [1, 2]
    assert {method.consumer_tag for method in taken.methods} == {taken.tag}


def test_a_consumer_without_acknowledgements_leaves_nothing_behind(connect: Connect, filled: str) -> None:
    connection = connect()
    Taken(connection.channel(), filled, auto_ack=True).wait_for(10)
    connection.close()
    assert drain(connect().channel(), filled) == []


def test_a_prefetch_limit_holds_back_the_rest(connect: Connect, filled: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=3)
    taken = Taken(channel, filled).wait_for(3)
    assert count(channel, filled) == 7
    channel.basic_ack(1)
    taken.wait_for(4)
    assert count(channel, filled) == 6
    assert taken.bodies == NUMBERS[:4]


def test_a_prefetch_limit_counts_for_each_consumer_that_starts_after_it(connect: Connect, filled: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=2)
    first = Taken(channel, filled).wait_for(2)
    channel.basic_qos(prefetch_count=3)
    second = Taken(channel, filled).wait_for(3)
    assert count(channel, filled) == 5
    assert (len(first.bodies), len(second.bodies)) == (2, 3)


def test_a_global_prefetch_limit_counts_for_the_channel(connect: Connect, filled: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=4, global_qos=True)
    first, second = Taken(channel, filled), Taken(channel, filled)
    wait_until(channel.connection, lambda: len(first.bodies) + len(second.bodies) >= 4)
    assert count(channel, filled) == 6
    channel.basic_ack(4, multiple=True)
    wait_until(channel.connection, lambda: len(first.bodies) + len(second.bodies) >= 8)
    assert count(channel, filled) == 2


def test_an_ack_on_one_queue_starts_the_next_under_a_global_limit(
    channel: BlockingChannel, connection: pika.BlockingConnection
) -> None:
    consuming = connection.channel()
    first, second = (channel.queue_declare("", exclusive=True).method.queue for _ in range(2))
    channel.confirm_delivery()
    publish(channel, first, b"first")
    publish(channel, second, b"second")
    consuming.basic_qos(prefetch_count=1, global_qos=True)
    from_first = Taken(consuming, first).wait_for(1)
    from_second = Taken(consuming, second)
    assert count(channel, second) == 1
    consuming.basic_ack(from_first.methods[0].delivery_tag)
    assert from_second.wait_for(1).bodies == [b"second"]


def test_an_acknowledged_message_is_gone(connect: Connect, filled: str) -> None:
    connection = connect()
    channel = connection.channel()
    taken = Taken(channel, filled).wait_for(10)
    channel.basic_ack(taken.methods[2].delivery_tag)
    channel.basic_ack(taken.methods[6].delivery_tag, multiple=True)
    channel.basic_ack(taken.methods[9].delivery_tag)
    connection.close()
    assert drain(connect().channel(), filled) == NUMBERS[7:9]


def test_an_ack_of_zero_with_multiple_takes_all(connect: Connect, filled: str) -> None:
    connection = connect()
    channel = connection.channel()
    Taken(channel, filled).wait_for(10)
    channel.basic_ack(0, multiple=True)
    connection.close()
    assert drain(connect().channel(), filled) == []


@pytest.mark.parametrize("way", ["reject", "nack", "nack multiple", "recover", "channel close", "connection close"])
def test_messages_go_back_to_their_old_place_and_are_marked(connect: Connect, filled: str, way: str) -> None:
    connection = connect()
    channel = connection.channel()
    channel.basic_qos(prefetch_count=5)
    taken = Taken(channel, filled).wait_for(5)
    channel.basic_cancel(taken.tag)
    if way == "reject":
        for tag in (3, 1, 5, 2, 4):
            channel.basic_reject(tag)
    elif way == "nack":
        for tag in (2, 5, 3, 4, 1):
            channel.basic_nack(tag)
    elif way == "nack multiple":
        channel.basic_nack(5, multiple=True)
    elif way == "recover":
        channel.basic_recover(requeue=True)
    elif way == "channel close":
        channel.close()
    else:
        connection.close()
    again = Taken(connect().channel(), filled, auto_ack=True).wait_for(10)
    assert again.bodies == NUMBERS
    assert again.redelivered == [True] * 5 + [False] * 5


@pytest.mark.parametrize("way", ["reject", "nack", "nack multiple"])
def test_a_rejected_message_that_is_not_requeued_is_gone(connect: Connect, filled: str, way: str) -> None:
    channel = connect().channel()
    for _ in range(3):
        channel.basic_get(filled)
    if way == "reject":
        channel.basic_reject(2, requeue=False)
        expected = [NUMBERS[0], *NUMBERS[2:]]
    elif way == "nack":
        channel.basic_nack(1, requeue=False)
        expected = NUMBERS[1:]
    else:
        channel.basic_nack(2, multiple=True, requeue=False)
        expected = NUMBERS[2:]
    channel.close()
    assert drain(connect().channel(), filled) == expected


def test_a_message_rejected_by_the_only_consumer_comes_again(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1")
    taken = Taken(channel, queue).wait_for(1)
    channel.basic_reject(taken.methods[0].delivery_tag, requeue=True)
    taken.wait_for(2)
    assert (taken.bodies, taken.redelivered) == ([b"1", b"1"], [False, True])


def test_a_message_got_and_not_settled_goes_back_with_its_channel(
    connection: pika.BlockingConnection, queue: str
) -> None:
    channel, other = connection.channel(), connection.channel()
    publish(channel, queue, b"1", b"2")
    assert channel.basic_get(queue)[2] == b"1"
    channel.close()
    method, _, body = other.basic_get(queue)
    assert (method.redelivered, body) == (True, b"1")
    assert other.basic_get(queue)[0].redelivered is False


def test_consumers_of_a_queue_take_turns(connect: Connect, shared_queue: str) -> None:
    consumers = [Taken(connect().channel(), shared_queue, auto_ack=True) for _ in range(2)]
    channel = connect().channel()
    channel.confirm_delivery()
    publish(channel, shared_queue, *NUMBERS)
    for taken in consumers:
        taken.wait_for(5)
    assert sorted(consumers[0].bodies + consumers[1].bodies) == NUMBERS


def test_a_cancelled_consumer_gets_no_more_and_keeps_what_it_has(connect: Connect, filled: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=4)
    taken = Taken(channel, filled).wait_for(4)
    channel.basic_cancel(taken.tag)
    channel.basic_ack(4, multiple=True)
    assert count(channel, filled) == 6
    assert taken.bodies == NUMBERS[:4]


def test_a_consumer_may_choose_its_tag(channel: BlockingChannel, queue: str) -> None:
    taken = Taken(channel, queue, consumer_tag="mine", auto_ack=True)
    publish(channel, queue, b"1")
    taken.wait_for(1)
    assert (taken.tag, taken.methods[0].consumer_tag) == ("mine", "mine")


def test_consumers_of_a_deleted_queue_are_told(connection: pika.BlockingConnection, name: str) -> None:
    channel, other = connection.channel(), connection.channel()
    channel.queue_declare(name)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    taken = Taken(channel, name)
    other.queue_delete(name)
    wait_until(connection, lambda: bool(cancelled))
    assert cancelled == [taken.tag]


def test_an_exclusive_consumer_keeps_others_out(connect: Connect, shared_queue: str) -> None:
    owner = connect().channel()
    taken = Taken(owner, shared_queue, exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        Taken(connect().channel(), shared_queue)
    assert caught.value.reply_code == 403
    owner.basic_cancel(taken.tag)
    Taken(connect().channel(), shared_queue)


def test_the_generator_of_pika_consumes_and_gives_back(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *NUMBERS)
    bodies = []
    for method, _, body in channel.consume(queue, inactivity_timeout=20):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 4:
            break
    channel.cancel()  # gives back what pika holds
    assert bodies + drain(channel, queue) == NUMBERS


def test_a_bounded_queue_and_its_consumer_on_one_connection_finish(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 100}).method.queue
    channel.basic_qos(prefetch_count=5)
    bodies: list[bytes] = []

    def take(_: BlockingChannel, method: Basic.Deliver, __: pika.BasicProperties, body: bytes) -> None:
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue, take)
    publish(channel, queue, *[str(number).encode() for number in range(200)])
    wait_until(connection, lambda: bodies[-1:] == [b"199"])
    # Drop-head drops the oldest that waits, so order holds and the newest always comes.
    assert [int(body) for body in bodies] == sorted({int(body) for body in bodies})
    assert len(bodies) >= 100


def test_a_backlog_under_a_consumer_without_limit_leaves_the_broker_answering(
    connect: Connect, channel: BlockingChannel, shared_queue: str
) -> None:
    number = 100_000
    publishing = connect().channel()
    for _ in range(number):
        publishing.basic_publish("", shared_queue, b"x" * 100)
    publishing.confirm_delivery()
    publish(publishing, shared_queue, b"last")
    consuming = connect().channel()
    taken = Taken(consuming, shared_queue, auto_ack=True)
    for _ in range(20):  # while the backlog flows to the other connection
        assert drain(channel, channel.queue_declare("", exclusive=True).method.queue) == []
    taken.wait_for(number + 1)
    assert taken.bodies[-1] == b"last"
