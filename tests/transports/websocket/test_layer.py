"""WebSocket on a raw socket: data both ways, faults of the peer, pings, and ends; the peer is written by hand."""

import socket
from collections.abc import Iterator
from itertools import pairwise

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.websocket_words import BINARY, CLOSE, PING, PONG, TEXT, Seen, frame, frames_of, request
from triomq.transports import RECEIVE_SIZE, Poller, RawSocket, WebSocket
from triomq.transports.websocket import ServerHandshake, WebSocketTransport

LARGEST = 100_000


class Driver:
    """Who the transport works for."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.drains = 0

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def ended(self) -> bool:
        return b"" in self.chunks

    def received(self, data: bytes) -> None:
        assert not self.ended
        self.chunks.append(data)

    def drained(self) -> None:
        self.drains += 1


class Server:
    """One side of a socket pair with WebSocket on it, and the other side's socket."""

    def __init__(self, *, opened: bool = True) -> None:
        ours, self.theirs = socket.socketpair()
        self.theirs.setblocking(False)
        self.poller = Poller()
        self.driver = Driver()
        self.failures: list[str] = []
        self.leaving = False
        self.raw = RawSocket(ours, "a peer", self.poller)
        self.transport = WebSocketTransport(
            self.raw,
            ServerHandshake(WebSocket()),
            max_frame_size=LARGEST,
            opened=lambda transport: transport.start(self.driver),
            failed=lambda transport, reason: self.failures.append(reason),
            is_leaving=lambda: self.leaving,
        )
        if opened:
            self.transport.received(request())
            assert self.octets().startswith(b"HTTP/1.1 101 ")

    def octets(self) -> bytes:
        """Read all that has come to the other side."""
        found = b""
        try:
            while data := self.theirs.recv(1 << 20):
                found += data
        except BlockingIOError:
            pass
        return found

    def frames(self) -> list[Seen]:
        return frames_of(self.octets())

    def close(self) -> None:
        self.transport.close()
        self.transport.close()
        self.theirs.close()
        self.poller.close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def test_messages_of_a_chunk_are_passed_on_in_one_piece(server: Server) -> None:
    server.transport.received(frame(BINARY, b"one ") + frame(BINARY) + frame(BINARY, b"two"))
    assert server.driver.chunks == [b"one two"]


def test_empty_messages_are_no_end_of_the_stream(server: Server) -> None:
    server.transport.received(frame(BINARY) * 3)
    assert server.driver.chunks == []


def test_fragments_are_passed_on_as_they_come_and_pings_between_them_are_answered(server: Server) -> None:
    server.transport.received(frame(BINARY, b"a", fin=False) + frame(PING, b"here?") + frame(0, b"b", fin=False))
    assert server.driver.data == b"ab"
    assert server.frames() == [Seen(PONG, b"here?")]
    server.transport.received(frame(0, b"c") + frame(PONG, b"unasked"))
    assert server.driver.data == b"abc"


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=6),
    st.binary(min_size=4, max_size=4),
    st.data(),
)
def test_data_is_the_same_however_it_is_cut(payloads: list[bytes], mask: bytes, data: st.DataObject) -> None:
    whole = b"".join(frame(BINARY, payload, mask=mask) for payload in payloads)
    places = data.draw(st.lists(st.integers(0, len(whole)), max_size=8))
    server = Server()
    for start, end in pairwise([0, *sorted(places), len(whole)]):
        if start < end:
            server.transport.received(whole[start:end])
    assert server.driver.data == b"".join(payloads)
    assert not server.driver.ended
    server.close()


def test_frame_of_any_length_is_read_octet_by_octet() -> None:
    for size in (0, 1, 125, 126, 65_535, 65_536):
        server = Server()
        whole = frame(BINARY, b"z" * size)
        for octet in whole[:20]:
            server.transport.received(bytes([octet]))
        server.transport.received(whole[20:] or frame(PING))
        assert server.driver.data == b"z" * size
        server.close()


def test_what_comes_with_the_handshake_is_received() -> None:
    server = Server(opened=False)
    server.transport.received(request() + frame(BINARY, b"early"))
    assert server.driver.data == b"early"
    server.close()


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, 90_000])
def test_what_is_sent_at_once_is_one_message(server: Server, size: int) -> None:
    server.theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    assert server.transport.send_nowait((b"x" * (size - 1), memoryview(b"y")))
    assert server.frames() == [Seen(BINARY, b"x" * (size - 1) + b"y")]


def test_sending_nothing_sends_no_message(server: Server) -> None:
    assert server.transport.send_nowait((b"",))
    assert server.frames() == []


async def test_what_is_not_taken_at_once_arrives_whole_and_the_driver_hears_when(
    server: Server, nursery: trio.Nursery
) -> None:
    much = bytes(range(256)) * 8_000
    assert not server.transport.send_nowait((much,))
    assert not server.transport.send_nowait((b"end",))
    nursery.start_soon(server.poller.run)
    found = b""
    with trio.fail_after(60):
        while not server.driver.drains:
            found += server.octets()
            await trio.lowlevel.checkpoint()
    found += server.octets()
    assert frames_of(found) == [Seen(BINARY, much), Seen(BINARY, b"end")]
    assert server.transport.progress > 0
    nursery.cancel_scope.cancel()


async def test_pings_of_who_reads_nothing_are_answered_once_when_it_reads(
    server: Server, nursery: trio.Nursery
) -> None:
    much = bytes(2_000_000)
    assert not server.transport.send_nowait((much,))
    for number in range(1000):
        server.transport.received(frame(PING, b"%d" % number) * 2)
    nursery.start_soon(server.poller.run)
    found = b""
    with trio.fail_after(60):
        while not found.endswith(b"999"):
            found += server.octets()
            await trio.lowlevel.checkpoint()
    assert frames_of(found) == [Seen(BINARY, much), Seen(PONG, b"999")]
    nursery.cancel_scope.cancel()


FAULTS = {
    "text": (frame(TEXT, b"hello"), 1003, "text was sent; send binary messages"),
    "text in parts": (frame(TEXT, b"\xff", fin=False), 1003, "text was sent"),
    "a frame that is too large": (frame(BINARY, b"abc", length=LARGEST + 1), 1009, "a frame is too large"),
    "a frame of 2**63 - 1 octets": (frame(BINARY, b"abc", length=2**63 - 1), 1009, "a frame is too large"),
    "a frame that is not masked": (frame(BINARY, b"abc", mask=None), 1002, "unmasked"),
    "a reserved bit, such as that of compression": (frame(BINARY, b"abc", reserved=4), 1002, "Reserved bit"),
    "an unknown kind of data": (frame(3, b"abc"), 1002, "opcode"),
    "an unknown kind of control": (frame(11), 1002, "opcode"),
    "a long ping": (frame(PING, bytes(126)), 1002, "Control frame"),
    "a ping in parts": (frame(PING, fin=False), 1002, "fragment"),
    "a part of nothing": (frame(0, b"abc"), 1002, "CONTINUATION"),
    "a message within a message": (frame(BINARY, b"a", fin=False) + frame(BINARY, b"b"), 1002, "CONTINUATION"),
    "a longer form of a length": (b"\x82\xfe\x00\x01" + bytes(5), 1002, "length"),
    "a length of 2**63": (b"\x82\xff\x80" + bytes(12), 1002, "length"),
    "half a code of Close": (frame(CLOSE, b"\x03"), 1002, "CLOSE"),
    "a code of Close that means nothing": (frame(CLOSE, b"\x03\xed"), 1002, "CLOSE"),
    "a reason of Close that is no text": (frame(CLOSE, b"\x03\xe8\xff"), 1007, "CLOSE"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_closes_with_its_code_after_what_was_right(server: Server, name: str) -> None:
    data, code, reason = FAULTS[name]
    server.transport.received(frame(BINARY, b"before") + data)
    assert server.driver.data.startswith(b"before")
    assert server.driver.ended
    (close,) = server.frames()
    assert (close.opcode, close.code) == (CLOSE, code)
    assert reason in close.payload[2:].decode()
    assert server.theirs.recv(1) == b""
    server.transport.received(frame(BINARY, b"more"))
    assert b"more" not in server.driver.data
    assert server.failures == []
    server.transport.close()
    assert reason in server.failures[0]


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=60), max_size=5), st.booleans())
def test_no_bytes_raise(chunks: list[bytes], ending: bool) -> None:
    server = Server()
    for number, chunk in enumerate(chunks):
        if ending and number == 1:
            server.transport.end_sending()
        if chunk:
            server.transport.received(chunk)
    server.transport.received(b"") if not server.driver.ended else None
    assert server.driver.ended
    server.octets()
    server.close()


def test_close_of_the_peer_is_answered_and_ends_the_stream(server: Server) -> None:
    server.transport.received(frame(BINARY, b"last") + frame(CLOSE, b"\x03\xe8bye") + frame(BINARY, b"too late"))
    assert server.driver.chunks == [b"last", b""]
    (close,) = server.frames()
    assert (close.opcode, close.code) == (CLOSE, 1000)
    assert server.transport.send_nowait((b"to nobody",))
    assert server.octets() == b""
    server.transport.close()
    assert server.failures == []


def test_close_without_a_code_is_answered_without_one(server: Server) -> None:
    server.transport.received(frame(CLOSE))
    assert server.frames() == [Seen(CLOSE, b"")]


@pytest.mark.parametrize(("leaving", "code"), [(False, 1000), (True, 1001)])
def test_end_of_the_driver_is_a_close_and_its_answer_the_end_of_the_stream(
    server: Server, leaving: bool, code: int
) -> None:
    server.leaving = leaving
    server.transport.send_nowait((b"last",))
    server.transport.end_sending()
    server.transport.end_sending()
    last, close = server.frames()
    assert (last, close.code) == (Seen(BINARY, b"last"), code)
    assert server.transport.send_nowait((b"more",))
    server.transport.received(frame(BINARY, b"on its way") + frame(PING))
    assert server.driver.chunks == []
    server.transport.received(frame(CLOSE, code.to_bytes(2)))
    assert server.driver.chunks == [b""]
    assert server.octets() == b""


def test_peer_that_hangs_up_without_a_close_ends_the_stream(server: Server) -> None:
    server.transport.received(b"")
    server.transport.received(b"")
    assert server.driver.chunks == [b""]


def test_refused_handshake_is_told_with_its_reason_and_passes_nothing_on() -> None:
    server = Server(opened=False)
    server.transport.received(request(target="/other") + frame(BINARY, b"data"))
    server.transport.received(frame(BINARY, b"data"))
    assert server.octets().startswith(b"HTTP/1.1 404 ")
    assert (server.driver.chunks, len(server.failures)) == ([], 1)
    assert server.failures[0].startswith("404, ")
    server.transport.received(b"")
    assert server.raw.send_nowait((b"nothing is sent any more",)) or True
    server.close()


def test_peer_that_goes_during_the_handshake_has_failed_without_a_reason() -> None:
    server = Server(opened=False)
    server.transport.received(request()[:20])
    server.transport.received(b"")
    assert server.failures == [""]
    server.close()


def test_less_is_read_at_once_from_who_sends_small_frames(server: Server) -> None:
    server.transport.receive_size = 4 * RECEIVE_SIZE
    server.transport.received(frame(BINARY, b"tiny") * 100)
    assert server.raw.receive_size < RECEIVE_SIZE
    server.transport.received(frame(BINARY, bytes(1000)) * 10)
    assert server.raw.receive_size == 4 * RECEIVE_SIZE


async def test_paused_data_waits(server: Server, nursery: trio.Nursery) -> None:
    nursery.start_soon(server.poller.run)
    server.transport.pause_reading()
    server.theirs.send(frame(BINARY, b"patience"))
    await trio.testing.wait_all_tasks_blocked()
    assert server.driver.data == b""
    server.transport.resume_reading()
    with trio.fail_after(60):
        while server.driver.data != b"patience":
            await trio.lowlevel.checkpoint()
        server.transport.notify_drained()
        while not server.driver.drains:
            await trio.lowlevel.checkpoint()
    nursery.cancel_scope.cancel()


def test_descriptor_is_not_lent_and_nothing_is_encrypted(server: Server) -> None:
    assert server.transport.lend() is None
    assert not server.transport.is_encrypted
    assert server.transport.client_name("common_name") == ""
