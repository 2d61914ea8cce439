"""A disk for machines: over a store in memory, it writes, reads and answers when it is told to, and not before."""

import msgspec

from memory_store import MemoryStore
from triomq.errors import StoreUnwritable
from triomq.store import Fetch, Journal, OperationBatch, Reading, SegmentRead, assemble, decode_body
from triomq.store.frames import Read

Answer = Reading | list[bytes | None]


class Given(msgspec.Struct):
    """Which queues were told what was read."""

    messages: set[int] = set()
    delayed: set[int] = set()


class Disk:
    """What the store's actor and its host do with a journal, step by step.

    ``fetches`` are the wishes that have no answer yet.

    Args:
        store: What there is from an earlier life of the broker.
    """

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.journal = Journal()
        store.forget_spilled()
        self.journal.opened(store.committed, assemble(store.recover()))
        self.last = store.committed  # the batch that was taken last
        self.fetches: dict[int, Fetch] = {}
        self._taken: list[OperationBatch] = []
        self._found: dict[int, Answer] = {}

    def take(self) -> int | None:
        """Take the next batch, if there is one, and give its number."""
        batch = self.journal.take()
        if batch is None:
            return None
        self._taken.append(batch)
        self.last = batch.number
        return batch.number

    def write(self, most: int = 2) -> None:
        """Write what was taken, at most so many batches; the journal does not know yet."""
        self.store.commit(self._taken[:most])
        del self._taken[:most]

    def answer(self) -> None:
        """Tell the journal what is written."""
        self.journal.answered(self.store.committed)

    @property
    def owes(self) -> bool:
        """Whether the journal waits for an answer."""
        return bool(self.journal.unanswered)

    @property
    def progress(self) -> tuple[int, int]:
        """The last batch that was taken, and the last that the journal knows of."""
        return self.last, self.journal.committed

    def fail(self) -> None:
        """Write nothing of what was taken, and say so."""
        self._taken.clear()
        self.journal.failed(StoreUnwritable("the disk is in a bad mood; soothe it"))

    def mend(self) -> None:
        """Be there again: what was not answered is written, or was already."""
        self.store.commit(self.journal.unanswered)
        self._taken.clear()
        self.answer()

    def look(self) -> None:
        """Hear what is wished for."""
        self.fetches |= {fetch.request.number: fetch for fetch in self.journal.take_fetches()}

    def start_again(self) -> None:
        """Forget everything that is under way, as a process does that is killed, and be told again."""
        self._found.clear()
        self.fetches = {fetch.request.number: fetch for fetch in self.journal.take_fetches(again=True)}
        if self.journal.fault is None:
            self.mend()

    def read(self) -> None:
        """Read what is wished for; nobody knows yet."""
        self.look()
        for number, fetch in self.fetches.items():
            if number not in self._found:
                request = fetch.request
                if isinstance(request, Read):
                    found = self.store.read(request.queue, request.first, request.stop, request.max_bytes)
                    self._found[number] = found
                else:
                    self._found[number] = self.store.read_delayed(request.queue, request.numbers)

    def give(self) -> Given:
        """Tell what was read."""
        given, found, self._found = Given(), self._found, {}
        wanted = {fetch.request.number: fetch for fetch in self.journal.take_fetches(again=True)}
        self.fetches |= wanted
        for number, answer in found.items():
            request = self.fetches.pop(number).request
            if number in wanted:  # nobody has forgotten it since
                (given.messages if isinstance(request, Read) else given.delayed).add(request.queue)
            self.journal.fetched(number, answer)
        return given

    def work(self) -> None:
        """Do all that is asked, until nobody asks anything."""
        before = None
        while before != (before := self.progress) or self.fetches:
            self.take()
            self.write()
            self.answer()
            self.read()
            self.give()
            self.look()

    def is_asked(self, queue: int) -> bool:
        """Tell whether a queue waits for what is read."""
        self.look()
        requests = [fetch.request for fetch in self.fetches.values()]
        return any(isinstance(request, Read) and request.queue == queue for request in requests)

    def contents(self, queue: int, *, spilled: bool) -> dict[int, bytes]:
        """Give what is not settled of a queue, by ids."""
        segments = self.store.read(queue, 1, 1 << 40, 1 << 40).segments
        return {
            segment.first + position: content
            for segment in segments
            if segment.spilled is spilled
            for run in decode_body(segment.body)
            for position, content in enumerate(run.contents, run.offset)
            if not _settled(segment, position)
        }


def _settled(segment: SegmentRead, position: int) -> int:
    return int.from_bytes(segment.settled, "little") >> position & 1
