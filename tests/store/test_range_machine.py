"""Queues of durable and of spilled messages, read by ranges, in a store whose process is killed now and then."""

import shutil
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from memory_store import MemoryStore
from triomq.store import (
    BodyRun,
    Journal,
    QueueDeclared,
    QueueDeleted,
    Recovered,
    SegmentRead,
    SpilledDropped,
    SqliteStore,
    decode_body,
)

from .test_sqlite import MEMORY, copy_of

Message = tuple[bytes, bytes, bool]
"""Head, content, and whether it was spilled."""

QUEUES = st.sampled_from((0, 0, 0, 1))
LENGTHS = st.lists(st.sampled_from((0, 5, 5_000)), min_size=1, max_size=4)
HEADS = st.sampled_from((b"head", b"other"))
GAPS = st.integers(0, 2)
BACK = st.integers(0, 30)
"""How far behind the next id a range begins, so that most ranges have something in them."""


class Queue:
    """What the core would know: what was added to it, and which id is next."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.next = 1
        self.messages: dict[int, Message] = {}

    def behind(self, back: int) -> int:
        return max(1, self.next - back)

    def take_ids(self, first: int, run: BodyRun, *, spilled: bool) -> None:
        for position, content in enumerate(run.contents, first + run.offset):
            self.messages[position] = (run.head, content, spilled)
        self.next = first + run.offset + len(run.contents)


class RangeMachine(RuleBasedStateMachine):
    """The same batches go to both stores; whatever is read must be the same, and what the queues were told."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=MEMORY)
        self.places = (Path(self.folder.name) / f"{number}" for number in count())
        self.memory = MemoryStore()
        self.store = SqliteStore(next(self.places), patience=0)
        self.journal = Journal()
        self.journal.opened(0, Recovered())
        self.numbers = count(1)
        self.queues = [self.declared(), self.declared()]

    def declared(self) -> Queue:
        queue = Queue(next(self.numbers))
        self.journal.add(QueueDeclared(queue.number, b"q", b""))
        return queue

    @rule(which=QUEUES, gap=GAPS, head=HEADS, lengths=LENGTHS)
    def append(self, which: int, gap: int, head: bytes, lengths: list[int]) -> None:
        queue, contents = self.queues[which], list(map(bytes, lengths))
        first = queue.next + gap  # the ids in between are of messages that are only in memory
        self.journal.append(queue.number, first, head, contents, sum(map(len, contents)))
        queue.take_ids(first, BodyRun(0, head, contents), spilled=False)

    @rule(which=QUEUES, given=st.lists(st.tuples(GAPS, HEADS, LENGTHS), min_size=1, max_size=3))
    def spill(self, which: int, given: list[tuple[int, bytes, list[int]]]) -> None:
        queue, runs = self.queues[which], []
        first = queue.next
        for gap, head, lengths in given:
            runs.append(BodyRun(queue.next - first + gap, head, list(map(bytes, lengths))))
            queue.take_ids(first, runs[-1], spilled=True)
        self.journal.spill(queue.number, first, runs, queue.next - first)
        self.journal.cut(queue.number)

    @rule(which=QUEUES, back=BACK, length=st.integers(1, 9))
    def settle(self, which: int, back: int, length: int) -> None:
        queue = self.queues[which]
        first = queue.behind(back)
        length = min(length, queue.next - first)
        if length > 0:
            self.journal.settle(queue.number, first, length)
            self.journal.add(SpilledDropped(queue.number, [(first, length)]))
            for position in range(first, first + length):
                queue.messages.pop(position, None)

    @precondition(lambda self: self.queues[0].next > 20)
    @rule(which=QUEUES)
    def delete(self, which: int) -> None:
        self.journal.add(QueueDeleted(self.queues[which].number))
        self.queues[which] = self.declared()

    @rule()
    def commit(self) -> None:
        self.journal.take()
        self.send()

    def send(self) -> None:
        """Have done in both stores what is not answered, as after a new start of the store's process."""
        batches = self.journal.unanswered
        if batches:
            assert self.memory.commit(batches) == self.store.commit(batches) == batches[-1].number
            self.journal.answered(batches[-1].number)

    @rule()
    def kill(self) -> None:
        self.reopen(copy_of(self.store.directory, next(self.places)))

    @rule()
    def kill_between_the_two_files(self) -> None:
        before = copy_of(self.store.directory, next(self.places))
        batch = self.journal.take()
        if batch is not None:
            self.store.commit([batch])
        for name in ("spill.db", "spill.db-wal"):
            shutil.copy(self.store.directory / name, before / name)
        self.reopen(before)
        self.send()

    def reopen(self, directory: Path) -> None:
        self.store.close()
        shutil.rmtree(self.store.directory)
        self.store = SqliteStore(directory, fresh=False, patience=0)

    @rule(
        which=QUEUES,
        back=BACK,
        length=st.integers(1, 40),
        max_bytes=st.sampled_from((0, 100, 12_000, 1 << 20)),
        commits=st.sampled_from((True, True, False)),
    )
    def read(self, which: int, back: int, length: int, max_bytes: int, commits: bool) -> None:
        if commits:
            self.commit()
        queue = self.queues[which]
        first = position = queue.behind(back)
        stop = first + length
        found: list[tuple[int, Message]] = []
        while position < stop:
            reading = self.store.read(queue.number, position, stop, max_bytes)
            assert reading == self.memory.read(queue.number, position, stop, max_bytes)
            assert position < reading.up_to <= stop
            assert reading.segments or reading.up_to == stop
            assert sum(len(segment.body) for segment in reading.segments[:-1]) <= max_bytes
            for segment in reading.segments:
                found += [each for each in messages(segment) if position <= each[0] < reading.up_to]
            position = reading.up_to
        if self.journal.require_commit() == self.journal.committed:
            assert found == sorted(each for each in queue.messages.items() if first <= each[0] < stop)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


def messages(segment: SegmentRead) -> list[tuple[int, Message]]:
    """Give what is not settled of a segment, by ids."""
    settled = int.from_bytes(segment.settled, "little")
    return [
        (segment.first + position, (run.head, content, segment.spilled))
        for run in decode_body(segment.body)
        for position, content in enumerate(run.contents, run.offset)
        if not settled >> position & 1
    ]


TestRanges = RangeMachine.TestCase
TestRanges.settings = settings(stateful_step_count=40)
