"""Policies of a served broker, from its configuration, and anew at SIGHUP."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from peers.conftest import wait_until
from peers.served import Served, open_served
from peers.test_pika_queues import count, drain

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
priority = 1
definition = { max-length = 1, overflow = "reject-publish" }
[[policies]]
name = "lost"
pattern = "^shop$"
apply_to = "exchanges"
definition = { alternate-exchange = "amq.fanout" }
[[policies]]
name = "less"
pattern = "^log"
definition = { max-length = 0 }
"""


class Configured:
    """A served broker, and the file that it reads."""

    def __init__(self, served: Served, file: Path) -> None:
        self.served = served
        self.connection = pika.BlockingConnection(pika.URLParameters(served.url))
        self._file = file

    def change(self, text: str) -> None:
        """Configure it anew."""
        self._file.write_text(text, encoding="utf-8")
        self.served.process.send_signal(signal.SIGHUP)

    def channel(self) -> BlockingChannel:
        return self.connection.channel()


@pytest.fixture
def configured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Configured]:
    if request.config.getoption("--broker-url"):
        pytest.skip("this test configures `triomq serve` itself")
    file = tmp_path / "triomq.toml"
    file.write_text(LIMITS, encoding="utf-8")
    with open_served(str(file)) as served:
        found = Configured(served, file)
        yield found
        found.connection.close()


def publish(channel: BlockingChannel, exchange: str, key: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish(exchange, key, body)


def test_a_policy_limits_what_clients_declare(configured: Configured) -> None:
    channel = configured.channel()
    for queue in ("log.a", "other", "dead"):
        channel.queue_declare(queue)
    for queue in ("log.a", "other"):
        publish(channel, "", queue, b"1", b"2", b"3", b"4", b"5")
    assert (drain(channel, "log.a"), count(channel, "other")) == ([b"3", b"4", b"5"], 5)
    assert drain(channel, "dead") == [b"1", b"2"]
    channel.queue_declare("log.a")  # as it was declared
    with pytest.raises(ChannelClosedByBroker) as refused:
        channel.queue_declare("log.a", arguments={"x-max-length": 3})
    assert refused.value.reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'log.a' in vhost '/': received the value '3' "
        "of type 'signedint' but current is none"
    )


def test_the_smaller_limit_holds(configured: Configured) -> None:
    channel = configured.channel()
    channel.queue_declare("log.small", arguments={"x-max-length": 2})
    publish(channel, "", "log.small", b"1", b"2", b"3")
    assert drain(channel, "log.small") == [b"2", b"3"]


def test_a_reload_changes_what_is_there_at_once(configured: Configured) -> None:
    channel = configured.channel()
    channel.confirm_delivery()
    for queue in ("log.a", "q"):
        channel.queue_declare(queue)
    channel.exchange_declare("shop")
    channel.queue_bind("q", "amq.fanout")
    publish(channel, "", "log.a", b"1", b"2", b"3")
    configured.change(OTHERS)
    reached = []

    def is_reached() -> bool:
        publish(channel, "shop", "k", b"found")
        reached.extend(drain(channel, "q"))
        return bool(reached)

    wait_until(configured.connection, is_reached, "the alternate of the exchange shop")
    assert drain(channel, "log.a") == [b"1", b"2", b"3"]  # what refuses new messages sheds no old ones
    publish(channel, "", "log.a", b"4")
    with pytest.raises(pika.exceptions.NackError):
        publish(channel, "", "log.a", b"5")
    configured.change("")
    wait_until(configured.connection, lambda: _takes(channel, "log.a"), "no policy any more")
    assert drain(channel, "log.a")[0] == b"4"


def _takes(channel: BlockingChannel, queue: str) -> bool:
    try:
        publish(channel, "", queue, b"again")
    except pika.exceptions.NackError:
        return False
    return True


def test_a_configuration_that_is_wrong_changes_nothing(configured: Configured) -> None:
    channel = configured.channel()
    channel.queue_declare("log.a")
    configured.change(LIMITS.replace("max-length = 3", "max-length = -3"))
    configured.change(LIMITS.replace("max-length = 3", "max-length = 2"))
    publish(channel, "", "log.a", b"1", b"2", b"3")
    wait_until(configured.connection, lambda: count(channel, "log.a") == 2, "the policy that is right")
