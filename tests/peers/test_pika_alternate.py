"""Alternate exchanges and consistent-hash exchanges, with pika's blocking connection."""

from collections import Counter
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from peers.conftest import Connect, wait_until
from peers.test_pika_queues import count, drain

Declare = Callable[..., str]


@pytest.fixture
def exchange(channel: BlockingChannel, connect: Connect, name: str) -> Iterator[Declare]:
    """Declare exchanges with arguments; they are deleted after the test."""
    declared: list[str] = []

    def declare(kind: str, **arguments: object) -> str:
        declared.append(f"{name}.{len(declared)}")
        named = {argument.replace("_", "-"): value for argument, value in arguments.items()}
        channel.exchange_declare(declared[-1], kind, arguments=named)
        return declared[-1]

    yield declare
    cleaner = connect().channel()
    for found in declared:
        cleaner.exchange_delete(found)


def bound(channel: BlockingChannel, exchange: str, key: str = "", **arguments: object) -> str:
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    channel.queue_bind(queue, exchange, key)
    return queue


def refused(closed: pytest.ExceptionInfo[ChannelClosedByBroker]) -> tuple[int, str]:
    return closed.value.reply_code, closed.value.reply_text


def test_an_alternate_exchange_takes_what_matches_no_binding(channel: BlockingChannel, exchange: Declare) -> None:
    alternate = exchange("fanout")
    source = exchange("direct", alternate_exchange=alternate)
    lost, found = bound(channel, alternate), bound(channel, source, "k")
    channel.basic_publish(source, "k", b"found")
    channel.basic_publish(source, "other", b"lost")
    assert (drain(channel, found), drain(channel, lost)) == ([b"found"], [b"lost"])
    channel.queue_unbind(found, source, "k")
    channel.basic_publish(source, "k", b"lost now")
    assert drain(channel, lost) == [b"lost now"]


def test_what_the_alternate_takes_is_not_returned(channel: BlockingChannel, exchange: Declare) -> None:
    channel.confirm_delivery()
    alternate = exchange("fanout")
    source = exchange("topic", alternate_exchange=alternate)
    with pytest.raises(UnroutableError):
        channel.basic_publish(source, "k", b"", mandatory=True)
    lost = bound(channel, alternate)
    channel.basic_publish(source, "k", b"kept", mandatory=True)
    assert drain(channel, lost) == [b"kept"]


def test_an_exchange_bound_to_an_exchange_has_an_alternate_of_its_own(
    channel: BlockingChannel, exchange: Declare
) -> None:
    alternate, unused = exchange("fanout"), exchange("fanout")
    inner = exchange("direct", alternate_exchange=alternate)
    outer = exchange("fanout", alternate_exchange=unused)
    channel.exchange_bind(inner, outer)
    lost, none = bound(channel, alternate), bound(channel, unused)
    channel.basic_publish(outer, "k", b"x")
    assert (drain(channel, lost), drain(channel, none)) == ([b"x"], [])


def test_dead_letters_find_the_alternate(
    connection: pika.BlockingConnection, channel: BlockingChannel, exchange: Declare
) -> None:
    alternate = exchange("fanout")
    letters = exchange("direct", alternate_exchange=alternate)
    lost = bound(channel, alternate)
    full = channel.queue_declare(
        "", exclusive=True, arguments={"x-max-length": 0, "x-dead-letter-exchange": letters}
    ).method.queue
    channel.basic_publish("", full, b"x")
    wait_until(connection, lambda: count(channel, lost) == 1)
    assert drain(channel, lost) == [b"x"]


def test_another_alternate_at_a_second_declare_is_refused(connection: pika.BlockingConnection, name: str) -> None:
    arguments = {"alternate-exchange": "a"}
    connection.channel().exchange_declare(name, "fanout", auto_delete=True, arguments=arguments)
    connection.channel().exchange_declare(name, "fanout", auto_delete=True, arguments={**arguments, "x-note": 1})
    place = f"inequivalent arg 'alternate-exchange' for exchange '{name}' in vhost '/'"
    for value, text in (
        ({"alternate-exchange": "b"}, f"{place}: received 'b' but current is 'a'"),
        ({}, f"{place}: received none but current is the value 'a' of type 'longstr'"),
    ):
        with pytest.raises(ChannelClosedByBroker) as closed:
            connection.channel().exchange_declare(name, "fanout", auto_delete=True, arguments=value)
        assert refused(closed) == (406, f"PRECONDITION_FAILED - {text}")
    connection.channel().exchange_delete(name)


def test_an_alternate_that_is_no_name_is_refused(channel: BlockingChannel, name: str) -> None:
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.exchange_declare(name, arguments={"alternate-exchange": 5})
    text = f"invalid type 'signedint' for arg 'alternate-exchange' in exchange '{name}' in vhost '/'"
    assert refused(closed) == (406, f"PRECONDITION_FAILED - {text}")


def test_a_consistent_hash_exchange_sends_each_key_to_one_queue(channel: BlockingChannel, exchange: Declare) -> None:
    source = exchange("x-consistent-hash")
    queues = [bound(channel, source, "1") for _ in range(4)]
    keys = [f"key-{number}" for number in range(400)]
    for key in keys * 2:
        channel.basic_publish(source, key, key.encode())
    found = [Counter(drain(channel, queue)) for queue in queues]
    assert sum(map(len, found)) == len(keys)
    assert all(count == 2 for queue in found for count in queue.values())
    assert all(50 < len(queue) < 150 for queue in found)


def test_weights_say_how_much(channel: BlockingChannel, exchange: Declare) -> None:
    source = exchange("x-consistent-hash")
    light, heavy = bound(channel, source, "1"), bound(channel, source, "4")
    for number in range(1000):
        channel.basic_publish(source, f"key-{number}", b"")
    found, rest = len(drain(channel, light)), len(drain(channel, heavy))
    assert found + rest == 1000
    assert 130 < found < 270


def test_a_header_or_a_property_chooses_instead_of_the_key(channel: BlockingChannel, exchange: Declare) -> None:
    for source, properties in (
        (exchange("x-consistent-hash", hash_header="h"), lambda text: pika.BasicProperties(headers={"h": text})),
        (exchange("x-consistent-hash", hash_property="message_id"), lambda text: pika.BasicProperties(message_id=text)),
    ):
        queues = [bound(channel, source, "1") for _ in range(2)]
        texts = [f"text-{number}" for number in range(40)]
        for key in ("a", "b"):
            for text in texts:
                channel.basic_publish(source, key, text.encode(), properties(text))
        found = [Counter(drain(channel, queue)) for queue in queues]
        assert sum(map(len, found)) == len(texts)
        assert all(queue and set(queue.values()) == {2} for queue in found)


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        ("heavy", 'The binding key must be an integer: <<"heavy">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("0", "The binding key must be greater than 0"),
    ],
)
def test_a_weight_that_is_none_is_refused(
    channel: BlockingChannel, exchange: Declare, queue: str, weight: str, text: str
) -> None:
    source = exchange("x-consistent-hash")
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_bind(queue, source, weight)
    assert refused(closed) == (406, f"PRECONDITION_FAILED - {text}")


def test_a_queue_that_goes_moves_its_share_alone(
    channel: BlockingChannel, exchange: Declare, *, is_triomq: bool
) -> None:
    if not is_triomq:
        pytest.skip("RabbitMQ numbers the others anew, which moves some of theirs")
    source = exchange("x-consistent-hash")
    queues = [bound(channel, source, "1") for _ in range(4)]
    keys = [f"key-{number}".encode() for number in range(200)]

    def placed() -> list[set[bytes]]:
        for key in keys:
            channel.basic_publish(source, key.decode(), key)
        return [set(drain(channel, queue)) for queue in queues]

    before = placed()
    channel.queue_delete(queues.pop(0))
    after = placed()
    assert all(then <= now for then, now in zip(before[1:], after, strict=True))
    assert set().union(*after) == set(keys)
