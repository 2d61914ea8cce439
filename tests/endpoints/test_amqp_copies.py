"""Reading CC and BCC out of encoded properties, and what becomes of runs in which only some messages have them."""

import pytest

from endpoints.client import Client
from triomq.endpoints.amqp_answers import AnswerError
from triomq.endpoints.amqp_copies import MOST_KEYS, Copies, copies_of
from triomq.protocols import BasicProperties, Table, Typed, decode_properties, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)


def encoded(headers: Table | None = None, **others: str) -> bytes:
    return encode_properties(BasicProperties(headers=headers, **others))  # type: ignore[arg-type]


@pytest.mark.parametrize("headers", [None, {}, {"a": "CC"}, {"XCC": "a"}, {"CCX": "a"}, {"nested": {"CC": "a"}}])
def test_without_the_headers_there_are_no_copies(headers: Table | None) -> None:
    assert copies_of(encoded(headers, app_id="CC")) == Copies(())


def test_the_keys_come_in_their_order_cc_first() -> None:
    copies = copies_of(encoded({"BCC": ["c"], "CC": ["a", "b"]}))
    assert copies.keys == ("a", "b", "c")


def test_taking_bcc_off_changes_nothing_else() -> None:
    others: Table = {"CC": ["a"], "byte": Typed("B", 7), "octets": b"\xff", "text": Typed("S", b"\xff")}
    copies = copies_of(encoded({"BCC": ["b"], **others}, app_id="app"))
    assert copies.properties == encoded(others, app_id="app")


def test_headers_without_bcc_stay_even_if_there_are_none_left() -> None:
    copies = copies_of(encoded({"BCC": []}))
    assert copies.keys == ()
    assert copies.properties is not None
    assert decode_properties(copies.properties).headers == {}


def test_a_key_that_is_no_utf8_is_read_as_a_routing_key_is() -> None:
    assert copies_of(encoded({"CC": [Typed("S", b"\xff"), b"\xff"]})).keys == ("\udcff",)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Typed("b", 1), "byte"),
        (Typed("B", 1), "unsignedbyte"),
        (Typed("s", 1), "short"),
        (Typed("L", 1), "long"),
        (1 << 31, "long"),
        (1, "signedint"),
        (1.5, "double"),
        (Typed("f", 1.5), "float"),
        ("a", "longstr"),
        (b"a", "binary"),
    ],
)
def test_what_is_no_array_is_refused_by_its_type(value: object, name: str) -> None:
    with pytest.raises(AnswerError) as caught:
        copies_of(encoded({"CC": value}))  # type: ignore[dict-item]
    assert caught.value.answer.text == f'invalid message: {{unacceptable_type_in_header,"CC",{name}}}'


def test_more_keys_than_are_allowed_are_refused() -> None:
    assert len(copies_of(encoded({"CC": ["a"] * (MOST_KEYS - 1), "BCC": ["b"]})).keys) == MOST_KEYS
    with pytest.raises(AnswerError) as caught:
        copies_of(encoded({"CC": ["a"] * MOST_KEYS, "BCC": ["b"]}))
    assert (caught.value.answer.code, caught.value.answer.text) == (
        406,
        "invalid message: CC and BCC name 1001 routing keys; 1000 are allowed",
    )


async def test_many_keys_into_a_sink_full_of_patterns_are_refused(client: Client) -> None:
    await client.declare("q")
    pattern = "#." + ".".join(["a"] * 99)
    for number in range(20):
        await client.call(1, QueueBind("q", "amq.topic", f"{number}.{pattern}"), QueueBindOk)
    few, many = (encoded({"CC": ["1.a"] * count}) for count in (100, 900))
    client.publish(1, "amq.topic", "a", b"few", properties=few)
    await client.flush()
    await client.call(1, QueueDeclare("q"), QueueDeclareOk)
    client.publish(1, "amq.topic", "a", b"many", properties=many)
    await client.flush()
    code, text, *_ = await client.channel_closed()
    assert code == 406
    assert "901 routing keys are too many for the patterns that sink 'amq.topic' leads through" in text


async def test_a_run_in_which_only_some_have_copies_keeps_its_order(client: Client) -> None:
    await client.declare("q")
    await client.declare("other")
    await client.call(1, ConfirmSelect(), ConfirmSelectOk)
    # The same sizes, so that all of them come as one run.
    plain, copied = encoded({"XX": ["other"]}), encoded({"CC": ["other"]})
    for number, properties in enumerate([plain, plain, copied, plain, copied, copied, plain]):
        client.publish(1, "", "q", b"%d" % number, properties=properties)
    await client.flush()
    assert await client.read(BasicAck) == BasicAck(7, multiple=True)
    await client.call(1, BasicConsume("q"), BasicConsumeOk)
    assert [one.body for one in await client.deliveries(7)] == [b"%d" % number for number in range(7)]
    await client.call(1, BasicConsume("other"), BasicConsumeOk)
    assert [one.body for one in await client.deliveries(3)] == [b"2", b"4", b"5"]


async def test_what_was_published_before_a_bad_header_counts(client: Client) -> None:
    await client.declare("q")
    client.publish(1, "", "q", b"good", properties=encoded({"CC": ["q"]}))
    client.publish(1, "", "q", b"bad", properties=encoded({"CC": 1}))
    await client.flush()
    assert (await client.channel_closed())[0] == 406
    await client.open_channel(2)
    assert (await client.declare("q", channel=2)).message_count == 1


async def test_an_immediate_copy_needs_a_consumer_like_any_message(client: Client) -> None:
    for name in ("with", "without"):
        await client.declare(name)
    await client.call(1, BasicConsume("with"), BasicConsumeOk)
    client.publish(1, "", "without", b"x", properties=encoded({"CC": ["with"]}), immediate=True)
    await client.flush()
    assert [one.body for one in await client.deliveries(1)] == [b"x"]
    assert (await client.declare("without")).message_count == 0
