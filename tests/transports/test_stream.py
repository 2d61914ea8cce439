"""Octets in and out: raw sockets that a poller watches, and any Trio stream."""

import socket
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from triomq.transports import RECEIVE_SIZE, Poller, RawSocket, StreamTransport, Transport

MUCH = b"0123456789abcdef" * 65536
"""A mebibyte: more than a socket's buffer takes."""


class Recorder:
    """A driver that notes what it hears."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.drains = 0

    def received(self, data: bytes) -> None:
        self.chunks.append(data)

    def drained(self) -> None:
        self.drains += 1

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def at_end(self) -> bool:
        return self.chunks[-1:] == [b""]


async def idle() -> None:
    """Let real sockets become ready and all tasks come to rest."""
    await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.fixture
def driver() -> Recorder:
    return Recorder()


class Wire:
    """A transport that a driver listens to, and a stream at its other end."""

    def __init__(self, transport: Transport, peer: trio.abc.HalfCloseableStream) -> None:
        self.transport = transport
        self.peer = peer


@pytest.fixture
async def raw(driver: Recorder, nursery: trio.Nursery) -> AsyncIterator[Wire]:
    poller = Poller()
    nursery.start_soon(poller.run)
    ours, theirs = socket.socketpair()
    transport = RawSocket(ours, "peer", poller)
    transport.start(driver)
    peer = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
    yield Wire(transport, peer)
    transport.close()
    nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await peer.aclose()
    poller.close()


@pytest.fixture
async def stream(driver: Recorder, nursery: trio.Nursery) -> Wire:
    ours, theirs = trio.testing.memory_stream_pair()
    transport = StreamTransport(ours, "peer")
    nursery.start_soon(transport.run)
    transport.start(driver)
    return Wire(transport, theirs)


@pytest.fixture(params=["raw", "stream"])
def wire(request: pytest.FixtureRequest, raw: Wire, stream: Wire) -> Wire:
    return raw if request.param == "raw" else stream


# Both kinds


async def test_octets_come_in_as_chunks_and_then_the_end(wire: Wire, driver: Recorder) -> None:
    await wire.peer.send_all(b"one")
    await idle()
    await wire.peer.send_all(b"two")
    await idle()
    assert driver.chunks == [b"one", b"two"]
    await wire.peer.send_eof()
    await idle()
    assert driver.chunks == [b"one", b"two", b""]


async def test_chunk_is_never_larger_than_the_appetite(wire: Wire, driver: Recorder) -> None:
    assert wire.transport.receive_size == RECEIVE_SIZE
    wire.transport.receive_size = 1000
    await wire.peer.send_all(b"x")  # a stream's task may be reading with the old one
    await idle()
    await wire.peer.send_all(b"x" * 4999)
    await idle()
    assert max(map(len, driver.chunks)) <= 1000
    assert driver.data == b"x" * 5000


async def test_buffers_go_out_in_order(wire: Wire) -> None:
    wire.transport.send_nowait([b"a", memoryview(b"bc"), b"d"])
    wire.transport.send_nowait([b"e"])
    await idle()
    assert await wire.peer.receive_some() == b"abcde"


async def test_data_that_does_not_fit_is_sent_later_and_the_driver_is_called(wire: Wire, driver: Recorder) -> None:
    assert not wire.transport.send_nowait([MUCH, b"and", MUCH])
    assert not wire.transport.send_nowait([b"more"])
    assert driver.drains == 0
    expected, found = MUCH + b"and" + MUCH + b"more", b""
    while len(found) < len(expected):
        found += await wire.peer.receive_some()
    assert found == expected
    await idle()
    assert driver.drains >= 1


async def test_call_back_may_be_asked_for_although_nothing_is_left(wire: Wire, driver: Recorder) -> None:
    wire.transport.notify_drained()
    assert driver.drains == 0  # in a turn of its own
    await idle()
    assert driver.drains == 1


async def test_paused_transport_reads_nothing(wire: Wire, driver: Recorder) -> None:
    await wire.peer.send_all(b"before")
    await idle()
    wire.transport.pause_reading()
    await wire.peer.send_all(b"a")
    await idle()
    await wire.peer.send_all(b"b")
    await idle()
    assert driver.data in (b"before", b"beforea")  # a stream is read ahead by one chunk
    wire.transport.resume_reading()
    await idle()
    assert driver.data == b"beforeab"


async def test_the_end_of_sending_follows_what_is_left(wire: Wire) -> None:
    wire.transport.send_nowait([MUCH])
    wire.transport.end_sending()
    found = b""
    while data := await wire.peer.receive_some():
        found += data
    assert found == MUCH


async def test_the_end_of_sending_leaves_the_other_direction_open(wire: Wire, driver: Recorder) -> None:
    wire.transport.end_sending()
    assert await wire.peer.receive_some() == b""
    await wire.peer.send_all(b"still there")
    await idle()
    assert driver.data == b"still there"


async def test_driver_is_not_called_after_a_close(wire: Wire, driver: Recorder) -> None:
    wire.transport.send_nowait([MUCH])
    wire.transport.close()
    wire.transport.close()
    await idle()
    with pytest.raises(trio.BrokenResourceError):
        await wire.peer.send_all(MUCH)
    assert driver.chunks == []
    assert driver.drains == 0


async def test_peer_that_breaks_off_is_the_end_of_the_stream(wire: Wire, driver: Recorder) -> None:
    await trio.aclose_forcefully(wire.peer)
    await idle()
    assert driver.chunks == [b""]
    wire.transport.send_nowait([b"to nobody"])
    wire.transport.end_sending()
    await idle()
    assert driver.chunks == [b""]


# Raw sockets


async def test_raw_socket_returns_whether_everything_has_left(raw: Wire) -> None:
    assert raw.transport.send_nowait([b"little"])
    assert raw.transport.send_nowait([b"some", b"more"])
    assert not raw.transport.send_nowait([MUCH])


async def test_full_raw_socket_is_read_all_the_same(raw: Wire, driver: Recorder) -> None:
    raw.transport.send_nowait([MUCH])
    await raw.peer.send_all(b"request")
    await idle()
    assert driver.data == b"request"


async def test_end_that_comes_while_paused_is_received_afterwards(raw: Wire, driver: Recorder) -> None:
    raw.transport.pause_reading()
    await raw.peer.send_all(b"last words")
    await raw.peer.aclose()
    await idle()
    assert driver.chunks == []
    raw.transport.resume_reading()
    await idle()
    assert driver.chunks == [b"last words", b""]


async def test_paused_socket_that_cannot_send_learns_that_the_peer_is_gone(raw: Wire, driver: Recorder) -> None:
    raw.transport.pause_reading()
    raw.transport.send_nowait([MUCH])
    await raw.peer.aclose()
    await idle()
    assert driver.drains == 1  # what was left is lost, and there is room again
    raw.transport.resume_reading()
    await idle()
    assert driver.at_end


async def test_ended_socket_does_not_spin(raw: Wire, driver: Recorder) -> None:
    await raw.peer.send_eof()
    await idle()
    raw.transport.pause_reading()
    raw.transport.resume_reading()
    await idle()  # would never come to rest if the end were reported again and again
    assert driver.chunks == [b""]


class Closer(Recorder):
    """A driver that closes its transport as soon as it hears anything."""

    transport: Transport

    def received(self, data: bytes) -> None:
        super().received(data)
        self.transport.close()

    def drained(self) -> None:
        super().drained()
        self.transport.close()


async def test_driver_may_close_its_socket_from_any_call(nursery: trio.Nursery) -> None:
    poller = Poller()
    nursery.start_soon(poller.run)
    for speak in (True, False):
        ours, theirs = socket.socketpair()
        with theirs:
            driver = Closer()
            driver.transport = RawSocket(ours, "peer", poller)
            driver.transport.start(driver)
            driver.transport.notify_drained()  # ready for both at once
            if speak:
                theirs.send(b"x")
            await idle()
            assert driver.drains + len(driver.chunks) == 1
            with pytest.raises(OSError):
                theirs.send(b"y" * 10**7)
    nursery.cancel_scope.cancel()
    poller.close()


# Streams


async def test_stream_is_closed_with_its_transport(stream: Wire) -> None:
    stream.transport.close()
    await idle()
    assert await stream.peer.receive_some() == b""


async def test_stream_is_closed_when_its_task_is_cancelled() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StreamTransport(ours, "peer").run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert await theirs.receive_some() == b""


async def test_stream_is_not_read_before_its_driver_is_set(nursery: trio.Nursery) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    transport, driver = StreamTransport(ours, "peer"), Recorder()
    nursery.start_soon(transport.run)
    await theirs.send_all(b"early")
    await idle()
    transport.start(driver)
    await idle()
    assert driver.chunks == [b"early"]


async def test_stream_without_a_half_close_stays_open_until_it_is_closed(
    driver: Recorder, nursery: trio.Nursery
) -> None:
    (send, receive), (peer_send, peer_receive) = [trio.testing.memory_stream_one_way_pair() for _ in range(2)]
    ours = OneEnd(send, peer_receive)
    transport = StreamTransport(ours, "peer")
    nursery.start_soon(transport.run)
    transport.start(driver)
    transport.send_nowait([b"goodbye"])
    transport.end_sending()
    await idle()
    assert await receive.receive_some() == b"goodbye"
    await peer_send.send_all(b"bye")
    await idle()
    assert driver.data == b"bye"
    transport.close()
    assert await receive.receive_some() == b""


class OneEnd(trio.abc.Stream):
    """A stream that can only be closed as a whole, as TLS is."""

    def __init__(self, send: trio.abc.SendStream, receive: trio.abc.ReceiveStream) -> None:
        self.send, self.receive = send, receive

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.send.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.send.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.receive.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.send.aclose()
        await self.receive.aclose()


async def test_progress_stands_still_while_the_peer_does_not_read(raw: Wire, driver: Recorder) -> None:
    raw.transport.start(driver)
    raw.transport.send_nowait([MUCH])
    await idle()
    before = raw.transport.progress
    await idle()
    assert raw.transport.progress == before
    read = 0
    while read < len(MUCH):
        read += len(await raw.peer.receive_some(65536))
    await idle()
    assert raw.transport.progress > before


async def test_lent_socket_is_written_by_another_and_closed_with_its_transport(raw: Wire, driver: Recorder) -> None:
    descriptor = raw.transport.lend()
    assert descriptor is not None
    with socket.socket(fileno=descriptor) as lent:
        lent.send(b"theirs")
        assert await raw.peer.receive_some() == b"theirs"
        raw.transport.send_nowait((b"ours",))
        assert await raw.peer.receive_some() == b"ours"
        raw.transport.close()
        assert await raw.peer.receive_some() == b""
        with pytest.raises(BrokenPipeError):
            lent.send(b"late")


async def test_socket_that_has_something_to_send_is_not_lent(raw: Wire) -> None:
    raw.transport.send_nowait((MUCH, MUCH, MUCH))
    assert raw.transport.lend() is None


async def test_closed_socket_and_a_stream_are_not_lent(raw: Wire, stream: Wire) -> None:
    raw.transport.close()
    assert raw.transport.lend() is None
    assert stream.transport.lend() is None
