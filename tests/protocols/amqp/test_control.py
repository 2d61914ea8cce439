"""The class that looks into a broker, on the wire."""

import pytest

from protocols.amqp.wire import admit, exchange
from triomq.errors import LocalProtocolError
from triomq.protocols.amqp import (
    AMQP_METHODS,
    BROKER_METHODS,
    METHODS,
    AMQPEngine,
    ChannelOpen,
    ChannelOpenOk,
    Closed,
    ControlRequest,
    ControlResponse,
    MethodTable,
    Received,
    Settings,
    plain,
)
from triomq.protocols.amqp.control import CONTROL_METHODS

REQUEST = b"\xf0\x3e\x00\x0a\x06queues\x00\x00\x00\x02{}"
RESPONSE = b"\xf0\x3e\x00\x0b\x00\x00\x00\x04null"


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


def test_each_method_stands_on_the_wire_as_its_row_says() -> None:
    assert BROKER_METHODS.encode(ControlRequest("queues")) == REQUEST
    assert BROKER_METHODS.decode(REQUEST) == ControlRequest("queues", b"{}")
    assert BROKER_METHODS.encode(ControlResponse(b"null")) == RESPONSE
    assert BROKER_METHODS.decode(RESPONSE) == ControlResponse(b"null")


def test_the_class_is_an_extension_that_plain_amqp_does_not_have() -> None:
    assert not {row.class_id for row in CONTROL_METHODS} & {row.class_id for row in METHODS}
    assert all(0xF000 <= row.class_id <= 0xFFFF for row in CONTROL_METHODS)
    with pytest.raises(LocalProtocolError, match="no row"):
        AMQP_METHODS.encode(ControlRequest("queues"))


def test_request_and_its_response_go_over_an_ordinary_channel() -> None:
    client, server = pair(BROKER_METHODS)
    client.send_method(1, ControlRequest("totals", b"{}"))
    assert exchange(client, server) == ([], [Received(1, ControlRequest("totals", b"{}"))])
    server.send_method(1, ControlResponse(b"{}"))
    assert exchange(client, server) == ([Received(1, ControlResponse(b"{}"))], [])


def test_server_does_not_ask_and_a_client_does_not_answer() -> None:
    client, server = pair(BROKER_METHODS)
    with pytest.raises(LocalProtocolError, match="not sent by a server"):
        server.send_method(1, ControlRequest("queues"))
    with pytest.raises(LocalProtocolError, match="not sent by a client"):
        client.send_method(1, ControlResponse(b"{}"))


def test_server_that_does_not_know_the_class_closes_with_540() -> None:
    client, server = pair(AMQP_METHODS)
    client.send_method(1, ControlRequest("queues"))
    found, _ = exchange(client, server)
    assert found == [Closed(540, "NOT_IMPLEMENTED - unknown class 61502", by_peer=True)]
    assert admit(server) == []
