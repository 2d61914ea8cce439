"""Direct reply-to, with pika's blocking connection: one client asks, another answers."""

import re
from collections.abc import Callable

import pika
import pytest
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from peers.conftest import Connect, wait_until
from peers.raw import RawPeer

REPLY_TO = "amq.rabbitmq.reply-to"


class Asker:
    """A channel that consumes direct replies."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self.connection, self.channel = connection, connection.channel()
        self.replies: list[tuple[str, str, bytes]] = []
        self.tag = self.channel.basic_consume(REPLY_TO, self._take, auto_ack=True)

    def _take(self, channel: object, method: object, properties: pika.BasicProperties, body: bytes) -> None:
        self.replies.append((method.exchange, properties.correlation_id or "", body))  # type: ignore[attr-defined]

    def ask(self, queue: str, body: bytes, **properties: object) -> None:
        self.channel.basic_publish("", queue, body, pika.BasicProperties(reply_to=REPLY_TO, **properties))

    def wait(self, count: int = 1) -> list[tuple[str, str, bytes]]:
        wait_until(self.connection, lambda: len(self.replies) >= count, f"{count} replies")
        return self.replies


@pytest.fixture
def asker(connect: Connect) -> Asker:
    return Asker(connect())


def request(channel: BlockingChannel, queue: str) -> pika.BasicProperties:
    """Wait for a request."""
    wait_until(channel.connection, lambda: channel.queue_declare(queue, passive=True).method.message_count > 0)
    _, properties, _ = channel.basic_get(queue, auto_ack=True)
    return properties


def reply_name(asker: Asker, channel: BlockingChannel, queue: str) -> str:
    asker.ask(queue, b"?")
    name = request(channel, queue).reply_to
    assert isinstance(name, str)
    return name


def test_an_answer_goes_straight_back_to_who_has_asked(
    asker: Asker, channel: BlockingChannel, shared_queue: str
) -> None:
    asker.ask(shared_queue, b"?", correlation_id="7", headers={"a": [1]}, content_type="text/plain")
    properties = request(channel, shared_queue)
    assert re.fullmatch(r"amq\.rabbitmq\.reply-to\..{20,}", properties.reply_to)
    assert (properties.headers, properties.content_type, properties.correlation_id) == ({"a": [1]}, "text/plain", "7")
    channel.basic_publish("", properties.reply_to, b"!", pika.BasicProperties(correlation_id="7"))
    assert asker.wait() == [("", "7", b"!")]


def test_the_name_is_the_same_for_all_requests_of_a_channel_and_no_other(
    asker: Asker, connect: Connect, channel: BlockingChannel, shared_queue: str
) -> None:
    first, again = reply_name(asker, channel, shared_queue), reply_name(asker, channel, shared_queue)
    others = reply_name(Asker(connect()), channel, shared_queue)
    assert first == again != others


def test_many_askers_each_get_their_own_answers(connect: Connect, channel: BlockingChannel, shared_queue: str) -> None:
    connection = connect()
    askers = [Asker(connection) for _ in range(5)]
    for round in range(20):
        for number, asker in enumerate(askers):
            asker.ask(shared_queue, b"%d.%d" % (number, round))
    for _ in range(100):
        wait_until(connection, lambda: channel.queue_declare(shared_queue, passive=True).method.message_count > 0)
        _, properties, body = channel.basic_get(shared_queue, auto_ack=True)
        channel.basic_publish("", properties.reply_to, b"to " + body)
    for number, asker in enumerate(askers):
        expected = [("", "", b"to %d.%d" % (number, round)) for round in range(20)]
        assert asker.wait(20) == expected


def test_who_answers_may_ask_whether_anybody_waits(asker: Asker, channel: BlockingChannel, shared_queue: str) -> None:
    name = reply_name(asker, channel, shared_queue)
    for passive in (True, False):
        declared = channel.queue_declare(name, passive=passive).method
        assert (declared.queue, declared.message_count, declared.consumer_count) == (name, 0, 1)
    assert asker.connection.channel().queue_declare(name, passive=True).method.consumer_count == 1
    asker.channel.basic_cancel(asker.tag)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, passive=True)
    assert (caught.value.reply_code, caught.value.reply_text) == (404, f"NOT_FOUND - no queue '{name}' in vhost '/'")


def test_the_name_that_clients_write_is_always_there(channel: BlockingChannel) -> None:
    declared = channel.queue_declare(REPLY_TO, passive=True).method
    assert (declared.queue, declared.message_count, declared.consumer_count) == (REPLY_TO, 0, 1)


def test_a_forged_name_leads_nowhere(asker: Asker, channel: BlockingChannel, shared_queue: str) -> None:
    forged = reply_name(asker, channel, shared_queue) + "x"
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish("", forged, b"!", mandatory=True)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(forged, passive=True)
    assert caught.value.reply_code == 404


def test_an_answer_to_who_has_gone_leads_nowhere(asker: Asker, channel: BlockingChannel, shared_queue: str) -> None:
    name = reply_name(asker, channel, shared_queue)
    asker.connection.close()
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish("", name, b"!", mandatory=True)


def test_an_answer_that_arrives_is_not_returned(
    asker: Asker, channel: BlockingChannel, shared_queue: str, is_triomq: bool
) -> None:
    name = reply_name(asker, channel, shared_queue)
    channel.confirm_delivery()
    if is_triomq:
        channel.basic_publish("", name, b"!", mandatory=True)
    else:
        with pytest.raises(UnroutableError):
            channel.basic_publish("", name, b"!", mandatory=True)
    assert asker.wait() == [("", "", b"!")]


def test_an_answer_may_be_a_copy(asker: Asker, channel: BlockingChannel, shared_queue: str) -> None:
    name = reply_name(asker, channel, shared_queue)
    channel.basic_publish("", "nowhere", b"!", pika.BasicProperties(headers={"CC": [name]}))
    assert asker.wait() == [("", "", b"!")]


def test_a_request_in_a_transaction_is_asked_at_the_commit(
    asker: Asker, channel: BlockingChannel, shared_queue: str
) -> None:
    asker.channel.tx_select()
    asker.ask(shared_queue, b"?")
    assert channel.queue_declare(shared_queue, passive=True).method.message_count == 0
    asker.channel.tx_commit()
    channel.tx_select()
    channel.basic_publish("", request(channel, shared_queue).reply_to, b"!")
    channel.tx_commit()
    assert asker.wait() == [("", "", b"!")]


def test_a_large_answer_arrives(asker: Asker, channel: BlockingChannel, shared_queue: str) -> None:
    name = reply_name(asker, channel, shared_queue)
    channel.basic_publish("", name, b"large" * 100_000)
    assert asker.wait() == [("", "", b"large" * 100_000)]


def test_another_reply_to_is_left_alone(asker: Asker, channel: BlockingChannel, shared_queue: str) -> None:
    for name in ("my queue", REPLY_TO + "s", REPLY_TO + ".forged"):
        asker.channel.basic_publish("", shared_queue, b"?", pika.BasicProperties(reply_to=name, app_id=REPLY_TO))
        properties = request(channel, shared_queue)
        assert (properties.reply_to, properties.app_id) == (name, REPLY_TO)


def test_after_a_cancel_one_may_consume_replies_again(
    asker: Asker, channel: BlockingChannel, shared_queue: str
) -> None:
    name = reply_name(asker, channel, shared_queue)
    asker.channel.basic_cancel(asker.tag)
    asker.channel.basic_consume(REPLY_TO, asker._take, auto_ack=True)
    new = reply_name(asker, channel, shared_queue)
    channel.basic_publish("", name, b"to the old one")
    channel.basic_publish("", new, b"to the new one")
    assert asker.wait()[-1:] == [("", "", b"to the new one")]


def refusal(action: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ChannelClosedByBroker) as caught:
        action()
    return caught.value.reply_code, caught.value.reply_text


def test_replies_are_consumed_without_acknowledgement(channel: BlockingChannel) -> None:
    answer = refusal(lambda: channel.basic_consume(REPLY_TO, print))
    assert answer == (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")


def test_a_channel_has_one_consumer_of_replies(asker: Asker) -> None:
    answer = refusal(lambda: asker.channel.basic_consume(REPLY_TO, print, auto_ack=True))
    assert answer == (406, "PRECONDITION_FAILED - reply consumer already set")


def test_who_asks_must_be_able_to_hear_the_answer(asker: Asker) -> None:
    other = asker.connection.channel()
    other.confirm_delivery()
    answer = refusal(lambda: other.basic_publish("", "q", b"?", pika.BasicProperties(reply_to=REPLY_TO)))
    assert answer == (406, "PRECONDITION_FAILED - fast reply consumer does not exist")


def test_a_missing_exchange_is_said_first(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    properties = pika.BasicProperties(reply_to=REPLY_TO)
    assert refusal(lambda: channel.basic_publish("no such exchange", "q", b"?", properties))[0] == 404


OTHERS: list[tuple[str, Callable[[BlockingChannel, str], object], int]] = [
    ("bind", lambda channel, name: channel.queue_bind(name, "amq.direct", "k"), 404),
    ("purge", lambda channel, name: channel.queue_purge(name), 404),
    ("get", lambda channel, name: channel.basic_get(name), 404),
    ("consume", lambda channel, name: channel.basic_consume(name, print, auto_ack=True), 404),
    ("unbind", lambda channel, name: channel.queue_unbind(name, "amq.direct", "k"), 0),
    ("delete", lambda channel, name: channel.queue_delete(name), 0),
]


@pytest.mark.parametrize(("do", "code"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS])
@pytest.mark.parametrize("own", [True, False], ids=["own", "another's"])
def test_a_reply_name_is_no_queue_to_clients(
    asker: Asker,
    channel: BlockingChannel,
    shared_queue: str,
    do: Callable[[BlockingChannel, str], object],
    code: int,
    own: bool,
) -> None:
    name = reply_name(asker, channel, shared_queue)
    user = asker.connection.channel() if own else channel.connection.channel()
    if code:
        assert refusal(lambda: do(user, name)) == (code, f"NOT_FOUND - no queue '{name}' in vhost '/'")
    else:
        do(user, name)
    channel.basic_publish("", name, b"!")
    assert asker.wait() == [("", "", b"!")]


def test_a_tag_in_use_is_said_first(raw_peer: RawPeer) -> None:
    queue = raw_peer.declare_queue()
    raw_peer.call(1, commands.Basic.Consume(queue=queue, consumer_tag="t"), commands.Basic.ConsumeOk)
    raw_peer.send(1, commands.Basic.Consume(queue=REPLY_TO, consumer_tag="t", no_ack=True))
    close = raw_peer.expect(commands.Connection.Close)
    assert (close.reply_code, close.reply_text) == (530, "NOT_ALLOWED - attempt to reuse consumer tag 't'")
