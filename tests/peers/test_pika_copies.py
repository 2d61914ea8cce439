"""The headers CC and BCC, with pika's blocking connection."""

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from peers.conftest import Connect
from peers.test_pika_queues import drain

Headers = dict[str, object]


def declared(channel: BlockingChannel, count: int) -> list[str]:
    return [channel.queue_declare("", exclusive=True).method.queue for _ in range(count)]


def publish(
    channel: BlockingChannel, key: str, headers: Headers, *, exchange: str = "", mandatory: bool = False
) -> None:
    channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers), mandatory=mandatory)


def headers_in(channel: BlockingChannel, queue: str) -> Headers:
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert body == b"x"
    return properties.headers


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_a_message_goes_by_its_key_and_by_the_further_ones(channel: BlockingChannel, header: str) -> None:
    channel.confirm_delivery()
    queues = declared(channel, 4)
    publish(channel, queues[0], {header: queues[1:3]})
    assert [drain(channel, queue) for queue in queues] == [[b"x"], [b"x"], [b"x"], []]


def test_cc_is_delivered_and_bcc_is_not(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    first, second, third = declared(channel, 3)
    publish(channel, first, {"CC": [second], "BCC": [third], "other": 7})
    for queue in (first, second, third):
        assert headers_in(channel, queue) == {"CC": [second], "other": 7}


def test_a_queue_gets_one_copy_however_many_keys_lead_there(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    publish(channel, queue, {"CC": [queue, queue], "BCC": [queue]})
    assert drain(channel, queue) == [b"x"]


def test_the_routing_key_is_the_one_that_was_published_with(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    publish(channel, "nowhere", {"BCC": [queue]})
    got, _, _ = channel.basic_get(queue, auto_ack=True)
    assert (got.exchange, got.routing_key) == ("", "nowhere")


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_each_key_is_matched_against_the_bindings(channel: BlockingChannel, kind: str) -> None:
    channel.confirm_delivery()
    one, two, three = declared(channel, 3)
    for key, queue in (("a.one", one), ("a.two", two), ("a.three", three)):
        channel.queue_bind(queue, f"amq.{kind}", key)
    publish(channel, "a.one", {"CC": ["a.two"]}, exchange=f"amq.{kind}")
    assert [drain(channel, queue) for queue in (one, two, three)] == [[b"x"], [b"x"], []]


def test_what_only_a_further_key_routes_is_routed(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    publish(channel, "nowhere", {"CC": [queue]}, mandatory=True)
    assert drain(channel, queue) == [b"x"]
    with pytest.raises(UnroutableError) as caught:
        publish(channel, "nowhere", {"CC": ["nowhere either"], "BCC": ["nor here"], "a": 1}, mandatory=True)
    (returned,) = caught.value.messages
    assert returned.properties.headers == {"CC": ["nowhere either"], "a": 1}


def test_copies_take_part_in_a_transaction(channel: BlockingChannel, connect: Connect) -> None:
    one, two = declared(channel, 2)
    channel.tx_select()
    publish(channel, one, {"CC": [two]})
    channel.tx_rollback()
    publish(channel, one, {"BCC": [two]})
    assert drain(channel, two) == []
    channel.tx_commit()
    assert [drain(channel, queue) for queue in (one, two)] == [[b"x"], [b"x"]]


def test_items_that_are_no_text_are_passed_over(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    publish(channel, "nowhere", {"CC": [1, None, {"a": 1}, queue]})
    assert headers_in(channel, queue) == {"CC": [1, None, {"a": 1}, queue]}


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [("text", "longstr"), (5, "signedint"), (1 << 40, "long"), ({"a": 1}, "table"), (True, "bool"), (None, "void")],
)
def test_a_header_that_is_no_array_closes_the_channel(
    channel: BlockingChannel, header: str, value: object, kind: str
) -> None:
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        publish(channel, "nowhere", {header: value})
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
    assert (caught.value.reply_code, caught.value.reply_text) == (406, text)


def test_a_missing_exchange_is_said_first(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        publish(channel, "k", {"CC": 5}, exchange="no such exchange")
    assert caught.value.reply_code == 404


def test_names_that_only_look_alike_are_headers_like_any_other(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    publish(channel, queue, {"ACC": "text", "CCC": 5, "cc": 1, "note": "CC and BCC"})
    assert headers_in(channel, queue) == {"ACC": "text", "CCC": 5, "cc": 1, "note": "CC and BCC"}
