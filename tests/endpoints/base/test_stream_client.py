"""What connections of all wires do alike: what is logged of them, and how they end."""

import pytest
import trio

from endpoints.client import Client
from endpoints.conftest import LINGERING, Connect
from endpoints.direct import Direct, open_sink
from triomq.endpoints import AMQPEndpoint

WIRES = ("amqp", "direct")


async def open_one(wire: str, connect: Connect, client: Client, endpoint: AMQPEndpoint) -> "Client | Direct":
    return await connect() if wire == "amqp" else await open_sink(endpoint, client, "")


def names(endpoint: AMQPEndpoint) -> set[str]:
    return set(endpoint.ref.children)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_end_is_logged_once_with_whose_connection_it_was(
    wire: str, connect: Connect, client: Client, endpoint: AMQPEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    before = names(endpoint)
    one = await open_one(wire, connect, client, endpoint)
    (name,) = names(endpoint) - before
    with caplog.at_level("INFO", f"triomq.{'amqp' if wire == 'amqp' else 'dmp'}"):
        await trio.sleep(3)
        await one.hang_up()
        await trio.sleep(LINGERING)
    (record,) = [record for record in caplog.records if record.getMessage().endswith("connection closed")]
    fields = record.fields  # type: ignore[attr-defined]
    assert fields.pop("reason")
    assert fields == {
        "peer": "memory",
        "user": "guest",
        "vhost": "/",
        "connection": name.removeprefix("connection-"),
        "seconds": 3,
    }


@pytest.mark.parametrize("wire", WIRES)
async def test_client_that_does_not_close_its_side_is_waited_for_a_moment_and_no_longer(
    wire: str, connect: Connect, client: Client, endpoint: AMQPEndpoint
) -> None:
    before = names(endpoint)
    one = await open_one(wire, connect, client, endpoint)
    await one.stream.send_all(b"\xff" * 300)
    await trio.sleep(0.5)
    (name,) = names(endpoint) - before
    assert endpoint.ref.children[name].actor.statistics() is None  # type: ignore[attr-defined]  # it works nowhere
    await one.stream.send_all(b"which is not read any more")
    await trio.sleep(LINGERING)
    assert names(endpoint) == before
