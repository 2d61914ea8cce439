from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from triomq.errors import DiskFull, StoreCorrupt, StoreError
from triomq.store import (
    Journal,
    MessagesAppended,
    MessagesSettled,
    QueueDeclared,
    QueueFound,
    Reading,
    Recovered,
    SegmentRead,
)
from triomq.store.frames import (
    BackedUp,
    BackUp,
    BatchesCommitted,
    Buffers,
    DelayedFetched,
    FetchFailed,
    FromStore,
    PiecesRecovered,
    Read,
    ReadDelayed,
    ReadRecord,
    RecordFetched,
    SegmentsFetched,
    SettleEarly,
    StoreFailed,
    StoreFrameReader,
    StoreOpened,
    ToStore,
    Write,
    encode_frame,
)
from triomq.store.hosting.session import StoreSession, send_gathered

Clock = MockClock


class Host:
    """The other end, in the test's hands."""

    def __init__(self, journal: Journal) -> None:
        ours, self.stream = trio.testing.memory_stream_pair()
        self.session = StoreSession(journal, ours)
        self._reader = StoreFrameReader()

    async def send(self, *frames: FromStore) -> None:
        await self.stream.send_all(b"".join(buffer for frame in frames for buffer in encode_frame(frame)))

    async def receive(self) -> list[ToStore | FromStore]:
        frames: list[ToStore | FromStore] = []
        while not frames:
            frames = self._reader.feed(bytes(await self.stream.receive_some()))
        return frames

    async def end(self) -> None:
        await self.stream.aclose()


@pytest.fixture
def journal() -> Journal:
    journal = Journal()
    journal.opened(0, Recovered())
    return journal


def send(journal: Journal) -> None:
    journal.add(QueueDeclared(1, b"q", b""))


def numbers(frames: list[ToStore | FromStore]) -> list[int]:
    return [frame.batch.number for frame in frames if isinstance(frame, Write)]


async def test_recovered_pieces_are_set_in_the_journal() -> None:
    journal = Journal()
    host = Host(journal)
    found = QueueFound(3, b"q", b"", 1)
    await host.send(PiecesRecovered([found]), StoreOpened(9, ["notice"]))
    assert await host.session.begin() == ["notice"]
    assert journal.recovered is not None
    assert journal.recovered.queues[3].found == found
    assert journal.committed == 9


async def test_later_host_changes_nothing_of_that(journal: Journal) -> None:
    host = Host(journal)
    await host.send(StoreOpened(9, []))
    assert await host.session.begin() == []
    assert journal.committed == 0


async def test_store_that_cannot_be_opened_is_an_error(journal: Journal) -> None:
    host = Host(journal)
    await host.send(StoreFailed("StoreCorrupt", "torn"))
    with pytest.raises(StoreCorrupt, match="torn"):
        await host.session.begin()


async def test_host_that_ends_before_it_has_begun_is_none(journal: Journal) -> None:
    host = Host(journal)
    await host.end()
    assert await host.session.begin() is None


async def test_batches_that_another_host_did_not_answer_are_sent_first(journal: Journal, nursery: trio.Nursery) -> None:
    send(journal)
    journal.take()
    send(journal)
    host = Host(journal)
    nursery.start_soon(host.session.run)
    received = numbers(await host.receive()) + numbers(await host.receive())
    assert received == [1, 2]
    await host.send(BatchesCommitted(2))
    await trio.testing.wait_all_tasks_blocked()
    assert journal.committed == 2
    await host.end()


async def test_batches_that_cannot_be_written_are_sent_again_after_a_while(
    journal: Journal, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    host = Host(journal)
    nursery.start_soon(host.session.run)
    send(journal)
    assert numbers(await host.receive()) == [1]
    began = trio.current_time()
    await host.send(StoreFailed("DiskFull", "no room"))
    assert numbers(await host.receive()) == [1]
    assert trio.current_time() - began == pytest.approx(1)
    assert isinstance(journal.fault, DiskFull)
    await host.send(BatchesCommitted(1))
    await host.end()


async def test_settlements_are_sent_before_batches_are_tried_again(
    journal: Journal, nursery: trio.Nursery, autojump_clock: Clock
) -> None:
    host = Host(journal)
    nursery.start_soon(host.session.run)
    send(journal)
    await host.receive()
    await host.send(StoreFailed("DiskFull", "no room"))
    while journal.fault is None:
        await trio.lowlevel.checkpoint()
    journal.settle(1, 7, 2)
    received = await host.receive()
    while len(received) < 2:
        received += await host.receive()
    assert received[0] == SettleEarly([MessagesSettled(1, [(7, 2)])])
    assert numbers(received[1:]) == [1]
    await host.send(BatchesCommitted(1))
    await host.end()


async def test_error_that_trying_again_does_not_mend_ends_the_session(journal: Journal) -> None:
    host = Host(journal)
    await host.send(StoreFailed("StoreCorrupt", "torn"))
    with pytest.raises(StoreCorrupt, match="torn"):
        await host.session.run()


async def test_wishes_that_a_host_did_not_answer_are_for_the_next(journal: Journal, nursery: trio.Nursery) -> None:
    answers: list[Reading | list[bytes | None] | bytes | StoreError | None] = []
    journal.fetch(1, 1, 9, 100, answers.append)
    journal.fetch_delayed(1, [5], answers.append)
    journal.fetch(1, 9, 10, 100, answers.append)
    journal.fetch_record(7, b"key", answers.append)
    journal.take_fetches()
    host = Host(journal)
    nursery.start_soon(host.session.run)
    received: list[ToStore | FromStore] = []
    while len(received) < 4:
        received += await host.receive()
    assert received == [Read(1, 1, 1, 9, 100), ReadDelayed(2, 1, [5]), Read(3, 1, 9, 10, 100), ReadRecord(4, 7, b"key")]
    reading = Reading([SegmentRead(1, 1, b"", b"body", spilled=False)], 2)
    await host.send(
        SegmentsFetched(1, reading),
        DelayedFetched(2, [b"later"]),
        FetchFailed(3, StoreFailed("StoreCorrupt", "torn")),
        RecordFetched(4, b"value"),
    )
    await trio.testing.wait_all_tasks_blocked()
    assert answers[:2] == [reading, [b"later"]]
    assert isinstance(answers[2], StoreCorrupt)
    assert answers[3] == b"value"
    await host.end()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (BackedUp(1), None),
        (BackedUp(1, StoreFailed("StoreUnwritable", "there already")), "there already"),
        (None, "has ended while it made the copy"),
    ],
)
async def test_backup_ends_with_its_result_or_its_error(
    journal: Journal, nursery: trio.Nursery, answer: FromStore | None, expected: str | None
) -> None:
    host = Host(journal)
    nursery.start_soon(host.session.run)
    results: list[str | None] = []
    nursery.start_soon(note_copy, host.session, results.append)
    assert await host.receive() == [BackUp(1, "target")]
    if answer is not None:
        await host.send(answer)
    await host.end()
    await trio.testing.wait_all_tasks_blocked()
    assert (results[0] is None) if expected is None else (expected in str(results[0]))


async def note_copy(session: StoreSession, note: Callable[[str | None], None]) -> None:
    try:
        await session.back_up(Path("target"))
    except StoreError as error:
        note(str(error))
    else:
        note(None)


class Waiting:
    """A publisher that waits."""

    unsafe = 0

    def wait_for(self, number: int, count: int) -> None:
        self.unsafe += count

    def consumed(self, count: int) -> None:
        self.unsafe -= count


def append_and_deliver(journal: Journal, number: int) -> None:
    journal.owe(1, number, 1, Waiting())
    journal.append(1, number, b"head", [b"x"], 1)
    journal.delivered(1, 0, number - 1, number)


async def test_batch_that_consumers_may_settle_is_sent_a_moment_later(
    journal: Journal, autojump_clock: MockClock
) -> None:
    host = Host(journal)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.session.run)
        await trio.testing.wait_all_tasks_blocked()
        begun = trio.current_time()
        for number in range(1, 4):
            append_and_deliver(journal, number)
            await trio.sleep(0.0002)
            journal.settle(1, number, consumed=True)
        append_and_deliver(journal, 4)
        (frame,) = await host.receive()
        assert 0.001 <= trio.current_time() - begun <= 0.003
        assert isinstance(frame, Write)
        (append, _) = frame.batch.operations
        assert isinstance(append, MessagesAppended)
        assert (append.first, append.count) == (4, 1)
        await host.end()


async def test_session_rests_when_nothing_is_left_to_send(journal: Journal, autojump_clock: MockClock) -> None:
    host = Host(journal)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.session.run)
        await trio.testing.wait_all_tasks_blocked()
        append_and_deliver(journal, 1)
        journal.settle(1, 1, consumed=True)
        await trio.sleep(1)
        with trio.move_on_after(1000):
            await trio.sleep_forever()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf")
        assert (journal.open_batch, journal.is_held) == (1, False)
        await host.end()


async def test_buffers_arrive_whole_when_the_socket_takes_them_in_parts(nursery: trio.Nursery) -> None:
    ours, theirs = trio.socket.socketpair()
    ours.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, 4_096)
    buffers: Buffers = [bytes([number % 251]) * (number % 7 * 1_111) for number in range(1_500)]
    nursery.start_soon(send_gathered, trio.SocketStream(ours), buffers)
    expected, found = b"".join(buffers), bytearray()
    while len(found) < len(expected):
        found += await theirs.recv(len(found) % 9_999 + 1)
    assert found == expected
    ours.close()
    theirs.close()


async def test_socket_whose_other_end_is_gone_is_broken() -> None:
    ours, theirs = trio.socket.socketpair()
    theirs.close()
    with pytest.raises(trio.BrokenResourceError):
        await send_gathered(trio.SocketStream(ours), [b"a", b"b"])
    ours.close()
