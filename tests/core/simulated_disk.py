"""A simulated disk over a store in memory: it writes, reads and answers when it is told to, and not before."""

import msgspec

from memory_store import MemoryStore
from triomq.errors import StoreUnwritable
from triomq.store import ChunksRead, Fetch, Journal, OperationBatch, Reading, SegmentRead, assemble, decode_body
from triomq.store.frames import Read, ReadChunks, ReadRecord

Answer = Reading | ChunksRead | list[bytes | None] | bytes | None


class ReadResults(msgspec.Struct):
    """The queues that were told of messages, and of delayed messages, that were read."""

    messages: set[int] = set()
    delayed: set[int] = set()


class SimulatedDisk:
    """Does what the store's actor and its process do with a journal, step by step.

    ``fetches`` are the requests that have no answer yet.

    Args:
        store: The contents, perhaps of an earlier life of the broker.
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

    def take(self, *, patient: bool = False) -> int | None:
        """Take the next batch, if there is one, and return its number; ``patient`` as for ``Journal.take``."""
        batch = self.journal.take(patient=patient)
        if batch is None:
            return None
        self._taken.append(batch)
        self.last = batch.number
        return batch.number

    def write(self, most: int = 2) -> None:
        """Write batches that were taken, at most so many; the journal is not told yet."""
        self.store.commit(self._taken[:most])
        del self._taken[:most]

    def answer(self) -> None:
        """Tell the journal which batches are written."""
        self.journal.answered(self.store.committed)

    @property
    def has_unanswered(self) -> bool:
        """Whether the journal waits for an answer."""
        return bool(self.journal.unanswered)

    @property
    def progress(self) -> tuple[int, int]:
        """The last batch that was taken, and the last that the journal knows of."""
        return self.last, self.journal.committed

    def fail(self) -> None:
        """Write no batch that was taken, and report a fault."""
        self._taken.clear()
        self.journal.failed(StoreUnwritable("the simulated disk fails; recover it"))

    def recover(self) -> None:
        """End the fault: batches that were not answered are written, or were already."""
        self.store.commit(self.journal.unanswered)
        self._taken.clear()
        self.answer()

    def collect_fetches(self) -> None:
        """Take new requests to read."""
        self.fetches |= {fetch.request.number: fetch for fetch in self.journal.take_fetches()}

    def restart(self) -> None:
        """Forget all work under way, as a process does that is killed, and take it from the journal again."""
        self._found.clear()
        self.journal.merge_again()
        self.fetches = {fetch.request.number: fetch for fetch in self.journal.take_fetches(again=True)}
        if self.journal.fault is None:
            self.recover()

    def read(self) -> None:
        """Read what is requested; the journal is not told yet."""
        self.collect_fetches()
        for number, fetch in self.fetches.items():
            if number not in self._found:
                request = fetch.request
                if isinstance(request, Read):
                    found = self.store.read(request.queue, request.first, request.stop, request.max_bytes)
                    self._found[number] = found
                elif isinstance(request, ReadChunks):
                    self._found[number] = self.store.read_chunks(
                        request.queue, request.first, request.stop, request.max_bytes, request.since
                    )
                elif isinstance(request, ReadRecord):
                    self._found[number] = self.store.read_record(request.kind, request.key)
                else:
                    self._found[number] = self.store.read_delayed(request.queue, request.numbers)

    def fail_fetches(self) -> None:
        """Read nothing of what is requested, but report an error."""
        self.collect_fetches()
        failed, self.fetches = self.fetches, {}
        for number in failed:
            self.journal.fetched(number, StoreUnwritable("the simulated disk cannot be read"))

    def answer_fetches(self) -> ReadResults:
        """Tell the journal what was read."""
        results, found, self._found = ReadResults(), self._found, {}
        wanted = {fetch.request.number: fetch for fetch in self.journal.take_fetches(again=True)}
        self.fetches |= wanted
        for number, answer in found.items():
            request = self.fetches.pop(number).request
            if number in wanted and not isinstance(request, ReadRecord | ReadChunks):  # not forgotten since
                (results.messages if isinstance(request, Read) else results.delayed).add(request.queue)
            self.journal.fetched(number, answer)
        return results

    def work(self) -> None:
        """Do all work, until there is none left."""
        before = None
        while before != (before := self.progress) or self.fetches:
            self.take()
            self.write()
            self.answer()
            self.read()
            self.answer_fetches()
            self.collect_fetches()

    def is_asked(self, queue: int) -> bool:
        """Return whether messages of a queue are requested."""
        self.collect_fetches()
        requests = [fetch.request for fetch in self.fetches.values()]
        return any(isinstance(request, Read) and request.queue == queue for request in requests)

    def contents(self, queue: int, *, spilled: bool) -> dict[int, bytes]:
        """Return the unsettled messages of a queue, by ids."""
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
