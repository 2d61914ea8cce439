"""The book of a domain's feeds, pipes and joins: what is known of them beside sinks, queues and bindings.

One for each domain, whatever wires show it, so a pipe that was made over one of them is the same over the others. It
lasts as long as the broker. Sinks, queues and bindings come and go without a word to anybody here, so what stands here
for one of them is compared with the directory whenever it is used.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from triomq.actors import Ref
from triomq.core import Directory, Overflow
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.feeds.pipe import JoinState, PipeState
from triomq.endpoints.feeds.records import FeedRecord, FeedRecords, PipeRecord
from triomq.endpoints.feeds.refusals import NoSuchPipe
from triomq.endpoints.feeds.words import DEFAULT_JOIN_PREFIX, FEED_PREFIX, PIPE_PREFIX


class PipeLimits(msgspec.Struct, frozen=True):
    """How much a pipe holds that nobody reads.

    Args:
        messages: So many messages; 0 is no limit.
        size: So many bytes of them; 0 is no limit.
        overflow: What a full one does.
    """

    messages: int = 100_000
    size: int = 64 * 1024 * 1024
    overflow: Overflow = Overflow.DROP_HEAD


class FeedBook:
    """What is known in one domain.

    Args:
        ref: The domain.
        directory: Its directory.
        now: Gives the time, in Unix time.
    """

    def __init__(self, ref: Ref, directory: Directory, now: Callable[[], float]) -> None:
        self.ref = ref
        self.directory = directory
        self.now = now
        self.records = FeedRecords(directory)
        self.has_types = True
        """Whether it has the profile 4/AMQP9 of RestMS; else 3/Defaults is all."""
        self.limits = PipeLimits()
        """Of the pipes that are made from now on."""
        self.feeds: dict[str, FeedRecord] = {}
        self.pipes: dict[str, PipeState] = {}
        self.joins: dict[str, JoinState] = {}
        self.shared_joins: Counter[str] = Counter()
        """How many joins there are to each shared queue."""
        self._recover()

    @property
    def profiles(self) -> tuple[str, ...]:
        """Its profiles of RestMS, by name."""
        return ("3/Defaults", "4/AMQP9") if self.has_types else ("3/Defaults",)

    def has_private(self, name: str) -> bool:
        """Return whether there is a private feed of a name."""
        return name.startswith(FEED_PREFIX) and name in self.feeds

    def pipe_of_default_join(self, hash_: str) -> PipeState | None:
        """Return the pipe whose join to the default feed has a hash, which is made out of its name."""
        _, is_one, rest = hash_.partition(DEFAULT_JOIN_PREFIX)
        found = self.pipes.get(PIPE_PREFIX + rest) if is_one else None
        return found if found is not None and found.default_join == hash_ else None

    def pipe_of(self, user: str, name: str) -> PipeState:
        """Return a user's pipe.

        Raises:
            NoSuchPipe: There is none of that name, or it is another user's, or its queue was deleted.
        """
        pipe = self.pipes.get(name)
        if pipe is None or pipe.record.user != user:
            raise NoSuchPipe(name)
        if not pipe.is_ondemand and name not in self.directory.queues:
            self.forget_pipe(pipe)
            raise NoSuchPipe(name)
        return pipe

    # What the store has

    def _recover(self) -> None:
        """Make what the store has, as far as what it stands for is there."""
        joins = []
        for name, record in self.records.recovered():
            if isinstance(record, FeedRecord):
                self._recover_feed(name, record)
            elif isinstance(record, PipeRecord):
                self._recover_pipe(name, record)
            else:
                joins.append((name, record))
        for hash_, record in joins:
            pipe = self.pipes.get(record.pipe)
            join = None if pipe is None else JoinState(hash_, pipe, record)
            if join is not None and join.is_there:
                self.add_join(join)
            else:
                self.records.remove("join", hash_)

    def _recover_feed(self, name: str, record: FeedRecord) -> None:
        if name in self.directory.sinks or name in self.directory.queues:
            self.feeds[name] = record
        else:
            self.records.remove("feed", name)

    def _recover_pipe(self, name: str, record: PipeRecord) -> None:
        pipe = PipeState(name, record, self, record.modified)
        pipe.used = self.now()
        queue = self.directory.queues.get(name)
        if queue is not None and not queue.declared.private:  # made by a version that had no word for it
            queue.declared = msgspec.structs.replace(queue.declared, private=True)
        if pipe.is_ondemand or queue is not None:
            self._add_pipe(pipe)
        else:
            self.records.remove("pipe", name)

    # What comes and goes

    def put_feed(self, name: str, record: FeedRecord) -> None:
        """Write down what is known of a feed, in place of what was."""
        self.feeds[name] = record
        self.records.put("feed", name, record)

    def forget_feed(self, name: str) -> None:
        """Forget a feed that is gone, on disk too."""
        if self.feeds.pop(name, None) is not None:
            self.records.remove("feed", name)

    def put_pipe(self, pipe: PipeState, *, is_new: bool = False) -> None:
        """Write down a pipe, in place of what was there of it."""
        self._add_pipe(pipe)
        self.records.put("pipe", pipe.name, pipe.record, is_new=is_new)

    def _add_pipe(self, pipe: PipeState) -> None:
        if pipe.is_ondemand and pipe.name not in self.pipes:
            self.directory.quotas.take(pipe.record.user, "queues")  # it is as good as one; the others have one
        self.pipes[pipe.name] = pipe

    def forget_pipe(self, pipe: PipeState) -> None:
        """Forget a pipe that is gone, with its joins, on disk too."""
        if self.pipes.pop(pipe.name, None) is not None:
            if pipe.is_ondemand:
                self.directory.quotas.give(pipe.record.user, "queues")
            pipe.end_taking("the pipe was deleted")
            for join in list(pipe.joins.values()):
                self.forget_join(join)
            self.records.remove("pipe", pipe.name)
            for observer in list(pipe.observers):
                observer.pipe_ended()

    def add_join(self, join: JoinState) -> None:
        """Add a join that is on disk."""
        join.pipe.joins[join.hash] = self.joins[join.hash] = join
        if join.record.is_queue:
            self.shared_joins[join.record.feed] += 1
            self.directory.quotas.take(join.pipe.record.user, "bindings")  # as the others, which are bindings

    def put_join(self, join: JoinState) -> None:
        """Write down a new join."""
        self.add_join(join)
        self.records.put("join", join.hash, join.record, is_new=True)

    def forget_join(self, join: JoinState) -> None:
        """Forget a join that is gone, on disk too."""
        if self.joins.pop(join.hash, None) is not None:
            del join.pipe.joins[join.hash]
            self.records.remove("join", join.hash)
            if join.record.is_queue:
                self.directory.quotas.give(join.pipe.record.user, "bindings")
                self.shared_joins[join.record.feed] -= 1
                if not self.shared_joins[join.record.feed]:
                    del self.shared_joins[join.record.feed]

    def queue_gone(self, pipe: PipeState, queue: str) -> None:
        """Forget what a pipe had of a queue that is gone: the joins to it, or the pipe itself if it was its own.

        Raises:
            NoSuchPipe: It was.
        """
        if queue == pipe.name:
            self.forget_pipe(pipe)
            raise NoSuchPipe(queue)
        for join in [join for join in pipe.joins.values() if join.record.is_queue and join.record.feed == queue]:
            self.forget_join(join)
        self.forget_feed(queue)
        pipe.changed(self.now())


_LASTING: Final = "feeds, pipes and joins"


def feed_book(context: BrokerContext, domain: str) -> FeedBook:
    """Return the book of a domain, which is made when it is first asked for.

    Raises:
        KeyError: There is no such domain.
    """
    books = context.lasting.setdefault(_LASTING, {})
    assert isinstance(books, dict)
    book = books.get(domain)
    if book is None:
        access = context.domains[domain]
        book = books[domain] = FeedBook(access.ref, access.directory, context.unix_time)
    assert isinstance(book, FeedBook)
    return book
