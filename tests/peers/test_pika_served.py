"""Brokers that a test configures, ends or kills, and starts again, as pika's blocking connection sees them."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, NackError

from peers.conftest import wait_until
from peers.pika_client import drain, publish
from peers.served import STOP_DEADLINE, Served, open_served

PERSISTENT = pika.BasicProperties(delivery_mode=2)
LIMITS = """
[[policies]]
name = "limits"
pattern = "^log"
apply_to = "queues"
definition = { max-length = 3, dead-letter-exchange = "", dead-letter-routing-key = "dead" }
"""
OTHERS = """
[[policies]]
name = "limits"
pattern = "^log"
definition = { max-length = 3, overflow = "reject-publish" }
[[policies]]
name = "lost"
pattern = "^shop$"
apply_to = "exchanges"
definition = { alternate-exchange = "amq.fanout" }
"""


@pytest.fixture(autouse=True)
def _own_broker(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--broker-url"):
        pytest.skip("this test starts and ends `triomq serve` itself")


@contextmanager
def connected(*config: str, **options: str) -> Iterator[tuple[Served, BlockingChannel]]:
    """Serve, and open a channel; both end in order unless the test has killed the broker."""
    with open_served(*config, **options) as served:
        connection = pika.BlockingConnection(pika.URLParameters(served.url))
        yield served, connection.channel()
        if connection.is_open:
            connection.close()


def test_durable_resources_and_messages_survive_a_restart(tmp_path: Path) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain", headers={"a": [1, {"b": True}]}, delivery_mode=2, priority=4, message_id="m"
    )
    with connected(data_dir=str(tmp_path)) as (_, channel):
        channel.exchange_declare("shop", "topic", durable=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5})
        channel.queue_bind("orders", "shop", "order.#")
        channel.queue_declare("brief")
        channel.queue_declare("mine", durable=True, exclusive=True)
        channel.confirm_delivery()
        channel.basic_publish("shop", "order.new", b"persistent", sent, mandatory=True)
        channel.basic_publish("shop", "order.new", b"transient", mandatory=True)
        channel.basic_publish("", "brief", b"gone", PERSISTENT, mandatory=True)
    with connected(data_dir=str(tmp_path)) as (_, channel):
        channel.exchange_declare("shop", passive=True)
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 5})
        channel.confirm_delivery()
        channel.basic_publish("shop", "order.new", b"new", PERSISTENT, mandatory=True)
        method, properties, body = channel.basic_get("orders", auto_ack=True)
        assert (method.exchange, method.routing_key, body) == ("shop", "order.new", b"persistent")
        assert not method.redelivered
        assert properties == sent
        assert drain(channel, "orders") == [b"new"]
        for name in ("brief", "mine"):
            with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
                channel.connection.channel().queue_declare(name, passive=True)


def test_committed_transactions_survive_a_kill_and_others_do_not(tmp_path: Path) -> None:
    with connected(data_dir=str(tmp_path)) as (served, channel):
        for name in ("q", "other"):
            channel.queue_declare(name, durable=True)
        channel.tx_select()
        for body in (b"1", b"2", b"3"):
            channel.basic_publish("", "q", body, PERSISTENT)
        channel.basic_publish("", "other", b"committed", PERSISTENT)
        channel.tx_commit()
        first, _, _ = channel.basic_get("q")
        channel.basic_ack(first.delivery_tag)
        channel.tx_commit()
        second, _, _ = channel.basic_get("q")
        channel.basic_ack(second.delivery_tag)
        channel.basic_publish("", "other", b"never", PERSISTENT)
        channel.queue_declare("q", passive=True)  # answered, so all before it was read
        served.process.send_signal(signal.SIGKILL)
        served.process.wait(STOP_DEADLINE)
        with pytest.raises(AMQPConnectionError):
            channel.connection.process_data_events(time_limit=STOP_DEADLINE)
    with connected(data_dir=str(tmp_path)) as (_, channel):
        found = [channel.basic_get("q") for _ in range(2)]
        # Whether the mark of the delivery was on disk yet, that of the second message, cannot be known.
        assert [body for _, _, body in found] == [b"2", b"3"]
        assert not found[1][0].redelivered
        assert drain(channel, "other") == [b"committed"]


def test_policies_change_at_once_when_their_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "triomq.toml"
    file.write_text(LIMITS, encoding="utf-8")
    with connected(str(file)) as (served, channel):
        channel.confirm_delivery()
        for queue in ("log.a", "q", "dead"):
            channel.queue_declare(queue)
        channel.exchange_declare("shop")
        channel.queue_bind("q", "amq.fanout")
        publish(channel, "log.a", b"1", b"2", b"3", b"4")
        assert drain(channel, "dead") == [b"1"]
        for text in (OTHERS.replace("= 3", "= -3"), OTHERS):  # the first one is wrong, and changes nothing
            file.write_text(text, encoding="utf-8")
            served.process.send_signal(signal.SIGHUP)

        def is_reached() -> bool:
            channel.basic_publish("shop", "k", b"found")
            return bool(drain(channel, "q"))

        wait_until(channel.connection, is_reached, "the alternate of the exchange shop")
        with pytest.raises(NackError):
            publish(channel, "log.a", b"5")
        assert drain(channel, "log.a") == [b"2", b"3", b"4"]
