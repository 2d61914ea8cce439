"""Publishing with confirms."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from clients.peer import open_peer
from triomq.clients import BlockingConnection, BlockingPublisher, open_blocking
from triomq.errors import LimitExceeded, NotFound, Unroutable
from triomq.protocols.amqp import (
    AMQPEngine,
    BasicAck,
    BasicNack,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    Event,
    PublishRun,
    QueueDeclare,
    QueueDeclareOk,
    Received,
)

Confirm = Callable[[AMQPEngine, int, int], None]
"""What a peer says about a publish: its engine, the channel, the publish's number."""


@contextmanager
def publishing(confirm: Confirm, *, timeout: float = 5) -> Iterator[BlockingPublisher]:
    """Publish to a peer that does this about each publish, given its number."""
    published = 0

    def answer(engine: AMQPEngine, event: Event) -> None:
        nonlocal published
        match event:
            case Received(channel, ConfirmSelect()):
                engine.send_method(channel, ConfirmSelectOk())
            case PublishRun():
                for _ in event.contents:
                    published += 1
                    confirm(engine, event.channel, published)

    with open_peer(answer) as url, open_blocking(url.replace("timeout=5", f"timeout={timeout}")) as connection:
        yield connection.publisher


def test_confirmed_messages_are_counted(connection: BlockingConnection, queue: str) -> None:
    for size in (0, 1, 1000, 1_000_000):
        connection.publisher.send("", queue, b"x" * size)
    connection.publisher.wait_confirmed()
    assert connection.publisher.confirmed == 4


def test_thousands_are_on_their_way_a_few_at_a_time(connection: BlockingConnection, queue: str) -> None:
    for _ in range(3000):
        connection.publisher.send("", queue, b"x")
    assert connection.publisher.confirmed >= 3000 - 2 * 256
    connection.publisher.wait_confirmed()
    assert connection.publisher.confirmed == 3000


def publish_many(publisher: BlockingPublisher, body: bytes) -> None:
    for _ in range(1000):
        publisher.send("", "nowhere", body)
    publisher.wait_confirmed()


def test_many_that_nobody_wants_do_not_stop_the_connection(connection: BlockingConnection) -> None:
    for _ in range(5):
        with pytest.raises(Unroutable):
            publish_many(connection.publisher, b"x" * 100_000)


def test_unroutable_message_is_raised_once_and_not_counted(connection: BlockingConnection, queue: str) -> None:
    publisher = connection.publisher
    publisher.send("", "nowhere", b"x")
    with pytest.raises(Unroutable, match=r"routing key 'nowhere' \(312 NO_ROUTE\); declare or bind a queue first"):
        publisher.wait_confirmed()
    publisher.send("", queue, b"x")
    publisher.wait_confirmed()
    assert publisher.confirmed == 1


def test_without_mandatory_nobody_asks(connection: BlockingConnection) -> None:
    connection.publisher.send("", "nowhere", b"x", mandatory=False)
    connection.publisher.wait_confirmed()
    assert connection.publisher.confirmed == 1


def test_full_queue_refuses(connection: BlockingConnection, queue: str) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    declared = connection.call(QueueDeclare("", exclusive=True, arguments=arguments), QueueDeclareOk)
    connection.publish("", declared.queue, b"x")
    with pytest.raises(LimitExceeded, match="a queue is full"):
        connection.publish("", declared.queue, b"x")
    assert connection.publisher.confirmed == 1


def test_channel_that_is_closed_begins_to_count_again(connection: BlockingConnection, queue: str) -> None:
    for _ in range(2):
        connection.publish("", queue, b"x")
        with pytest.raises(NotFound, match="no exchange 'nope'"):
            connection.publish("nope", queue, b"x")
    connection.publish("", queue, b"x")
    assert connection.publisher.confirmed == 3


def test_confirms_may_come_for_many_at_once() -> None:
    def every_third(engine: AMQPEngine, channel: int, number: int) -> None:
        if number % 3 == 0:
            engine.send_method(channel, BasicAck(number, multiple=True))

    with publishing(every_third) as publisher:
        for _ in range(9):
            publisher.send("", "q", b"x")
        publisher.wait_confirmed()
        assert publisher.confirmed == 9


def test_of_many_only_those_refused_are_not_counted() -> None:
    def refuse_second(engine: AMQPEngine, channel: int, number: int) -> None:
        engine.send_method(channel, BasicNack(number) if number == 2 else BasicAck(number))

    with publishing(refuse_second) as publisher:
        for _ in range(3):
            publisher.send("", "q", b"x")
        with pytest.raises(LimitExceeded):
            publisher.wait_confirmed()
        assert publisher.confirmed == 2
        publisher.wait_confirmed()


def test_returned_message_is_raised_when_its_confirm_has_come() -> None:
    def give_back(engine: AMQPEngine, channel: int, number: int) -> None:
        engine.send_content(channel, BasicReturn(312, "NO_ROUTE", "e", "k"), b"\0\0", b"")
        engine.send_method(channel, BasicAck(number))

    with publishing(give_back) as publisher:
        publisher.send("e", "k", b"")
        with pytest.raises(Unroutable, match="to exchange 'e' with routing key 'k'"):
            publisher.wait_confirmed()
        assert publisher.confirmed == 0


def test_slow_broker_is_waited_for_as_long_as_it_goes_on_confirming() -> None:
    arrived = threading.Event()

    def slowly(engine: AMQPEngine, channel: int, number: int) -> None:
        arrived.set()
        threading.Event().wait(2)  # what a slow disk takes; two of them are more than the timeout
        engine.send_method(channel, BasicAck(number))

    with publishing(slowly, timeout=3.5) as publisher:
        publisher.send("", "q", b"x")
        assert arrived.wait(100)
        publisher.send("", "q", b"x")
        publisher.wait_confirmed()
        assert publisher.confirmed == 2


def test_argument_of_a_wrong_type_ends_no_connection(connection: BlockingConnection, queue: str) -> None:
    with pytest.raises(TypeError, match="write BasicProperties"):
        connection.publish("", queue, b"1", {"a": 1})  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="encode"):
        connection.publish("", 5, b"2")  # type: ignore[arg-type]
    connection.publish("", queue, b"3")
    message = connection.get(queue)
    assert message is not None
    assert message.body == b"3"
