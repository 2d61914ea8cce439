"""The blocking client against a served broker."""

import socket

import pytest

from clients.peer import HungUp, open_peer, silent
from triomq.clients import BlockingConnection, open_blocking, parse_amqp_url
from triomq.errors import AccessRefused, Disconnected, NotFound, Refused
from triomq.protocols import BasicProperties
from triomq.protocols.amqp import AMQPEngine, Event, QueueDeclare, QueueDeclareOk
from triomq.protocols.control import BrowseQueue, GetTotals, ListQueues


def test_url_may_be_read_before(url: str) -> None:
    with open_blocking(parse_amqp_url(url)) as connection:
        assert connection.server_properties["product"] == "triomq"


def test_message_comes_out_as_it_went_in(connection: BlockingConnection, queue: str) -> None:
    properties = BasicProperties(type="t", headers={"n": 1})
    connection.publish("", queue, b"\x00\xff" * 100_000, properties)
    got = connection.get(queue)
    assert got is not None
    assert (got.exchange, got.routing_key, got.redelivered, got.remaining) == ("", queue, False, 0)
    assert got.body == b"\x00\xff" * 100_000
    assert got.properties == properties


def test_empty_queue_gives_nothing(connection: BlockingConnection, queue: str) -> None:
    assert connection.get(queue) is None


def test_accepted_messages_are_gone_and_the_rest_comes_back(url: str, connection: BlockingConnection) -> None:
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


def test_purge_tells_how_many(connection: BlockingConnection, queue: str) -> None:
    for _ in range(3):
        connection.publish("", queue, b"")
    assert connection.purge(queue) == 3
    assert connection.purge(queue) == 0
    with pytest.raises(NotFound):
        connection.purge("nope")


def test_triomq_can_be_looked_into(connection: BlockingConnection, queue: str) -> None:
    assert connection.has_control
    connection.publish("", queue, b"hello")
    (message,) = connection.control_all(BrowseQueue(queue))
    assert message.body == b"hello"
    assert connection.control(GetTotals()).queues >= 1
    with pytest.raises(NotFound, match="no queue 'nope'"):
        connection.control(BrowseQueue("nope"))


def test_list_comes_whole_whatever_the_pages(url: str) -> None:
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


def test_where_nobody_listens_it_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Disconnected, match=rf"127\.0\.0\.1:{port}"):
        open_blocking(f"amqp://127.0.0.1:{port}")
    with pytest.raises(Disconnected, match=r"/nowhere/triomq\.sock"):
        open_blocking("amqp+unix:///nowhere/triomq.sock")


@pytest.mark.parametrize(("user", "place"), [("guest:wrong", ""), ("guest:guest", "/nope")])
def test_refused_user_is_named_in_the_error(url: str, user: str, place: str) -> None:
    with pytest.raises(AccessRefused, match=r"^(403 ACCESS_REFUSED|530 NOT_ALLOWED) - "):
        open_blocking(url.replace("guest:guest", user) + place)


def test_connection_that_is_lost_stays_lost() -> None:
    def hang_up(engine: AMQPEngine, event: Event) -> None:
        raise HungUp

    with open_peer(hang_up) as url, open_blocking(url) as connection:
        for _ in range(2):
            with pytest.raises(Disconnected):
                connection.call(QueueDeclare("q"), QueueDeclareOk)
        with pytest.raises(Disconnected):
            connection.publish("", "q", b"x")


def test_close_of_the_broker_is_an_error_with_its_code() -> None:
    def close(engine: AMQPEngine, event: Event) -> None:
        engine.close(402, "never heard of it")

    refusal = pytest.raises(NotFound, match="402 INVALID_PATH - never heard of it")
    with open_peer(close) as url, open_blocking(url) as connection, refusal:
        connection.call(QueueDeclare("q"), QueueDeclareOk)


def test_broker_that_does_not_answer_in_time_is_given_up() -> None:
    late = pytest.raises(Disconnected, match=r"says nothing for 0\.5 s; .* raise \?timeout=")
    with open_peer(silent) as url, open_blocking(url.replace("=5", "=0.5")) as connection, late:
        connection.call(QueueDeclare("q"), QueueDeclareOk)


def test_closing_a_second_time_does_nothing_and_calls_after_it_fail(url: str) -> None:
    connection = open_blocking(url)
    connection.close()
    connection.close()
    with pytest.raises(Disconnected, match="has ended; open a new one"):
        connection.purge("q")


def test_channel_is_opened_again_after_the_broker_has_closed_it(connection: BlockingConnection) -> None:
    for _ in range(3):
        with pytest.raises(NotFound, match="404 NOT_FOUND - no queue 'nope' in vhost '/'"):
            connection.call(QueueDeclare("nope", passive=True), QueueDeclareOk)
    assert connection.call(QueueDeclare("", exclusive=True), QueueDeclareOk).message_count == 0
