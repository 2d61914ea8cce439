"""A broker that is low on memory, and pika's blocking connection: blocked, drained, unblocked, nothing lost."""

import threading
from collections.abc import Iterator
from functools import partial

import pika
import pytest

from peers.conftest import wait_until
from peers.served import open_served

MARK = 4_000_000
BODY = b"x" * 10_000
COUNT = 2_000


@pytest.fixture(scope="module")
def small_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker whose queues may hold four megabytes."""
    if request.config.getoption("--broker-url"):
        pytest.skip("this test needs a broker with a mark of its own")
    with open_served(memory_high_watermark=str(MARK)) as served:
        yield served.url


class Flood(threading.Thread):
    """Publishes more than the broker may hold, from a connection that does nothing else."""

    def __init__(self, url: str, queue: str, *, confirms: bool) -> None:
        super().__init__(daemon=True)
        self.blocked, self.unblocked = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self._parameters = pika.URLParameters(url)
        self._queue, self._confirms = queue, confirms

    def run(self) -> None:
        try:
            with pika.BlockingConnection(self._parameters) as connection:
                # The blocking connection itself would call back in process_data_events alone, and not in basic_publish.
                connection._impl.add_on_connection_blocked_callback(lambda *_: self.blocked.set())
                connection._impl.add_on_connection_unblocked_callback(lambda *_: self.unblocked.set())
                channel = connection.channel()
                if self._confirms:
                    channel.confirm_delivery()
                for number in range(COUNT):
                    properties = pika.BasicProperties(message_id=str(number), delivery_mode=2)
                    channel.basic_publish("", self._queue, BODY, properties)
                channel.queue_declare(self._queue, passive=True)  # all of it has been taken in
        except BaseException as error:
            self.error = error


@pytest.mark.parametrize("confirms", [True, False])
def test_flood_is_held_until_messages_are_consumed_and_nothing_is_lost(
    small_url: str, name: str, confirms: bool
) -> None:
    with pika.BlockingConnection(pika.URLParameters(small_url)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        flood = Flood(small_url, name, confirms=confirms)
        flood.start()
        wait_until(connection, flood.blocked.is_set, "connection.blocked")
        held = channel.queue_declare(name, passive=True).method.message_count
        connection.process_data_events(time_limit=1)
        assert channel.queue_declare(name, passive=True).method.message_count == held < COUNT
        found: list[str] = []
        channel.basic_qos(prefetch_count=100)

        def take(channel: object, method: object, properties: pika.BasicProperties, body: bytes) -> None:
            found.append(properties.message_id)
            channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

        channel.basic_consume(name, take)
        wait_until(connection, lambda: len(found) == COUNT, "all messages")
        assert found == [str(number) for number in range(COUNT)]
        flood.join(100)
        assert flood.error is None
        assert flood.unblocked.is_set()
        channel.queue_delete(name)


def test_publishing_consumer_is_refused_and_goes_on_consuming(small_url: str, name: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(small_url)) as connection:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        flood = Flood(small_url, name, confirms=False)
        flood.start()
        wait_until(connection, flood.blocked.is_set, "connection.blocked")
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=1)
        tags: list[int] = []
        channel.basic_consume(name, lambda _, method, properties, body: tags.append(method.delivery_tag))
        wait_until(connection, lambda: len(tags) == 1, "a delivery")
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", name, b"")
        for count in range(2, COUNT + 1):
            channel.basic_ack(tags[-1])
            wait_until(connection, partial(_has, tags, count), "the next delivery")
        channel.basic_ack(tags[-1])
        flood.join(100)
        assert flood.error is None
        channel.queue_delete(name)


def _has(tags: list[int], count: int) -> bool:
    return len(tags) == count
