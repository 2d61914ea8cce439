"""Chunks on the sockets of those who want them, written by the store's process."""

import queue
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from triomq.chunks import check_chunk, split_chunks
from triomq.errors import ChunkDamaged, StoreCorrupt
from triomq.store import ChunksDropped, ChunksSent, OperationBatch, SqliteReader, SqliteStore
from triomq.store.frames import FetchFailed, FromStore, SendChunks, SendingEnded
from triomq.store.sending import SendingThread

from .stores import opened
from .streams import DECLARE, STREAM, append, chunk

HEAD = b"\x93\x2a\x07"
"""An array of three: 42, 7, and the chunks."""


class Sending:
    """The thread, and what it has answered."""

    def __init__(self, directory: Path) -> None:
        self.answers: queue.SimpleQueue[FromStore] = queue.SimpleQueue()
        self.thread = SendingThread(lambda: SqliteReader(directory), self.answers.put)
        self.clients: list[socket.socket] = []

    def lend(
        self, number: int, first: int, stop: int = 1 << 40, max_bytes: int = 1 << 30, *, reader: str = "", room: int = 0
    ) -> socket.socket:
        """Ask for chunks; return the other end of the socket that they go to."""
        ours, theirs = socket.socketpair()
        self.thread.put(SendChunks(number, STREAM, first, stop, max_bytes, HEAD, reader, room), theirs)
        ours.settimeout(60)
        self.clients.append(ours)
        return ours

    def close(self) -> None:
        self.thread.close()
        for client in self.clients:
            client.close()

    def answer(self) -> FromStore:
        return self.answers.get(timeout=60)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with opened(tmp_path) as store:
        chunks = [append(first, 3, size=40_000) for first in range(0, 90, 3)]
        store.commit([OperationBatch(1, [DECLARE, *chunks])])
        yield store


@pytest.fixture
def sending(store: SqliteStore) -> Iterator[Sending]:
    sending = Sending(store.directory)
    yield sending
    sending.close()


def received(client: socket.socket) -> list[bytes]:
    """Read one frame; return its chunks."""
    with closing(client.makefile("rb")) as file:
        (size,) = struct.unpack(">I", file.read(4))
        body = file.read(size)
        assert file.read() == b""  # the store has closed its end
    kind, number, data = msgspec.msgpack.decode(body)
    assert (kind, number) == (42, 7)
    return [bytes(each) for each in split_chunks(data)]


def test_records_arrive_as_one_message(sending: Sending) -> None:
    client = sending.lend(1, first=4, stop=9)
    assert received(client) == [chunk(3, 3, 40_000), chunk(6, 3, 40_000)]
    answer = sending.answer()
    assert isinstance(answer, SendingEnded)
    assert (answer.number, answer.sent.is_whole, answer.sent.size > 240_000) == (1, True, True)


def test_reader_that_does_not_read_holds_nobody_up(sending: Sending) -> None:
    slow = [sending.lend(number, first=0) for number in range(10)]
    quick = sending.lend(10, first=87)
    assert received(quick) == [chunk(87, 3, 40_000)]
    assert sending.answer() == SendingEnded(
        10, ChunksSent(len(chunk(87, 3, 40_000)) + 4 + len(HEAD) + 5, is_whole=True)
    )
    for client in slow:
        assert len(received(client)) == 30
        assert isinstance(answer := sending.answer(), SendingEnded)
        assert answer.sent.is_whole


def test_answers_that_one_reader_leaves_unread_are_bounded_and_cost_no_other(sending: Sending) -> None:
    room = 16_000_000  # an answer has 3.6 MB
    other = sending.lend(100, first=0, reader="bob", room=room)
    for number in range(12):
        sending.lend(number, first=0, reader="eve", room=room)
    ended = [sending.answer() for _ in range(10)]
    assert all(isinstance(answer, SendingEnded) and not answer.sent.is_whole for answer in ended)
    assert sum(answer.held for answer in sending.thread._answers.values() if answer.reader == "eve") <= room // 2
    assert len(received(other)) == 30
    answer = sending.answer()
    assert isinstance(answer, SendingEnded)
    assert (answer.number, answer.sent.is_whole) == (100, True)


def test_closed_socket_ends_the_answer(sending: Sending) -> None:
    ours, theirs = socket.socketpair()
    with theirs.dup() as kept, ours:
        sending.thread.put(SendChunks(1, STREAM, 0, 1 << 40, 1 << 30, HEAD), theirs)
        assert len(ours.recv(4)) == 4
        kept.shutdown(socket.SHUT_RDWR)
    answer = sending.answer()
    assert isinstance(answer, SendingEnded)
    assert (answer.sent.is_whole, answer.sent.size > 0) == (False, True)


def test_records_that_are_gone_are_nothing_and_the_socket_is_left_alone(store: SqliteStore, sending: Sending) -> None:
    store.commit([OperationBatch(2, [ChunksDropped(STREAM, 60)])])
    client = sending.lend(1, first=40)
    assert sending.answer() == SendingEnded(1, ChunksSent(0, is_whole=False))
    assert client.recv(1) == b""


def test_answer_ends_before_damage_and_damage_at_its_beginning_is_an_error(
    store: SqliteStore, sending: Sending
) -> None:
    store.connection.execute("UPDATE body SET octets = zeroblob(9) WHERE of_first = 6")
    assert len(received(sending.lend(1, first=0))) == 2
    sending.answer()
    client = sending.lend(2, first=7)
    assert client.recv(1) == b""
    answer = sending.answer()
    assert isinstance(answer, FetchFailed)
    assert isinstance(answer.failed.error, StoreCorrupt)
    assert "the records from 7 on are damaged" in answer.failed.text


def test_body_of_other_records_is_damage_and_what_a_checksum_shows_is_left_to_the_reader(
    store: SqliteStore, sending: Sending
) -> None:
    execute = store.connection.execute
    execute("UPDATE chunk SET body = (SELECT body FROM chunk WHERE first = 30) WHERE first = 0")
    ((whole,),) = execute("SELECT octets FROM body WHERE of_first = 3").fetchall()
    execute("UPDATE body SET octets = ? WHERE of_first = 3", (whole[:-9] + b"?" + whole[-8:],))
    execute("UPDATE body SET octets = (SELECT octets FROM body WHERE of_first = 30) WHERE of_first = 6")
    assert sending.lend(1, first=0).recv(1) == b""
    assert isinstance(sending.answer(), FetchFailed)
    (changed,) = received(sending.lend(2, first=3))
    with pytest.raises(ChunkDamaged, match="3 to 5"):
        check_chunk(changed)


def test_store_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    sending = Sending(tmp_path / "nowhere")
    assert sending.lend(1, first=0).recv(1) == b""
    assert isinstance(sending.answer(), FetchFailed)
    sending.close()


def test_client_that_takes_nothing_for_too_long_is_given_up(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triomq.store.sending._PATIENCE", 0.05)
    sending = Sending(store.directory)
    sending.lend(1, first=0)
    answer = sending.answer()
    assert isinstance(answer, SendingEnded)
    assert not answer.sent.is_whole
    sending.close()
