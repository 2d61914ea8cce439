"""The blocking client against a served broker."""

import pytest

from clients.peer import open_peer, silent
from triomq.clients import BlockingConnection, open_blocking, parse_amqp_url
from triomq.errors import ConfigError, NotFound, Refused
from triomq.protocols import BasicProperties, decode_properties
from triomq.protocols.amqp import QueueDeclare, QueueDeclareOk
from triomq.protocols.control import Browse, GetTotals, ListQueues


def test_a_url_may_be_read_before(url: str) -> None:
    with open_blocking(parse_amqp_url(url)) as connection:
        assert connection.server_properties["product"] == "triomq"


def test_a_wrong_url_is_a_mistake_of_configuration() -> None:
    with pytest.raises(ConfigError, match="amqps"):
        open_blocking("amqps://localhost")


def test_a_message_comes_out_as_it_went_in(connection: BlockingConnection, queue: str) -> None:
    properties = BasicProperties(type="t", headers={"n": 1})
    connection.publish("", queue, b"\x00\xff" * 100_000, properties)
    got = connection.get(queue)
    assert got is not None
    assert (got.exchange, got.routing_key, got.redelivered, got.remaining) == ("", queue, False, 0)
    assert got.body == b"\x00\xff" * 100_000
    assert decode_properties(got.properties) == properties


def test_an_empty_queue_gives_nothing(connection: BlockingConnection, queue: str) -> None:
    assert connection.get(queue) is None


def test_what_was_accepted_is_gone_and_the_rest_comes_back(url: str, connection: BlockingConnection) -> None:
    name = connection.call(QueueDeclare("clients.shared", auto_delete=True), QueueDeclareOk).queue
    for body in (b"a", b"b"):
        connection.publish("", name, body)
    with open_blocking(url) as other:
        first = other.get(name)
        assert first is not None
        other.accept(first)
        assert other.get(name) is not None
    back = connection.get(name)
    assert back is not None
    assert (back.body, back.redelivered) == (b"b", True)
    connection.accept(back)
    assert connection.get(name) is None


def test_all_that_was_taken_can_be_put_back(connection: BlockingConnection, queue: str) -> None:
    for body in (b"a", b"b"):
        connection.publish("", queue, body)
    for expected in ((b"a", False), (b"b", False)):
        got = connection.get(queue)
        assert got is not None
        assert (got.body, got.redelivered) == expected
    connection.requeue_all()
    again = connection.get(queue)
    assert again is not None
    assert (again.body, again.redelivered) == (b"a", True)


def test_a_purge_tells_how_many(connection: BlockingConnection, queue: str) -> None:
    for _ in range(3):
        connection.publish("", queue, b"")
    assert connection.purge(queue) == 3
    assert connection.purge(queue) == 0
    with pytest.raises(NotFound):
        connection.purge("nope")


def test_a_triomq_can_be_looked_into(connection: BlockingConnection, queue: str) -> None:
    assert connection.has_control
    connection.publish("", queue, b"hello")
    (message,) = connection.control_all(Browse(queue))
    assert message.body == b"hello"
    assert connection.control(GetTotals()).queues >= 1
    with pytest.raises(NotFound, match="no queue 'nope'"):
        connection.control(Browse("nope"))


def test_a_list_comes_whole_whatever_the_pages(url: str) -> None:
    with open_blocking(f"{url}?frame_max=4096") as connection:
        declared = {
            connection.call(QueueDeclare(f"pages.{number:0200}", exclusive=True), QueueDeclareOk).queue
            for number in range(30)
        }
        assert [queue.name for queue in connection.control_all(ListQueues("pages.*"))] == sorted(declared)
        assert len(list(connection.control_all(ListQueues("pages.*", limit=7)))) == 30


def test_another_broker_is_told_apart() -> None:
    with open_peer(silent) as url, open_blocking(url) as connection:
        assert not connection.has_control
        with pytest.raises(
            Refused, match=r"is triomq and cannot be looked into: it does not offer triomq\.control; publish, get"
        ):
            connection.control(GetTotals())
