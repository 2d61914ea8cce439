"""Exchanges and bindings: each type, the default exchange, exchange to exchange, unbinding and deleting."""

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from peers.conftest import Connect
from peers.test_pika_queues import drain

Headers = dict[str, object]


@pytest.fixture
def exchange(channel: BlockingChannel, connect: Connect, name: str) -> Iterator[Callable[[str], str]]:
    """Declare exchanges of given types; they are deleted after the test."""
    declared: list[str] = []

    def declare(kind: str, **options: object) -> str:
        declared.append(f"{name}.{len(declared)}")
        channel.exchange_declare(declared[-1], kind, **options)
        return declared[-1]

    yield declare
    cleaner = connect().channel()
    for found in declared:
        cleaner.exchange_delete(found)


def queues(channel: BlockingChannel, number: int) -> list[str]:
    return [channel.queue_declare("", exclusive=True).method.queue for _ in range(number)]


def test_a_direct_exchange_matches_the_whole_key(channel: BlockingChannel, exchange: Callable[[str], str]) -> None:
    direct, (first, second) = exchange("direct"), queues(channel, 2)
    channel.queue_bind(first, direct, "a")
    channel.queue_bind(second, direct, "b")
    channel.queue_bind(second, direct, "a")
    for key in ("a", "b", "c", "a.b", ""):
        channel.basic_publish(direct, key, key.encode())
    assert drain(channel, first) == [b"a"]
    assert drain(channel, second) == [b"a", b"b"]


def test_a_fanout_exchange_ignores_the_key(channel: BlockingChannel, exchange: Callable[[str], str]) -> None:
    fanout, bound = exchange("fanout"), queues(channel, 3)
    for queue in bound:
        channel.queue_bind(queue, fanout, "whatever")
    channel.basic_publish(fanout, "other", b"all")
    assert [drain(channel, queue) for queue in bound] == [[b"all"]] * 3


def test_two_bindings_of_one_queue_bring_one_copy(channel: BlockingChannel, exchange: Callable[[str], str]) -> None:
    topic, (queue,) = exchange("topic"), queues(channel, 1)
    for pattern in ("#", "a.*", "*.b", "a.b"):
        channel.queue_bind(queue, topic, pattern)
    channel.basic_publish(topic, "a.b", b"once")
    assert drain(channel, queue) == [b"once"]


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("#", ["", "a", "a.b", "a.b.c", ".", "..a"], []),
        ("*", ["a", "abc"], ["", "a.b", "."]),  # an empty key has no word at all
        ("a.*", ["a.b", "a."], ["a", "a.b.c", "b.a"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["b", "ab", "b.a"]),
        ("#.a", ["a", "b.a", "c.b.a"], ["a.b", "ba"]),
        ("*.a.#", ["x.a", "x.a.b", "x.a.b.c"], ["a", "a.b", "x.y.a"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b"], ["a", "a.b.c", "b"]),
        ("#.#", ["", "a", "a.b"], []),
        ("*.*", ["a.b", "."], ["a", "a.b.c"]),
        ("#.*", ["a", "a.b", "."], [""]),
        ("a.b", ["a.b"], ["a.b.c", "a", "a.*", "a.#"]),
        ("", [""], ["a", "."]),
    ],
)
def test_a_topic_exchange_matches_words(
    channel: BlockingChannel, exchange: Callable[[str], str], pattern: str, matching: list[str], others: list[str]
) -> None:
    topic, (queue,) = exchange("topic"), queues(channel, 1)
    channel.queue_bind(queue, topic, pattern)
    for key in (*matching, *others):
        channel.basic_publish(topic, key, key.encode())
    assert drain(channel, queue) == [key.encode() for key in matching]


@pytest.mark.parametrize(
    ("binding", "matching", "others"),
    [
        (
            {"x-match": "all", "a": 1, "b": "x"},
            [{"a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 0}],
            [{"a": 1}, {"b": "x"}, {}],
        ),
        (
            {"x-match": "any", "a": 1, "b": "x"},
            [{"a": 1}, {"b": "x", "a": 2}, {"a": 1, "b": "x"}],
            [{"a": 2}, {}, {"c": 1}],
        ),
        ({"a": 1, "b": "x"}, [{"a": 1, "b": "x"}], [{"a": 1}, {"a": 1, "b": "y"}]),
        ({"x-match": "all"}, [{}, {"a": 1}], []),
        ({"x-match": "any"}, [], [{}, {"a": 1}]),
        ({"x-match": "all", "a": None}, [{"a": 1}, {"a": "x"}, {"a": None}], [{}, {"b": 1}]),
        ({"x-match": "all", "x-kind": "k", "a": 1}, [{"a": 1}, {"a": 1, "x-kind": "k"}], [{"x-kind": "k"}]),
        ({"x-match": "all-with-x", "x-kind": "k", "a": 1}, [{"a": 1, "x-kind": "k"}], [{"a": 1}, {"x-kind": "k"}]),
        ({"x-match": "any-with-x", "x-kind": "k", "a": 1}, [{"x-kind": "k"}, {"a": 1}], [{"b": 1}, {}]),
    ],
)
def test_a_headers_exchange_matches_headers(
    channel: BlockingChannel,
    exchange: Callable[[str], str],
    binding: Headers,
    matching: list[Headers],
    others: list[Headers],
) -> None:
    headers, (queue,) = exchange("headers"), queues(channel, 1)
    channel.queue_bind(queue, headers, "ignored", binding)
    for sent in (*matching, *others):
        channel.basic_publish(headers, "", repr(sent).encode(), pika.BasicProperties(headers=sent))
    assert drain(channel, queue) == [repr(sent).encode() for sent in matching]


def test_a_message_without_headers_matches_no_header(channel: BlockingChannel, exchange: Callable[[str], str]) -> None:
    headers, (queue,) = exchange("headers"), queues(channel, 1)
    channel.queue_bind(queue, headers, "", {"x-match": "any", "a": 1})
    channel.basic_publish(headers, "", b"bare")
    assert drain(channel, queue) == []


def test_the_default_exchange_routes_to_the_queue_of_that_name(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"straight")
    channel.basic_publish("", "no queue", b"lost")
    assert drain(channel, queue) == [b"straight"]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_the_predeclared_exchanges_exist(channel: BlockingChannel, queue: str, kind: str) -> None:
    channel.exchange_declare(f"amq.{kind}", kind, durable=True)
    channel.queue_bind(queue, f"amq.{kind}", queue, {"only": queue})
    channel.basic_publish(f"amq.{kind}", queue, b"found", pika.BasicProperties(headers={"only": queue}))
    assert drain(channel, queue) == [b"found"]


def test_amq_match_is_the_headers_exchange(channel: BlockingChannel, queue: str) -> None:
    channel.queue_bind(queue, "amq.match", "", {"only": queue})
    channel.basic_publish("amq.match", "", b"found", pika.BasicProperties(headers={"only": queue}))
    assert drain(channel, queue) == [b"found"]


def test_an_unbound_queue_gets_nothing_more(
    channel: BlockingChannel, queue: str, exchange: Callable[[str], str]
) -> None:
    direct = exchange("direct")
    channel.queue_bind(queue, direct, "a")
    channel.queue_bind(queue, direct, "b")
    channel.basic_publish(direct, "a", b"before")
    channel.queue_unbind(queue, direct, "a")
    channel.basic_publish(direct, "a", b"after")
    channel.basic_publish(direct, "b", b"still")
    assert drain(channel, queue) == [b"before", b"still"]


def test_bindings_differ_by_their_arguments(
    channel: BlockingChannel, queue: str, exchange: Callable[[str], str]
) -> None:
    headers = exchange("headers")
    channel.queue_bind(queue, headers, "", {"a": 1})
    channel.queue_bind(queue, headers, "", {"b": 1})
    channel.queue_unbind(queue, headers, "", {"a": 1})
    for key in ("a", "b"):
        channel.basic_publish(headers, "", key.encode(), pika.BasicProperties(headers={key: 1}))
    assert drain(channel, queue) == [b"b"]


def test_an_exchange_bound_to_an_exchange_passes_messages_on(
    channel: BlockingChannel, queue: str, exchange: Callable[[str], str]
) -> None:
    outer, inner = exchange("topic"), exchange("direct")
    channel.exchange_bind(inner, outer, "a.*")
    channel.queue_bind(queue, inner, "a.x")
    for key in ("a.x", "a.y", "b.x"):
        channel.basic_publish(outer, key, key.encode())
    assert drain(channel, queue) == [b"a.x"]
    channel.exchange_unbind(inner, outer, "a.*")
    channel.basic_publish(outer, "a.x", b"after")
    assert drain(channel, queue) == []


def test_a_cycle_of_exchanges_delivers_once(
    channel: BlockingChannel, queue: str, exchange: Callable[[str], str]
) -> None:
    first, second = exchange("fanout"), exchange("fanout")
    channel.exchange_bind(first, second)
    channel.exchange_bind(second, first)
    channel.queue_bind(queue, first)
    channel.queue_bind(queue, second)
    channel.basic_publish(first, "", b"once")
    assert drain(channel, queue) == [b"once"]


def test_a_message_keeps_the_exchange_that_it_was_published_to(
    channel: BlockingChannel, queue: str, exchange: Callable[[str], str]
) -> None:
    outer, inner = exchange("fanout"), exchange("fanout")
    channel.exchange_bind(inner, outer)
    channel.queue_bind(queue, inner)
    channel.basic_publish(outer, "key", b"")
    method, _, _ = channel.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key) == (outer, "key")


def test_a_deleted_exchange_takes_its_bindings_along(
    connection: pika.BlockingConnection, queue: str, exchange: Callable[[str], str]
) -> None:
    direct = exchange("direct")
    channel = connection.channel()
    channel.queue_bind(queue, direct, "a")
    channel.exchange_delete(direct)
    channel.exchange_declare(direct, "direct")
    channel.basic_publish(direct, "a", b"unbound")
    assert drain(channel, queue) == []


def test_a_deleted_queue_takes_its_bindings_along(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.queue_bind(name, "amq.direct", name)
    channel.queue_delete(name)
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("amq.direct", name, b"unbound")
    assert drain(channel, name) == []


@pytest.mark.parametrize("last_binding", ["queue", "exchange", "deleted queue"])
def test_an_auto_delete_exchange_goes_with_its_last_binding(
    connection: pika.BlockingConnection, exchange: Callable[..., str], last_binding: str
) -> None:
    source, target = exchange("fanout", auto_delete=True), exchange("fanout")
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.exchange_declare(source, passive=True)  # without any binding it stays
    if last_binding == "exchange":
        channel.exchange_bind(target, source)
        channel.exchange_unbind(target, source)
    else:
        channel.queue_bind(queue, source)
        if last_binding == "queue":
            channel.queue_unbind(queue, source)
        else:
            channel.queue_delete(queue)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.exchange_declare(source, passive=True)
    assert caught.value.reply_code == 404


def test_an_unused_exchange_is_deleted_and_a_used_one_spared(
    connection: pika.BlockingConnection, queue: str, exchange: Callable[[str], str]
) -> None:
    used, unused = exchange("direct"), exchange("direct")
    channel = connection.channel()
    channel.queue_bind(queue, used, "a")
    channel.exchange_delete(unused, if_unused=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.exchange_delete(used, if_unused=True)
    assert caught.value.reply_code == 406
    connection.channel().exchange_declare(used, passive=True)


def test_an_internal_exchange_takes_messages_from_exchanges_only(
    connection: pika.BlockingConnection, queue: str, exchange: Callable[..., str]
) -> None:
    outer, inner = exchange("fanout"), exchange("fanout", internal=True)
    channel = connection.channel()
    channel.exchange_bind(inner, outer)
    channel.queue_bind(queue, inner)
    channel.basic_publish(outer, "", b"inside")
    assert drain(channel, queue) == [b"inside"]
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish(inner, "", b"refused")
    assert caught.value.reply_code == 403
