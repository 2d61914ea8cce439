"""What is malformed, on real sockets: the answer that it gets, and one beside it who must not notice."""

import struct
from collections.abc import AsyncIterator, Iterator

import pytest
import trio

from endpoints.conftest import counts
from endpoints.micromsg.client import MicroMsgPeer, listening, logging_in, micromsg_endpoint, open_micromsg_broker
from endpoints.micromsg.conftest import USERS
from triomq.app import Broker

CONFIG = listening(user="guest", max_message_size=100_000, max_frame=50_000)


def handshake(
    required: bytes = b"", optional: bytes = b"", *, major: int = 1, flags: int = 0, name: bytes = b""
) -> bytes:
    return b"".join(
        (
            bytes((major, 0, flags, len(name))) + name,
            struct.pack(">H", len(required)) + required,
            struct.pack(">H", len(optional)) + optional,
        )
    )


USUAL = b"batch-ack:max-count=2;pub-sub"
OPENING = handshake(b"", USUAL) * 2
"""Both handshakes of a client; the second one does not wait for the answer to the first."""


def message(
    number: int = 1,
    payload: bytes = b"x",
    *,
    destination: bytes = b"queue/q",
    properties: bytes = b"",
    flags: int = 0,
    large: bool = False,
) -> bytes:
    size = struct.pack(">I" if large else ">B", len(payload))
    front = struct.pack(">BHB", flags | (8 if large else 0), number, len(destination)) + destination
    return front + struct.pack(">H", len(properties)) + properties + size + payload


def command(text: bytes) -> bytes:
    return bytes((1, len(text))) + text


SUBSCRIBE = b"subscribe;destination=topic%2Ft"

SILENT: dict[str, bytes] = {
    "first octet is that of an error": b"\x04\x03abc",
    "garbage that is no error either": b"\x05\xff",
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01",
    "error of a client": OPENING + b"\x04\x05sorry",
    "end inside of a frame": OPENING + message()[:-1],
}
"""What ends without a word."""

ANSWERED: dict[str, tuple[int, bytes]] = {
    "major version 0": (505, handshake(major=0)),
    "list that is longer than 4096": (413, b"\x01\0\0\0" + struct.pack(">H", 5000)),
    "list that is not ASCII": (400, handshake(b"json;\xff")),
    "property without a value": (400, handshake(b"batch-ack:max")),
    "spoilt escape": (400, handshake(b"batch-ack:max-count=%zz")),
    "escape that is no UTF-8": (400, handshake(b"batch-ack:name=%ff")),
    "256 extensions": (400, handshake(b";".join(b"x-%d" % number for number in range(256)))),
    "unknown extension is required": (501, handshake(b"nope;pub-sub")),
    "upper case is unknown": (501, handshake(b"ACK")),
    "count 0": (400, handshake(b"batch-ack:max-count=0")),
    "count below 0": (400, handshake(b"batch-ack:max-count=-1")),
    "count that is none": (400, handshake(b"batch-ack:max-count=ten")),
    "count above 32767": (400, handshake(b"batch-ack:max-count=32768")),
    "choice of what was not offered": (400, handshake() + handshake(b"x-nope")),
    "frame in place of the second handshake": (505, handshake() + message()),
    "two kinds in one": (400, OPENING + b"\x03\x01\x00"),
    "reserved flag": (400, OPENING + b"\x20" + message()[1:]),
    "command that is continued": (400, OPENING + b"\x11\x01x"),
    "frame of 4 GiB": (413, OPENING + message(large=True)[:-5] + b"\xff\xff\xff\xff"),
    "frame above the limit": (413, OPENING + message(payload=bytes(50_001), large=True)),
    "message above the limit": (
        413,
        OPENING + b"".join(message(payload=bytes(40_000), large=True, flags=16) for _ in range(3)),
    ),
    "another message inside of one": (400, OPENING + message(1, flags=16) + message(2)),
    "sequence 0": (400, OPENING + message(0)),
    "more than the window": (409, OPENING + message(1, flags=0) + message(2) + message(3) + message(4)),
    "properties without a colon": (400, OPENING + message(properties=b"a")),
    "property without a name": (400, OPENING + message(properties=b":N1;")),
    "property twice": (400, OPENING + message(properties=b"a:N1;A:N2;")),
    "property with a spoilt escape": (400, OPENING + message(properties=b"a:T%4;")),
    "properties that are not ASCII": (400, OPENING + message(properties=b"a:T\xff;")),
    "no destination": (404, OPENING + message(destination=b"")),
    "unknown queue": (404, OPENING + message(destination=b"queue/nowhere")),
    "unknown topic": (404, OPENING + message(destination=b"topic/nowhere")),
    "destination that is no UTF-8": (400, OPENING + message(destination=b"queue/\xff")),
    "destination with a control character": (400, OPENING + message(destination=b"queue/\n")),
    "destination that nobody can see": (400, OPENING + message(destination="queue/\u200b".encode())),
    "extension 0": (400, OPENING + b"\x02\x00\x00"),
    "extension that was not agreed": (400, OPENING + b"\x02\x09\x00"),
    "ack of three octets": (400, OPENING + b"\x02\x01\x03\x00\x00\x01"),
    "command without pub-sub": (501, handshake() * 2 + command(SUBSCRIBE)),
    "unknown command": (501, OPENING + command(b"publish;a=1")),
    "empty command": (501, OPENING + command(b"")),
    "command without a destination": (400, OPENING + command(b"subscribe;id=a")),
    "filter with an unknown operator": (400, OPENING + command(SUBSCRIBE + b",filter=a%3F1")),
    "filter that compares a text by size": (400, OPENING + command(SUBSCRIBE + b",filter=a%3C%3DTx")),
    "filter without a value": (400, OPENING + command(SUBSCRIBE + b",filter=a%3D")),
    "filter of 17 conditions": (
        400,
        OPENING + struct.pack(">BI", 9, len(SUBSCRIBE) + 8 + 17 * 9) + SUBSCRIBE + b",filter=" + b"a%3DN1%3B" * 17,
    ),
    "filter on a queue": (412, OPENING + command(b"subscribe;destination=q,filter=a%3DN1")),
    "type of 2000 octets": (
        400,
        handshake(b"dotnet") * 2 + struct.pack(">BBI", 10, 1, 2000) + bytes(2000),
    ),
    "type that is no UTF-8": (400, handshake(b"dotnet") * 2 + b"\x02\x01\x01\xff"),
}
"""What ends with an ERROR."""

ACCEPTED: dict[str, tuple[int, bytes]] = {
    "blanks and empty items": (1, handshake(b" ; pub-sub ;; ", b" batch-ack : max-count = 2 ; ") * 2 + message()),
    "duplicate extension": (1, handshake(b"pub-sub;pub-sub", b"pub-sub") * 2 + message()),
    "reserved flags of a handshake": (1, handshake(flags=0xFF) * 2 + message()),
    "later minor version": (1, b"\x01\x07" + handshake()[2:] + handshake() + message()),
    "later major version, then ours": (1, handshake(major=3) + handshake() + message()),
    "unknown extension is optional": (1, handshake(optional=b"NOPE;x-nope") + handshake() + message()),
    "identity that is not ASCII": (1, handshake(name=b"\xff\n") * 2 + message()),
    "large frame for a small message": (1, OPENING + message(large=True)),
    "empty message": (1, OPENING + message(payload=b"")),
    "message in pieces": (1, OPENING + message(flags=16) + message(flags=16) + message()),
    "number that jumps": (2, OPENING + message(1) + message(77)),
    "number that comes again": (1, OPENING + message(1) + message(1)),
    "ack of what was not sent": (1, OPENING + b"\x02\x01\x02\x00\x07" + message()),
    "ack of 0": (1, OPENING + b"\x02\x01\x02\x00\x00" + message()),
    "frame for an extension that has none": (1, handshake(b"json") * 2 + b"\x02\x01\x03abc" + message()),
    "payload that is no JSON": (1, handshake(b"json") * 2 + message(payload=b"{")),
    "number and time that are none": (1, OPENING + message(properties=b"a:Nabc;b:Dxyz")),
    "upper case command": (
        1,
        OPENING + command(b"SUBSCRIBE" + SUBSCRIBE[9:]) + message(),
    ),
    "unsubscribe of nothing": (0, OPENING + command(b"unsubscribe;id=mine")),
}
"""What is accepted, and how many messages are in the queue then."""


@pytest.fixture
async def live() -> AsyncIterator[Broker]:
    async with open_micromsg_broker(CONFIG, users=USERS) as broker:
        await broker.declare_queue("q", durable=False)
        await broker.declare_queue("healthy", durable=False)
        await broker.declare_sink("t", "topic", durable=False)
        bystander = MicroMsgPeer(await open_socket(broker))
        await bystander.open()
        await bystander.subscribe("queue/healthy")
        yield broker
        await bystander.send("queue/healthy", b"x")
        assert await bystander.bodies(1) == [b"x"]
        await bystander.hang_up()


async def open_socket(broker: Broker) -> trio.SocketStream:
    host, port = micromsg_endpoint(broker).addresses[0]  # type: ignore[misc]  # it is no Unix socket
    return await trio.open_tcp_stream(host, port)


async def converse(broker: Broker, octets: bytes) -> list[tuple[int, bytes]]:
    """Send all that a client has to say; return the frames that it gets, handshakes left out: flags and payload."""
    stream = await open_socket(broker)
    async with stream:
        try:
            await stream.send_all(octets)
            await stream.send_eof()
        except trio.BrokenResourceError:
            pass  # it was refused before the end
        received = b""
        with trio.fail_after(60):
            while data := await stream.receive_some(65536):
                received += bytes(data)
    return list(frames(received))


def frames(received: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    if received[:1] == b"\x01":  # the server's handshake
        position = 4 + received[3]
        for _ in range(2):
            position += 2 + int.from_bytes(received[position : position + 2], "big")
    while position < len(received):
        flags = received[position]
        start = position + (3 if flags & 2 else 2)
        size = received[start - 1]
        yield flags, received[start : start + size]
        position = start + size


@pytest.mark.parametrize("case", SILENT)
async def test_what_is_no_conversation_ends_without_a_word(case: str, live: Broker) -> None:
    assert await converse(live, SILENT[case]) == []
    assert await counts(live, "q") == (0, 0)


@pytest.mark.parametrize("case", ANSWERED)
async def test_what_is_malformed_is_answered_by_its_code(case: str, live: Broker) -> None:
    code, octets = ANSWERED[case]
    *before, (flags, text) = await converse(live, octets)
    assert flags == 4
    assert text[:4] == b"%d " % code
    assert len(text) <= 255
    assert all(flags == 2 for flags, _ in before)  # acks


@pytest.mark.parametrize("case", ACCEPTED)
async def test_what_is_odd_and_means_something_is_accepted(case: str, live: Broker) -> None:
    messages, octets = ACCEPTED[case]
    found = await converse(live, octets)
    if case != "unsubscribe of nothing":
        assert [flags for flags, _ in found if flags == 4] == []
    assert await counts(live, "q") == (messages, 0)


async def test_log_in_is_required_where_nobody_else_may_come_in() -> None:
    async with open_micromsg_broker(listening(user="")) as broker:
        await broker.declare_queue("q", durable=False)
        ((flags, text),) = await converse(broker, OPENING + message())
        assert (flags, text[:4]) == (4, b"412 ")
        login = handshake(b"x-sasl")
        for octets, code in {
            login * 2 + message(): b"401",
            login * 2 + command(SUBSCRIBE): b"401",
            login * 2 + b"\x02\x01\x02\x03x": b"401",
            login * 2 + b"\x02\x01\x02\x01x": b"400",
            login * 2 + b"\x02\x01\x06\x01NOPE\0": b"401",
            handshake() * 2: b"412",
        }.items():
            *_, (flags, text) = await converse(broker, octets)
            assert (flags, text[:3]) == (4, code), octets
        peer = MicroMsgPeer(await open_socket(broker), logging_in())
        await peer.open("guest")
        await peer.send("queue/q", b"x")
        await peer.hang_up()


async def test_client_that_fails_to_log_in_too_often_is_not_heard() -> None:
    async with open_micromsg_broker(listening(user="")) as broker:
        for _ in range(20):
            peer = MicroMsgPeer(await open_socket(broker), logging_in())
            with pytest.raises(AssertionError):
                await peer.open("guest", "wrong")
            assert peer.error is not None
            assert peer.error.code == 401
            await peer.hang_up()
        peer = MicroMsgPeer(await open_socket(broker), logging_in())
        with pytest.raises(AssertionError):
            await peer.open("guest")
        await peer.hang_up()


async def test_client_that_sends_octet_by_octet_is_understood(live: Broker) -> None:
    stream = await open_socket(live)
    async with stream:
        for octet in OPENING + message(1) + message(2) + command(SUBSCRIBE):
            await stream.send_all(bytes((octet,)))
        await stream.send_eof()
        with trio.fail_after(60):
            while await stream.receive_some(65536):
                pass
    assert await counts(live, "q") == (2, 0)


async def test_broker_that_is_cancelled_does_not_say_that_queues_are_deleted() -> None:
    with trio.CancelScope() as scope:
        async with open_micromsg_broker() as broker:
            await broker.declare_queue("q", durable=False)
            peer = MicroMsgPeer(await open_socket(broker))
            await peer.open()
            await peer.subscribe("queue/q")
            scope.cancel()
            await trio.sleep_forever()
    with pytest.raises(AssertionError, match="the stream has ended"):
        await peer.until(lambda: bool(peer.answers))
    await peer.hang_up()
