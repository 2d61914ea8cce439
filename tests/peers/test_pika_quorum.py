"""Queues of the type quorum, with pika's blocking connection."""

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from peers.conftest import Connect, wait_until
from peers.test_pika_letters import death, letter, letters
from peers.test_pika_queues import publish

QUORUM = {"x-queue-type": "quorum"}
Got = tuple[pika.spec.Basic.GetOk, pika.BasicProperties]


@pytest.fixture
def quorum(name: str, connect: Connect) -> Iterator[str]:
    """A name for a quorum queue, which is gone afterwards."""
    yield name
    connect().channel().queue_delete(name)


def get(channel: BlockingChannel, queue: str) -> Got:
    """Get the next message; where a queue is several processes it takes a moment until it is back."""
    found: list[Got] = []

    def look() -> bool:
        method, properties, _ = channel.basic_get(queue)
        if method is not None:
            found.append((method, properties))
        return bool(found)

    wait_until(channel.connection, look, "a message")
    return found[0]


def count(properties: pika.BasicProperties) -> object:
    return (properties.headers or {}).get("x-delivery-count")


def test_each_delivery_after_the_first_tells_which_one_it_is(channel: BlockingChannel, quorum: str) -> None:
    channel.queue_declare(quorum, durable=True, arguments=QUORUM)
    channel.confirm_delivery()
    channel.basic_publish("", quorum, b"x", pika.BasicProperties(headers={"a": 1}))
    found: list[tuple[bool, object, object]] = []

    def take(_: object, method: pika.spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes) -> None:
        found.append((method.redelivered, count(properties), properties.headers["a"]))
        channel.basic_nack(method.delivery_tag, requeue=len(found) < 4)

    channel.basic_consume(quorum, take)
    wait_until(channel.connection, lambda: len(found) == 4)
    assert found == [(False, None, 1), (True, 1, 1), (True, 2, 1), (True, 3, 1)]


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("how", ["nack", "reject", "close"])
def test_what_comes_back_too_often_becomes_a_dead_letter(
    channel: BlockingChannel, quorum: str, limit: int, how: str
) -> None:
    dead, leading = letters(channel)
    channel.queue_declare(quorum, durable=True, arguments={**QUORUM, **leading, "x-delivery-limit": limit})
    channel.confirm_delivery()
    publish(channel, quorum, b"x")
    for attempt in range(limit + 1):
        reader = channel.connection.channel()
        method, properties = get(reader, quorum)
        assert (method.redelivered, count(properties)) == (attempt > 0, attempt)
        if how == "nack":
            reader.basic_nack(method.delivery_tag)
        elif how == "reject":
            reader.basic_reject(method.delivery_tag)
        reader.close()
    body, properties = letter(channel, dead)
    assert body == b"x"
    assert death(properties)["reason"] == "delivery_limit"


def test_without_a_limit_a_message_comes_back_for_ever(channel: BlockingChannel, quorum: str) -> None:
    channel.queue_declare(quorum, durable=True, arguments=QUORUM)
    channel.confirm_delivery()
    publish(channel, quorum, b"x")
    for attempt in range(30):
        method, properties = get(channel, quorum)
        assert count(properties) == attempt
        channel.basic_nack(method.delivery_tag)


def refusal(channel: BlockingChannel, queue: str, *, durable: bool = True, **options: object) -> tuple[int, str]:
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(queue, durable=durable, **options)  # type: ignore[arg-type]
    return caught.value.reply_code, caught.value.reply_text


UNFIT: list[tuple[dict[str, object], str]] = [
    ({"durable": False}, "invalid property 'non-durable' for queue '{0}' in vhost '/'"),
    ({"exclusive": True}, "invalid property 'exclusive-owner' for queue '{0}' in vhost '/'"),
    ({"auto_delete": True}, "invalid property 'auto-delete' for queue '{0}' in vhost '/'"),
]


@pytest.mark.parametrize(("options", "text"), UNFIT)
def test_a_quorum_queue_is_durable_and_shared(
    channel: BlockingChannel, quorum: str, options: dict[str, object], text: str
) -> None:
    answer = refusal(channel, quorum, arguments=QUORUM, **options)  # type: ignore[arg-type]
    assert answer == (406, f"PRECONDITION_FAILED - {text.format(quorum)}")


def test_a_quorum_queue_has_its_name_from_its_client(channel: BlockingChannel) -> None:
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    assert refusal(channel, "", arguments=QUORUM) == (406, text)


@pytest.mark.parametrize(
    ("kind", "argument", "value"),
    [
        ("classic", "x-delivery-limit", 3),
        ("classic", "x-max-in-memory-length", 3),
        ("classic", "x-max-in-memory-bytes", -1),
        ("classic", "x-dead-letter-strategy", "at-least-once"),
        ("classic", "x-quorum-initial-group-size", 3),
        ("classic", "x-queue-leader-locator", "client-local"),
        ("classic", "x-max-age", "1D"),
        ("quorum", "x-max-priority", 3),
        ("quorum", "x-queue-mode", "lazy"),
        ("quorum", "x-queue-version", 2),
        ("quorum", "x-queue-master-locator", "min-masters"),
        ("quorum", "x-initial-cluster-size", 1),
    ],
)
def test_what_only_the_other_type_takes_is_refused(
    channel: BlockingChannel, quorum: str, kind: str, argument: str, value: object
) -> None:
    answer = refusal(channel, quorum, arguments={"x-queue-type": kind, argument: value})
    text = f"invalid arg '{argument}' for queue '{quorum}' in vhost '/' of queue type rabbit_{kind}_queue"
    assert answer == (406, f"PRECONDITION_FAILED - {text}")


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-single-active-consumer": True},
        {"x-max-length": 5, "x-overflow": "reject-publish"},
        {"x-message-ttl": 60_000, "x-expires": 60_000},
        {"x-max-in-memory-length": 5, "x-max-in-memory-bytes": 5},
        {"x-dead-letter-strategy": "at-most-once"},
        {"x-queue-leader-locator": "client-local", "x-quorum-initial-group-size": 1},
        {"x-nothing-of-the-kind": 5},
    ],
)
def test_what_a_quorum_queue_takes_may_be_declared_again(
    channel: BlockingChannel, quorum: str, arguments: dict[str, object]
) -> None:
    for _ in range(2):
        channel.queue_declare(quorum, durable=True, arguments={**QUORUM, **arguments})


def test_there_is_no_such_type(channel: BlockingChannel, quorum: str) -> None:
    code, text = refusal(channel, quorum, arguments={"x-queue-type": "nope"})
    assert (code, text) == (
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue '{quorum}' in vhost '/': "
        "\"unsupported queue type 'nope'\"",
    )


def test_streams_are_refused_with_a_word_on_it(channel: BlockingChannel, quorum: str, is_triomq: bool) -> None:
    if not is_triomq:
        pytest.skip("RabbitMQ has streams")
    code, text = refusal(channel, quorum, arguments={"x-queue-type": "stream"})
    assert code == 406
    assert text.endswith("\"unsupported queue type 'stream'\"; triomq has no streams, use 'classic' or 'quorum'")


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ({}, {"x-queue-type": "classic"}, True),
        ({"x-queue-type": "classic"}, {}, True),
        (QUORUM, {}, False),
        (QUORUM, {"x-queue-type": "classic"}, False),
        ({}, QUORUM, False),
        ({**QUORUM, "x-delivery-limit": 3}, {**QUORUM, "x-delivery-limit": 4}, False),
    ],
)
def test_a_second_declare_says_the_same(
    channel: BlockingChannel, quorum: str, first: dict[str, object], second: dict[str, object], equal: bool
) -> None:
    channel.queue_declare(quorum, durable=True, arguments=first)
    if equal:
        channel.queue_declare(quorum, durable=True, arguments=second)
    else:
        code, text = refusal(channel, quorum, arguments=second)
        assert code == 406
        assert text.startswith("PRECONDITION_FAILED - inequivalent arg 'x-")
