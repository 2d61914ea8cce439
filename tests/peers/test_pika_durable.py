"""What is durable after a restart, as pika sees it; the broker is ended, or killed, and started again."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker

from peers.served import STOP_DEADLINE, Served, open_served
from peers.test_pika_queues import count, drain

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture(autouse=True)
def _own_broker(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--broker-url"):
        pytest.skip("this test starts and ends `triomq serve` itself")


@contextmanager
def connected(directory: Path) -> Iterator[tuple[Served, BlockingChannel]]:
    """Serve with a data directory, and open a channel; both end in order unless the test has killed the broker."""
    with open_served(data_dir=str(directory)) as served:
        connection = pika.BlockingConnection(pika.URLParameters(served.url))
        yield served, connection.channel()
        if connection.is_open:
            connection.close()


def kill(served: Served, channel: BlockingChannel) -> None:
    served.process.send_signal(signal.SIGKILL)
    served.process.wait(STOP_DEADLINE)
    with pytest.raises(AMQPConnectionError):
        channel.connection.process_data_events(time_limit=STOP_DEADLINE)


def test_what_is_durable_is_there_again_and_what_is_not_is_gone(tmp_path: Path) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain", headers={"a": [1, {"b": True}]}, delivery_mode=2, priority=4, message_id="m"
    )
    with connected(tmp_path) as (_, channel):
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5})
        channel.queue_bind("orders", "shop", "order.#")
        channel.queue_declare("brief")
        channel.queue_declare("mine", durable=True, exclusive=True)
        channel.confirm_delivery()
        channel.basic_publish("shop", "order.new", b"kept", sent, mandatory=True)
        channel.basic_publish("shop", "order.new", b"transient", mandatory=True)
        channel.basic_publish("", "brief", b"gone", PERSISTENT, mandatory=True)
    with connected(tmp_path) as (_, channel):
        channel.exchange_declare("shop", passive=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5})
        channel.confirm_delivery()
        channel.basic_publish("shop", "order.new", b"new", PERSISTENT, mandatory=True)
        method, properties, body = channel.basic_get("orders", auto_ack=True)
        assert (method.exchange, method.routing_key, method.redelivered, body) == ("shop", "order.new", False, b"kept")
        assert properties == sent
        assert drain(channel, "orders") == [b"new"]
        for name in ("brief", "mine"):
            with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
                channel.connection.channel().queue_declare(name, passive=True)


def test_what_was_confirmed_outlives_a_broker_that_is_killed(tmp_path: Path) -> None:
    with connected(tmp_path) as (served, channel):
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for number in range(100):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT, mandatory=True)
        kill(served, channel)
    with connected(tmp_path) as (_, channel):
        assert drain(channel, "q") == [b"%d" % number for number in range(100)]


def test_what_was_committed_outlives_a_broker_that_is_killed_and_what_was_not_does_not(tmp_path: Path) -> None:
    with connected(tmp_path) as (served, channel):
        for name in ("q", "other"):
            channel.queue_declare(name, durable=True)
        channel.tx_select()
        channel.basic_publish("", "q", b"committed", PERSISTENT)
        channel.basic_publish("", "other", b"committed", PERSISTENT)
        channel.tx_commit()
        method, _, _ = channel.basic_get("q")
        channel.basic_ack(method.delivery_tag)
        channel.basic_publish("", "other", b"never", PERSISTENT)
        channel.queue_declare("q", passive=True)  # answered, so all before it was read
        kill(served, channel)
    with connected(tmp_path) as (_, channel):
        assert drain(channel, "q") == [b"committed"]
        assert drain(channel, "other") == [b"committed"]


def test_what_a_consumer_had_when_the_broker_was_killed_comes_back_to_its_place(tmp_path: Path) -> None:
    with connected(tmp_path) as (served, channel):
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for number in range(4):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT, mandatory=True)
        first, _, _ = channel.basic_get("q")
        channel.basic_get("q")
        channel.basic_ack(first.delivery_tag)
        # Confirmed, so the acknowledgement before it is on disk as well.
        channel.basic_publish("", "q", b"4", PERSISTENT, mandatory=True)
        kill(served, channel)
    with connected(tmp_path) as (_, channel):
        found = [channel.basic_get("q") for _ in range(count(channel, "q"))]
        assert [body for _, _, body in found] == [b"1", b"2", b"3", b"4"]
        assert [method.redelivered for method, _, _ in found] == [True, False, False, False]
