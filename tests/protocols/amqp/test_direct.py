"""The class direct on the wire: the octets of the original implementation."""

import pytest

from protocols.amqp.wire import exchange
from triomq.errors import LocalProtocolError
from triomq.protocols import encode_table
from triomq.protocols.amqp import (
    BROKER_METHODS,
    INDIRECT_METHODS,
    METHODS,
    AMQPEngine,
    ChannelOpen,
    ChannelOpenOk,
    DirectGet,
    DirectGetOk,
    DirectLost,
    DirectPut,
    DirectPutOk,
    Method,
    MethodTable,
    Received,
    Settings,
    plain,
)
from triomq.protocols.amqp.direct import DIRECT_METHODS

GOLDEN: dict[str, tuple[bytes, Method]] = {
    "put": (bytes.fromhex("f03c000a0a616d712e646972656374"), DirectPut("amq.direct")),
    "put-ok": (
        bytes.fromhex("f03c000b1d") + b"S-000660C2435F4722-amq.direct",
        DirectPutOk("S-000660C2435F4722-amq.direct"),
    ),
    "get": (bytes.fromhex("f03c0014066175746f2e38"), DirectGet("auto.8")),
    "get-ok": (bytes.fromhex("f03c001519") + b"F-000660C2435F46B4-auto.8", DirectGetOk("F-000660C2435F46B4-auto.8")),
    "lost": (bytes.fromhex("f03c001e066175746f2e380000000000000102"), DirectLost("auto.8", 258)),  # ours
}


def pair(methods: MethodTable) -> tuple[AMQPEngine, AMQPEngine]:
    """Connect a client that knows the class to a server that knows these methods, with channel 1 open."""
    settings = Settings(login=plain("guest", "guest"), heartbeat=0)
    client = AMQPEngine("client", now=0.0, settings=settings, methods=BROKER_METHODS)
    server = AMQPEngine("server", now=0.0, methods=methods)
    exchange(client, server)
    client.send_method(1, ChannelOpen())
    exchange(client, server)
    server.send_method(1, ChannelOpenOk())
    exchange(client, server)
    return client, server


@pytest.mark.parametrize("name", GOLDEN)
def test_each_method_stands_on_the_wire_as_the_original_has_it(name: str) -> None:
    octets, method = GOLDEN[name]
    assert BROKER_METHODS.encode(method) == octets
    assert BROKER_METHODS.decode(octets) == method


def test_the_class_is_an_extension_that_plain_amqp_does_not_have() -> None:
    assert {row.class_id for row in DIRECT_METHODS} == {61500}
    assert 61500 not in {row.class_id for row in METHODS}
    assert 61500 not in {layout.row.class_id for layout in INDIRECT_METHODS.layouts}


def test_question_and_its_answer_go_over_an_ordinary_channel() -> None:
    client, server = pair(BROKER_METHODS)
    client.send_method(1, DirectPut("sink"))
    client.send_method(1, DirectGet("feed"))
    assert exchange(client, server) == ([], [Received(1, DirectPut("sink")), Received(1, DirectGet("feed"))])
    server.send_method(1, DirectPutOk("lease"))
    server.send_method(1, DirectGetOk("lease"))
    assert exchange(client, server) == ([Received(1, DirectPutOk("lease")), Received(1, DirectGetOk("lease"))], [])


def test_server_does_not_ask_and_a_client_does_not_answer() -> None:
    client, server = pair(BROKER_METHODS)
    with pytest.raises(LocalProtocolError, match="not sent by a server"):
        server.send_method(1, DirectPut("sink"))
    with pytest.raises(LocalProtocolError, match="not sent by a client"):
        client.send_method(1, DirectGetOk("lease"))


@pytest.mark.parametrize("preference", [0, 1])
def test_the_preference_is_an_integer_of_32_bits(preference: int) -> None:
    assert bytes.fromhex(f"0664697265637449{preference:08x}") in encode_table({"direct": preference})
