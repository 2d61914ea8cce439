"""Octets that should not be, through real sockets: who sent them is told why, and nobody else loses anything."""

import struct
from collections.abc import Callable, Iterator

import pytest
from pamqp import commands

from peers.answers import bare, header
from peers.raw import BODY, HEADER, METHOD, PROTOCOL_HEADER, RawPeer, content, encode, publish, raw_frame

Basic, Channel, Connection = commands.Basic, commands.Channel, commands.Connection
Confirm, Queue = commands.Confirm, commands.Queue

OpenRaw = Callable[..., RawPeer]


def short(octets: bytes) -> bytes:
    return bytes((len(octets),)) + octets


def nested(levels: int, kind: bytes = b"F") -> bytes:
    """A table in a table in a table, or an array in an array in a table; all lengths are true."""
    octets, name = b"", b"\x01a" if kind == b"F" else b""
    for _ in range(levels):
        octets = name + kind + struct.pack(">I", len(octets)) + octets
    if kind == b"A":
        octets = b"\x01a" + octets
    return struct.pack(">I", len(octets)) + octets


def declare(table: bytes, name: bytes = b"") -> bytes:
    """A queue.declare, exclusive, whose table of arguments is these octets."""
    return bare(50, 10, b"\0\0" + short(name) + b"\x04" + table)


def confirmed_and_delivered(peer: RawPeer, body: bytes) -> None:
    """Read a confirm and a delivery, in whichever order they come."""
    first = peer.read_method()
    if isinstance(first, Basic.Deliver):
        assert peer.read_content()[1] == body
        peer.expect(Basic.Ack)
    else:
        assert isinstance(first, Basic.Ack)
        assert peer.read_delivery()[1] == body


@pytest.fixture(autouse=True)
def bystander(raw: OpenRaw) -> Iterator[RawPeer]:
    """Another connection, with one message unacknowledged and one that waits for its turn; it must not notice."""
    peer = raw()
    peer.open_channel(1)
    queue = peer.declare_queue()
    peer.call(1, Confirm.Select(), Confirm.SelectOk)
    peer.call(1, Basic.Qos(prefetch_count=1), Basic.QosOk)
    peer.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    peer.socket.sendall(publish(1, "", queue, b"before"))
    confirmed_and_delivered(peer, b"before")
    peer.socket.sendall(publish(1, "", queue, b"kept"))
    peer.expect(Basic.Ack)
    yield peer
    peer.send(1, Basic.Ack(1))
    delivery, body = peer.read_delivery()
    assert (delivery.delivery_tag, body, delivery.redelivered) == (2, b"kept", False)
    peer.send(1, Basic.Ack(2))
    peer.socket.sendall(publish(1, "", queue, b"after"))
    confirmed_and_delivered(peer, b"after")


# Frames: the connection is closed by name

CLOSED_CHANNEL = encode(1, Channel.Close(200, "", 0, 0))
PUBLISH = encode(1, Basic.Publish(routing_key="nowhere"))
LYING_TABLE = struct.pack(">I", 100) + b"\x01aI\0\0\0\1"
CUT_TABLE = struct.pack(">I", 5) + b"\x01aI\0\0"

FAILURES: dict[str, tuple[bytes, int, tuple[int, int]]] = {
    "a wrong frame end": (raw_frame(METHOD, 1, b"\0\x3c\0\x0a\0\0\0\0\0\0\0", b"\0"), 501, (0, 0)),
    "a frame larger than agreed": (struct.pack(">BHI", BODY, 1, 131073), 501, (0, 0)),
    "a frame of four gigabytes": (struct.pack(">BHI", METHOD, 0, 2**32 - 1), 501, (0, 0)),
    "a frame type that is not known": (raw_frame(4, 1, b""), 501, (0, 0)),
    "a method on a closed channel": (CLOSED_CHANNEL + encode(1, Basic.Qos()), 504, (60, 10)),
    "a content header on a closed channel": (CLOSED_CHANNEL + header(), 505, (0, 0)),
    "a method on a channel never opened": (encode(7, Basic.Qos()), 504, (60, 10)),
    "a content header without a method": (header(), 505, (0, 0)),
    "a body without a method": (raw_frame(BODY, 1, b"x"), 505, (0, 0)),
    "a body without a header": (PUBLISH + raw_frame(BODY, 1, b"x"), 505, (60, 40)),
    "a method instead of a body": (PUBLISH + header(size=3) + encode(1, Basic.Qos()), 505, (60, 40)),
    "a body that is too long": (PUBLISH + header(size=3) + raw_frame(BODY, 1, b"four"), 505, (60, 40)),
    "a content header without flags": (PUBLISH + raw_frame(HEADER, 1, b"\0\x3c" + bytes(10)), 501, (60, 40)),
    "a table longer than its frame": (declare(LYING_TABLE), 502, (50, 10)),
    "a table that ends in a field": (declare(CUT_TABLE), 502, (50, 10)),
    "a table of a type that is not known": (declare(b"\0\0\0\x03\x01a?"), 502, (50, 10)),
    "headers longer than their frame": (
        PUBLISH + raw_frame(HEADER, 1, b"\0\x3c" + bytes(10) + b"\x20\0" + LYING_TABLE),
        502,
        (60, 40),
    ),
    "a table as deep as a frame holds": (declare(nested(18_000)), 502, (50, 10)),
    "arrays as deep as a frame holds": (declare(nested(26_000, b"A")), 502, (50, 10)),
    "arguments that are cut short": (bare(60, 10, b"\0\0"), 501, (60, 10)),
    "arguments with something behind them": (bare(60, 10, bytes(8)), 501, (60, 10)),
    "a method frame without a method": (raw_frame(METHOD, 1, b"\0\x3c\0"), 501, (0, 0)),
    "a class that is not known": (bare(99, 10), 540, (99, 10)),
    "a class of extensions that is not known": (bare(0xF0FF, 10), 540, (0xF0FF, 10)),
    "a method that is not known": (bare(60, 199), 540, (60, 199)),
    "a method that only servers send": (encode(1, Queue.DeclareOk("q", 0, 0)), 503, (50, 11)),
    "a close-ok that answers nothing": (encode(1, Channel.CloseOk()), 503, (20, 41)),
    "a second opening": (encode(0, Connection.Open()), 504, (10, 40)),
}


def read_close(peer: RawPeer) -> tuple[int, tuple[int, int], str]:
    """Read connection.close, whatever was answered before, and see that nothing follows it."""
    found = peer.read_method()
    while not isinstance(found, Connection.Close):
        found = peer.read_method()
    peer.send(0, Connection.CloseOk())
    assert peer.ended()
    return found.reply_code, (found.class_id, found.method_id), found.reply_text


@pytest.mark.parametrize("what", FAILURES)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in pieces"])
def test_malformed_frame_closes_by_name(raw_peer: RawPeer, what: str, *, at_once: bool) -> None:
    data, code, blamed = FAILURES[what]
    step = len(data) if at_once else max(1, len(data) // 20)
    for start in range(0, len(data), step):
        raw_peer.socket.sendall(data[start : start + step])
    found = read_close(raw_peer)
    assert found[:2] == (code, blamed)
    assert " - " in found[2]


# The handshake


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 ",
        b"AMQP\x01\x01\x08\x00",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"amqp\x00\x00\x09\x01",
        b"\0" * 8,
    ],
)
def test_wrong_header_is_answered_with_the_right_one(raw: OpenRaw, greeting: bytes) -> None:
    peer = raw(handshake=False)
    peer.socket.sendall(greeting)
    assert peer.take(8) == PROTOCOL_HEADER
    assert peer.take(1) is None


EARLY: dict[str, tuple[bytes, int]] = {
    "a content header": (header(), 505),
    "a content header on channel 0": (raw_frame(HEADER, 0, b"\0\x3c" + bytes(12)), 505),
    "a channel's method": (encode(1, Channel.Open()), 505),
    "a later method": (encode(0, Connection.TuneOk(0, 131072, 0)), 504),
    "secure-ok without a challenge": (encode(0, Connection.SecureOk("x")), 504),
    "a frame larger than the smallest": (struct.pack(">BHI", METHOD, 0, 4097), 501),
    "noise": (b"\xff" * 16, 501),
    "a class that is not known": (raw_frame(METHOD, 0, b"\0\x63\0\x0a"), 540),
}


@pytest.mark.parametrize("what", EARLY)
def test_before_start_ok_nothing_else_is_taken(raw: OpenRaw, what: str) -> None:
    data, code = EARLY[what]
    peer = raw(handshake=False)
    peer.socket.sendall(PROTOCOL_HEADER)
    peer.expect(Connection.Start)
    peer.socket.sendall(data)
    assert read_close(peer)[0] == code


def test_login_that_is_no_utf8_is_refused(raw: OpenRaw) -> None:
    peer = raw(handshake=False)
    peer.socket.sendall(PROTOCOL_HEADER)
    peer.expect(Connection.Start)
    capabilities = b"\x1cauthentication_failure_closet\x01"
    table = b"\x0ccapabilitiesF" + struct.pack(">I", len(capabilities)) + capabilities
    response = b"\0\xff\xfe\0\xff"
    arguments = struct.pack(">I", len(table)) + table + short(b"PLAIN") + struct.pack(">I", len(response)) + response
    peer.socket.sendall(raw_frame(METHOD, 0, b"\0\x0a\0\x0b" + arguments + short(b"en_US")))
    assert read_close(peer)[0] == 403


def test_virtual_host_that_is_no_utf8_is_not_found(raw: OpenRaw) -> None:
    peer = raw(handshake=False)
    peer.start()
    peer.tune()
    peer.socket.sendall(raw_frame(METHOD, 0, b"\0\x0a\0\x28" + short(b"\xff\xfe") + b"\0\0"))
    found = peer.read()
    assert found is not None
    assert found.payload[:6] == struct.pack(">HHH", 10, 50, 530)


def test_whole_conversation_octet_by_octet_is_understood(raw: OpenRaw) -> None:
    peer = raw(handshake=False)
    words = [
        (PROTOCOL_HEADER, Connection.Start),
        (encode(0, Connection.StartOk({}, "PLAIN", "\0guest\0guest")), Connection.Tune),
        (encode(0, Connection.TuneOk(0, 131072, 0), Connection.Open()), Connection.OpenOk),
        (encode(1, Channel.Open()), Channel.OpenOk),
        (encode(1, Queue.Declare(exclusive=True)), Queue.DeclareOk),
    ]
    for octets, answer in words:
        for octet in octets:
            peer.socket.send(bytes((octet,)))
        found = peer.expect(answer)
    peer.frame_max = 131072
    for octet in publish(1, "", found.queue, b"slowly") + encode(1, Basic.Get(no_ack=True)):
        peer.socket.send(bytes((octet,)))
    peer.expect(Basic.GetOk)
    assert peer.read_content()[1] == b"slowly"


# Sizes


def test_body_beyond_the_limit_closes_its_channel_before_it_is_sent(raw_peer: RawPeer) -> None:
    limit, announced = 128 * 1024 * 1024, 128 * 1024 * 1024 + 1
    raw_peer.open_channel(2)
    raw_peer.socket.sendall(PUBLISH + header(size=announced))
    close = raw_peer.expect(Channel.Close)
    text = f"CONTENT_TOO_LARGE - message size {announced} is larger than configured max size {limit}"
    assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (311, text, 60, 40)
    # The client had not seen it yet and went on: what it sends there is dropped, another channel is served.
    raw_peer.socket.sendall(raw_frame(BODY, 1, b"x" * 100_000) * 3)
    raw_peer.call(2, Basic.Qos(), Basic.QosOk)
    raw_peer.send(1, Channel.CloseOk())
    raw_peer.open_channel(1)
    raw_peer.call(1, Basic.Qos(), Basic.QosOk)


@pytest.mark.parametrize(("levels", "kind"), [(18_000, b"F"), (26_000, b"A")], ids=["tables", "arrays"])
@pytest.mark.parametrize("exchange", ["", "amq.headers"])
def test_headers_as_deep_as_a_frame_holds_are_passed_on(
    raw_peer: RawPeer, levels: int, kind: bytes, exchange: str
) -> None:
    properties = b"\x20\x00" + nested(levels, kind)
    queue = raw_peer.declare_queue()
    raw_peer.call(
        1, Queue.Bind(queue=queue, exchange="amq.headers", arguments={"x-match": "any", "b": 1}), Queue.BindOk
    )
    raw_peer.socket.sendall(publish(1, exchange, queue, b"deep", properties) + publish(1, "", queue, b"next"))
    raw_peer.call(1, Basic.Get(queue=queue, no_ack=True), Basic.GetOk)
    if not exchange:
        assert raw_peer.read_content() == (properties, b"deep")
        raw_peer.call(1, Basic.Get(queue=queue, no_ack=True), Basic.GetOk)
    assert raw_peer.read_content()[1] == b"next"


def test_names_that_are_no_utf8_come_out_as_they_went_in(raw_peer: RawPeer) -> None:
    name = b"\xff\xfe\x00q"
    raw_peer.socket.sendall(declare(bytes(4), name))
    found = raw_peer.read()
    assert found is not None
    assert found.payload == b"\0\x32\0\x0b" + short(name) + bytes(8)
    to_queue = raw_frame(METHOD, 1, b"\0\x3c\0\x28\0\0\0" + short(name) + b"\0")
    raw_peer.socket.sendall(to_queue + content(1, b"x") + bare(60, 70, b"\0\0" + short(name) + b"\x01"))
    found = raw_peer.read()
    assert found is not None
    assert found.payload[:4] == b"\0\x3c\0\x47"
    assert short(name) in found.payload
    assert raw_peer.read_content()[1] == b"x"


def test_name_that_is_no_utf8_can_be_quoted_in_a_refusal(raw_peer: RawPeer) -> None:
    raw_peer.socket.sendall(bare(60, 70, b"\0\0" + short(b"\xff\xfe") + b"\x01"))
    found = raw_peer.read()
    assert found is not None
    assert found.payload[:6] == struct.pack(">HHH", 20, 40, 404)
    assert b"no queue '\xff\xfe' in vhost" in found.payload


# Time and order


def test_open_and_close_in_one_piece_are_both_answered(raw: OpenRaw) -> None:
    peer = raw()
    peer.socket.sendall(encode(1, Channel.Open(), Channel.Close(200, "", 0, 0), Channel.Open(), Basic.Qos()))
    for answer in (Channel.OpenOk, Channel.CloseOk, Channel.OpenOk, Basic.QosOk):
        peer.expect(answer)


def test_peer_that_stops_reading_keeps_what_it_has_and_holds_nobody_up(raw: OpenRaw, raw_peer: RawPeer) -> None:
    queue = raw_peer.call(1, Queue.Declare(auto_delete=True), Queue.DeclareOk).queue
    body, count = b"x" * 100_000, 200
    deaf = raw()
    deaf.open_channel(1)
    deaf.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    raw_peer.call(1, Confirm.Select(), Confirm.SelectOk)
    raw_peer.socket.sendall(publish(1, "", queue, body) * count)
    confirmed = 0
    while confirmed < count:
        ack = raw_peer.expect(Basic.Ack)
        confirmed = ack.delivery_tag if ack.multiple else confirmed + 1
    # Far more than sockets hold is on its way to the deaf one, which now goes: all of it is there for another.
    raw_peer.call(1, Basic.Consume(queue=queue, consumer_tag="t"), Basic.ConsumeOk)
    deaf.socket.close()
    assert [raw_peer.read_delivery()[1] for _ in range(count)] == [body] * count


@pytest.mark.parametrize("cut", [1, 4, 8, 20, 31])
def test_peer_that_goes_within_a_frame_leaves_nothing_behind(raw: OpenRaw, raw_peer: RawPeer, cut: int) -> None:
    queue = raw_peer.declare_queue()
    leaver = raw()
    leaver.open_channel(1)
    leaver.socket.sendall(publish(1, "", "amq.none", b"whole")[:-cut])
    leaver.socket.close()
    assert raw_peer.call(1, Queue.Declare(queue=queue, passive=True), Queue.DeclareOk).message_count == 0
