"""CC and BCC: what becomes of runs in which only some messages have them."""

from endpoints.client import Client
from triomq.protocols import BasicProperties, Table, encode_properties
from triomq.protocols.amqp import (
    BasicAck,
    BasicConsume,
    ConfirmSelect,
    QueueBind,
    QueueDeclare,
)


def encoded(headers: Table | None = None, **others: str) -> bytes:
    return encode_properties(BasicProperties(headers=headers, **others))  # type: ignore[arg-type]


async def test_many_keys_into_a_sink_full_of_patterns_are_refused(client: Client) -> None:
    await client.declare("q")
    pattern = "#." + ".".join(["a"] * 99)
    for number in range(20):
        await client.call(1, QueueBind("q", "amq.topic", f"{number}.{pattern}"))
    few, many = (encoded({"CC": ["1.a"] * count}) for count in (100, 900))
    await client.send(1, "amq.topic", "a", b"few", properties=few)
    await client.call(1, QueueDeclare("q"))
    await client.send(1, "amq.topic", "a", b"many", properties=many)
    code, text, *_ = await client.channel_closed()
    assert code == 406
    assert "901 routing keys are too many for the patterns that sink 'amq.topic' leads through" in text


async def test_run_in_which_only_some_have_copies_keeps_its_order(client: Client) -> None:
    await client.declare("q")
    await client.declare("other")
    await client.call(1, ConfirmSelect())
    # The same sizes, so that all of them come as one run.
    plain, copied = encoded({"XX": ["other"]}), encoded({"CC": ["other"]})
    for number, properties in enumerate([plain, plain, copied, plain, copied, copied, plain]):
        client.publish(1, "", "q", b"%d" % number, properties=properties)
    await client.flush()
    assert await client.read(BasicAck) == BasicAck(7, multiple=True)
    await client.call(1, BasicConsume("q"))
    assert [one.body for one in await client.deliveries(7)] == [b"%d" % number for number in range(7)]
    await client.call(1, BasicConsume("other"))
    assert [one.body for one in await client.deliveries(3)] == [b"2", b"4", b"5"]


async def test_immediate_copy_needs_a_consumer_like_any_message(client: Client) -> None:
    for name in ("with", "without"):
        await client.declare(name)
    await client.call(1, BasicConsume("with"))
    await client.send(1, "", "without", b"x", properties=encoded({"CC": ["with"]}), immediate=True)
    assert [one.body for one in await client.deliveries(1)] == [b"x"]
    assert (await client.declare("without")).message_count == 0
