"""The class control, as a client sees it."""

from typing import cast

import msgspec
import pytest

from endpoints.client import Client
from endpoints.conftest import Connect, knock_out
from triomq import User
from triomq.app import Broker
from triomq.core import Properties
from triomq.protocols import BasicProperties, decode_properties, encode_properties
from triomq.protocols.amqp import ControlRequest, ControlResponse
from triomq.protocols.control import (
    BrowseQueue,
    Definitions,
    ExportDefinitions,
    GetTotals,
    Listing,
    ListQueues,
    MessageRecord,
    Operation,
    decode_result,
    encode,
    join_definitions,
    name_of,
)
from triomq.security import ALL


async def ask(client: Client, operation: Operation[object]) -> object:
    request = ControlRequest(name_of(operation), encode(operation))
    response = await client.call(1, request, ControlResponse)
    return decode_result(operation, response.result)


async def ask_all(client: Client, operation: Listing[object]) -> tuple[list[object], int]:
    """Give all items, and on how many pages they came."""
    found: list[object] = []
    pages = 0
    while True:
        page = await ask(client, operation)
        found += page.items
        pages += 1
        if page.next is None:
            return found, pages
        operation = msgspec.structs.replace(operation, after=page.next)


async def test_operation_is_answered(client: Client) -> None:
    await client.declare("q")
    page = await ask(client, ListQueues())
    assert [queue.name for queue in page.items] == ["q"]


async def test_answer_is_as_long_as_the_clients_frames_and_the_rest_follows(broker: Broker, connect: Connect) -> None:
    client = await connect(frame_max=4096)
    for number in range(40):
        await broker.declare_queue(f"{number:03}" + "x" * 200)
    queues, pages = await ask_all(client, ListQueues())
    assert [queue.name[:3] for queue in queues] == [f"{number:03}" for number in range(40)]
    assert pages > 4


@pytest.mark.parametrize("size", [0, 1, 2000, 3000, 4095, 1_000_000])
async def test_body_is_shown_as_far_as_it_fits_with_its_size(broker: Broker, connect: Connect, size: int) -> None:
    client = await connect(frame_max=4096)
    await broker.declare_queue("q")
    for body in (b"x" * size, b"end"):
        await broker.publish("", "q", body, Properties(type="t"))
    messages, _ = await ask_all(client, BrowseQueue("q"))
    first, last = messages
    assert isinstance(first, MessageRecord)
    assert isinstance(last, MessageRecord)
    assert (first.id, first.size, last.id, last.body) == (1, size, 2, b"end")
    assert first.body == b"x" * len(first.body)
    assert len(first.body) == size if size <= 2000 else 2500 < len(first.body) <= size
    assert first.properties is not None
    assert decode_properties(first.properties).type == "t"


async def test_properties_that_do_not_fit_are_left_out(connect: Connect) -> None:
    wide, client = await connect(frame_max=131_072), await connect(frame_max=4096)
    await wide.declare("q")
    headers = BasicProperties(headers={"long": "x" * 5000})
    await wide.send(1, "", "q", b"body", properties=encode_properties(headers))
    ((message,), _) = await ask_all(client, BrowseQueue("q"))
    assert (message.properties, message.body, message.size) == (None, b"", 4)


async def test_headers_of_another_protocol_that_do_not_fit_are_left_out(broker: Broker, connect: Connect) -> None:
    client = await connect(frame_max=4096)
    await broker.declare_queue("q")
    await broker.publish("", "q", b"body", Properties(type="t", headers={"long": "x" * 5000}))
    ((message,), _) = await ask_all(client, BrowseQueue("q"))
    assert message.properties is not None
    assert decode_properties(message.properties) == BasicProperties(type="t", delivery_mode=2)
    assert (message.body, message.size) == (b"body", 4)


async def test_queue_that_is_being_restarted_answers_when_it_runs_again(client: Client, broker: Broker) -> None:
    await client.declare("q")
    await broker.publish("", "q", b"x")
    await knock_out(broker, "q")
    ((message,), _) = await ask_all(client, BrowseQueue("q"))
    assert isinstance(message, MessageRecord)
    assert message.body == b"x"


REFUSED = {
    "an unknown operation": ("dance", b"{}", 404, "NOT_FOUND - no operation 'dance'; there are queues, sinks, "),
    "wrong arguments": (
        "queues",
        b'{"limit":0}',
        406,
        "PRECONDITION_FAILED - arguments of queues: Expected `int` >= 1",
    ),
    "no JSON": ("queues", b"{", 406, "PRECONDITION_FAILED - arguments of queues: "),
    "an unknown queue": ("browse", b'{"queue":"x"}', 404, "NOT_FOUND - no queue 'x' in vhost '/'"),
    "an unknown sink": ("bindings", b'{"source":"x"}', 404, "NOT_FOUND - no exchange 'x' in vhost '/'"),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_refusal_closes_the_channel_alone(client: Client, why: str) -> None:
    name, arguments, code, text = REFUSED[why]
    await client.say(1, ControlRequest(name, arguments))
    found_code, found_text = await client.channel_closed()
    assert found_code == code
    assert found_text.startswith(text)
    await client.open_channel(1)
    assert await ask(client, GetTotals())


async def test_exclusive_queue_of_another_is_not_opened(client: Client, connect: Connect) -> None:
    owner = await connect()
    await owner.declare("mine", exclusive=True)
    page = await ask(client, ListQueues())
    assert [(queue.name, queue.exclusive) for queue in page.items] == [("mine", True)]
    await client.say(1, ControlRequest("browse", b'{"queue":"mine"}'))
    assert (await client.channel_closed())[0] == 405


async def test_definitions_come_in_pages(broker: Broker, connect: Connect) -> None:
    client = await connect(frame_max=4096)
    for number in range(40):
        await broker.declare_queue(f"{number:03}" + "x" * 200)
    parts, pages = await ask_all(client, ExportDefinitions())
    found = join_definitions(cast("list[Definitions]", parts))
    assert [queue.name[:3] for queue in found.queues] == [f"{number:03}" for number in range(40)]
    assert found.rabbit_version is not None
    assert pages > 2


async def test_definitions_are_for_administrators(broker: Broker, client: Client) -> None:
    guest = User(password="guest", permissions={"*": ALL}, tags=("monitoring",))
    broker.context.users.put(guest.record("guest"))
    await client.say(1, ControlRequest("definitions", b"{}"))
    text = "ACCESS_REFUSED - definitions refused for user 'guest', who has no tag administrator"
    assert await client.channel_closed() == (403, text)
