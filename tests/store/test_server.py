import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import ANY

import pytest

from triomq.errors import StoreLost, StoreUnwritable
from triomq.store import (
    ChunksMerged,
    ChunksRead,
    MessagesDelayed,
    MessagesSettled,
    OperationBatch,
    Reading,
    RecordKeyFound,
    RecordKind,
    RecordPut,
    SegmentRead,
)
from triomq.store.connecting import connect
from triomq.store.frames import (
    BackedUp,
    BackUp,
    BatchesCommitted,
    ChunksFetched,
    DelayedFetched,
    FetchFailed,
    FromStore,
    PiecesRecovered,
    Read,
    ReadChunks,
    ReadDelayed,
    ReadRecord,
    RecordFetched,
    SegmentsFetched,
    StoreFailed,
    StoreFrameReader,
    StoreOpened,
    ToStore,
    Write,
    encode_frame,
)
from triomq.store.server import serve

from . import streams
from .stores import DECLARE, append, opened
from .streams import append as append_chunk


class Broker:
    """The other end of the wire."""

    def __init__(self, directory: Path, *, fresh: bool = True) -> None:
        self.wire, theirs = socket.socketpair()
        self.wire.settimeout(100)
        self.reader = StoreFrameReader()
        self.frames: list[ToStore | FromStore] = []
        self.thread = threading.Thread(target=serve, args=(theirs, directory), kwargs={"fresh": fresh, "patience": 0})
        self.thread.start()

    def send(self, *frames: ToStore) -> None:
        self.wire.sendall(b"".join(buffer for frame in frames for buffer in encode_frame(frame)))

    def receive(self) -> ToStore | FromStore:
        while not self.frames:
            self.frames += self.reader.feed(self.wire.recv(1 << 20))
        return self.frames.pop(0)

    def leave(self) -> None:
        self.wire.close()
        self.thread.join(100)
        assert not self.thread.is_alive()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    assert broker.receive() == StoreOpened(0, [], ANY)
    yield broker
    broker.leave()


def test_batches_that_have_arrived_are_committed_together(broker: Broker) -> None:
    broker.send(
        Write(OperationBatch(1, [DECLARE])),
        Write(OperationBatch(2, [append(1)])),
        Write(OperationBatch(3, [append(2)])),
    )
    assert broker.receive() == BatchesCommitted(3)


def test_recovered_pieces_are_sent_before_the_store_counts_as_open(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.commit([OperationBatch(1, [DECLARE, append(1)])])
        pieces = list(store.recover(segments=False))
    broker = Broker(tmp_path)
    assert (broker.receive(), broker.receive()) == (PiecesRecovered(pieces), StoreOpened(1, [], ANY))
    broker.leave()
    broker = Broker(tmp_path, fresh=False)
    assert broker.receive() == StoreOpened(1, [], ANY)
    broker.leave()


def test_batch_that_is_sent_again_is_answered_and_not_done_again(broker: Broker, tmp_path: Path) -> None:
    broker.send(Write(OperationBatch(1, [DECLARE, append(1)])))
    assert broker.receive() == BatchesCommitted(1)
    broker.leave()
    broker = Broker(tmp_path, fresh=False)
    broker.receive()
    broker.send(Write(OperationBatch(1, [DECLARE, append(1)])), Write(OperationBatch(2, [append(2)])))
    assert broker.receive() == BatchesCommitted(2)
    broker.leave()


def test_batches_behind_one_that_failed_are_left_aside_until_all_are_sent_again(broker: Broker) -> None:
    broker.send(Write(OperationBatch(1, [DECLARE, append(1)])))
    broker.receive()
    broker.send(Write(OperationBatch(2, [append(1)])))
    failed = broker.receive()
    assert isinstance(failed, StoreFailed)
    assert "has had the id 1 already" in failed.text
    broker.send(Write(OperationBatch(3, [append(3)])), Read(1, 1, 3, 4, 0))
    assert broker.receive() == SegmentsFetched(1, Reading([], 4))
    broker.send(Write(OperationBatch(2, [append(2)])), Write(OperationBatch(3, [append(3)])))
    assert broker.receive() == BatchesCommitted(3)


def test_bodies_are_read_and_what_is_gone_is_not(broker: Broker) -> None:
    one = append(1)
    delay = MessagesDelayed(queue=1, number=4, due=0, count=1, size=1, body=b"later")
    broker.send(Write(OperationBatch(1, [DECLARE, one, append(2), MessagesSettled(1, [(2, 1)]), delay])))
    broker.receive()
    broker.send(Read(7, 1, 1, 3, 9_999), Read(8, 9, 1, 2, 9_999), ReadDelayed(9, 1, [4, 5]))
    assert broker.receive() == SegmentsFetched(7, Reading([SegmentRead(1, 1, b"", one.body, spilled=False)], 3))
    assert broker.receive() == SegmentsFetched(8, Reading([], 2))
    assert broker.receive() == DelayedFetched(9, [b"later", None])


def test_chunks_are_read_and_merged_when_their_batch_is_answered(broker: Broker) -> None:
    chunks = [append_chunk(first) for first in range(4)]
    broker.send(Write(OperationBatch(1, [streams.DECLARE, *chunks, ChunksMerged(streams.STREAM, 0, 4)])))
    assert broker.receive() == BatchesCommitted(1)
    number, found = 0, ChunksRead([b"", b""], 0)
    while len(found.chunks) > 1:
        number += 1
        broker.send(ReadChunks(number, streams.STREAM, 0, 4, 9_999, 0))
        answer = broker.receive()
        assert isinstance(answer, ChunksFetched)
        found = answer.chunks
    assert streams.spans(found) == [(0, 4)]


def test_damaged_chunk_is_answered_with_its_offsets(broker: Broker, tmp_path: Path) -> None:
    broker.send(Write(OperationBatch(1, [streams.DECLARE, append_chunk(0), append_chunk(1)])))
    broker.receive()
    with closing(connect(tmp_path / "store.db")) as connection:
        connection.execute("UPDATE body SET octets = zeroblob(length(octets)) WHERE of_first = 0")
    broker.send(ReadChunks(1, streams.STREAM, 0, 2, 9_999, 0))
    answer = broker.receive()
    assert isinstance(answer, ChunksFetched)
    assert streams.spans(answer.chunks) == [(1, 1)]
    assert [(each.first, each.count) for each in answer.chunks.damaged] == [(0, 1)]


def test_one_record_is_read_without_the_others(broker: Broker, tmp_path: Path) -> None:
    record = RecordPut(RecordKind.RESULT, b"key", b"value")
    broker.send(Write(OperationBatch(1, [record])))
    broker.receive()
    broker.send(ReadRecord(1, record.kind, record.key), ReadRecord(2, RecordKind.JOB, record.key))
    assert (broker.receive(), broker.receive()) == (RecordFetched(1, b"value"), RecordFetched(2, None))
    broker.leave()
    broker = Broker(tmp_path)
    found = RecordKeyFound(record.kind, record.key, len(record.value))
    assert (broker.receive(), broker.receive()) == (PiecesRecovered([found]), StoreOpened(1, [], ANY))
    broker.leave()


def test_failed_read_is_answered_with_the_reason(broker: Broker, tmp_path: Path) -> None:
    os.truncate(tmp_path / "spill.db-wal", 0)
    broker.send(Read(1, 1, 1, 2, 0))
    while not isinstance(answer := broker.receive(), FetchFailed):  # that the file has changed may be noticed first
        pass
    assert isinstance(answer.failed.error, StoreUnwritable | StoreLost)


def test_reading_goes_on_after_an_error_that_was_not_expected(broker: Broker) -> None:
    broker.send(Read(1, 1, 1 << 63, (1 << 63) + 1, 0), Read(2, 1, 1, 2, 0))
    answer = broker.receive()
    assert isinstance(answer, FetchFailed)
    assert "messages cannot be read, which is an error of triomq; please report it" in answer.failed.text
    assert broker.receive() == SegmentsFetched(2, Reading([], 2))


def test_damaged_range_is_answered_with_what_is_whole(broker: Broker, tmp_path: Path) -> None:
    broker.send(Write(OperationBatch(1, [DECLARE, append(1, b"unmistakable"), append(2, b"whole")])))
    broker.receive()
    broker.leave()
    file = tmp_path / "store.db"
    file.write_bytes(file.read_bytes().replace(b"unmistakable", b"unmistakeable"[:12]))
    broker = Broker(tmp_path)
    assert (type(broker.receive()), type(broker.receive())) == (PiecesRecovered, StoreOpened)
    broker.send(Read(1, 1, 1, 3, 1 << 20))
    answer = broker.receive()
    assert isinstance(answer, SegmentsFetched)
    assert [damaged.first for damaged in answer.reading.damaged] == [1]
    assert [segment.first for segment in answer.reading.segments] == [2]
    broker.leave()


def test_copy_is_made(broker: Broker, tmp_path: Path) -> None:
    broker.send(BackUp(1, str(tmp_path / "copy")))
    assert broker.receive() == BackedUp(1)
    broker.send(BackUp(2, str(tmp_path / "copy")))
    refused = broker.receive()
    assert isinstance(refused, BackedUp)
    assert refused.failed is not None


def test_batches_that_have_arrived_whole_are_committed_when_the_broker_is_gone(broker: Broker, tmp_path: Path) -> None:
    last = b"".join(encode_frame(Write(OperationBatch(3, [append(3)]))))
    broker.send(Write(OperationBatch(1, [DECLARE, append(1)])), Write(OperationBatch(2, [append(2)])))
    broker.wire.sendall(last[:-1])
    broker.leave()
    with opened(tmp_path) as store:
        assert store.committed == 2


def test_store_that_cannot_be_opened_is_answered_with_the_reason(tmp_path: Path) -> None:
    with opened(tmp_path):
        broker = Broker(tmp_path)
        failed = broker.receive()
        assert isinstance(failed, StoreFailed)
        assert failed.kind == "StoreLocked"
        broker.leave()


@contextmanager
def process(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "triomq.store.server", "--fresh", "--wire", str(theirs.fileno()), str(directory)]
    started = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    ours.settimeout(100)
    with started, ours:
        yield started, ours


def test_process_serves_and_ends_with_its_wire(tmp_path: Path) -> None:
    with process(tmp_path) as (started, wire):
        reader = StoreFrameReader()
        assert reader.feed(wire.recv(1 << 16)) == [StoreOpened(0, [], ANY)]
        wire.sendall(b"".join(encode_frame(Write(OperationBatch(1, [DECLARE])))))
        assert reader.feed(wire.recv(1 << 16)) == [BatchesCommitted(1)]
        wire.close()
        assert started.wait(100) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_are_for_the_broker_do_not_end_it(tmp_path: Path, number: signal.Signals) -> None:
    with process(tmp_path) as (started, wire):
        wire.recv(1 << 16)
        started.send_signal(number)
        wire.sendall(b"".join(encode_frame(Write(OperationBatch(1, [DECLARE])))))
        assert StoreFrameReader().feed(wire.recv(1 << 16)) == [BatchesCommitted(1)]
