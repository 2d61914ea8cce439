"""What a pipe and a join are, apart from any wire: names, records, and who takes from the pipe now.

A pipe is read by its takers: over HTTP that is its user's actor, over MTL whoever has summoned it. They are told when
shared queues come and go with its joins. Who only shows a pipe, as documents of RestMS do, is an observer of it.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

from triomq.core import Binding, Target, make_binding
from triomq.endpoints.feeds.feed import FeedView
from triomq.endpoints.feeds.records import JoinRecord
from triomq.endpoints.feeds.words import DEFAULT_JOIN_PREFIX, ONDEMAND, PIPE_PREFIX
from triomq.errors import Refused

if TYPE_CHECKING:
    from triomq.endpoints.feeds.book import FeedBook
    from triomq.endpoints.feeds.records import PipeRecord

JoinHeaders: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values that a join to a feed of the type headers compares."""


class PipeTaker(Protocol):
    """Takes what comes into a pipe; all of this in a turn."""

    def take_from(self, queue: str) -> None:
        """Take from one more queue; nothing if it does already.

        Raises:
            Refused: As ``DomainWork.subscribe`` does.
        """

    def leave(self, queue: str) -> None:
        """Take nothing more from a queue."""

    def source_ended(self, reason: str) -> None:
        """Take nothing more at all: the pipe is being deleted; it has been forgotten here."""


class PipeObserver(Protocol):
    """Shows a pipe."""

    def pipe_changed(self) -> None:
        """Look at it again: its title, or its joins."""

    def pipe_ended(self) -> None:
        """Show it no longer: it has been deleted."""


class JoinState:
    """A join; ends with its pipe, with what it leads from, or when it is deleted.

    Args:
        hash_: Its own.
        pipe: What it leads to.
        record: The rest.
    """

    __slots__ = ("hash", "pipe", "record")

    def __init__(self, hash_: str, pipe: "PipeState", record: JoinRecord) -> None:
        self.hash = hash_
        self.pipe = pipe
        self.record = record

    @property
    def binding(self) -> Binding:
        """The binding that it is, where it leads from a sink."""
        record = self.record
        arguments = {"x-match": "all-with-x", **dict(record.headers)} if record.headers else None
        return make_binding(record.feed, Target.QUEUE, record.pipe, record.address, arguments)

    @property
    def is_there(self) -> bool:
        """Whether what it leads from is, and leads here."""
        directory = self.pipe.book.directory
        if self.record.is_queue:
            return self.record.feed in directory.queues
        sink = directory.sinks.get(self.record.feed)
        return sink is not None and self.binding in sink.bindings


class PipeState:
    """A pipe; made by a client or out of a record, ends when it is deleted.

    Args:
        name: Its hash.
        record: What is on disk of it.
        book: Where it is.
        now: Since when it has not changed, in Unix time.
    """

    __slots__ = ("book", "joins", "modified", "name", "observers", "record", "takers", "used")

    def __init__(self, name: str, record: "PipeRecord", book: "FeedBook", now: float) -> None:
        self.name = name
        self.record = record
        self.book = book
        self.joins: dict[str, JoinState] = {}
        self.modified = now
        self.used = now  # when somebody asked for something
        self.takers: dict[PipeTaker, None] = {}
        self.observers: dict[PipeObserver, None] = {}

    @property
    def is_ondemand(self) -> bool:
        """Whether it takes a message only when one is asked for; then it has no queue of its own."""
        return self.record.type == ONDEMAND

    @property
    def default_join(self) -> str:
        """The hash of its join to the default feed (RestMS's word); empty if it has none."""
        return "" if self.is_ondemand else DEFAULT_JOIN_PREFIX + self.name.removeprefix(PIPE_PREFIX)

    @property
    def queues(self) -> Iterator[str]:
        """The queues that it takes from: its own first."""
        if not self.is_ondemand:
            yield self.name
        for join in self.joins.values():
            if join.record.is_queue:
                yield join.record.feed

    @property
    def waiting(self) -> int:
        """How many messages wait in its own queue."""
        queue = self.book.directory.queues.get(self.name)
        return 0 if queue is None else queue.ready_count()

    def join_record(self, feed: FeedView, address: str, headers: JoinHeaders) -> JoinRecord:
        """Return what would be on disk of a join: headers mean something to a feed of that type alone."""
        kept = tuple(sorted(headers)) if feed.type == "headers" else ()
        return JoinRecord(self.name, feed.name, feed.is_queue, address, kept, self.book.now())

    def find_join(self, feed: FeedView, address: str, headers: JoinHeaders) -> JoinState | None:
        """Find the join that would be made once more; to a shared queue the address means nothing."""
        record = self.join_record(feed, address, headers)
        for join in self.joins.values():
            known = join.record
            if (known.feed, known.is_queue) == (record.feed, record.is_queue) and (
                record.is_queue or (known.address, known.headers) == (record.address, record.headers)
            ):
                return join
        return None

    def present_joins(self) -> list[JoinState]:
        """List its joins; those that lead from nothing any more are dropped."""
        for join in [join for join in self.joins.values() if not join.is_there]:
            self.book.forget_join(join)
        return list(self.joins.values())

    # Who takes from it

    def attach(self, taker: PipeTaker) -> Iterable[str]:
        """Tell a taker from now on which queues come and go; return those that there are."""
        self.takers[taker] = None
        return tuple(self.queues)

    def detach(self, taker: PipeTaker) -> None:
        """Tell it nothing more."""
        self.takers.pop(taker, None)
        self.used = self.book.now()

    def open_queue(self, queue: str) -> None:
        """Have a shared queue taken from.

        Raises:
            Refused: A taker cannot, and none does.
        """
        takers = list(self.takers)
        try:
            for taker in takers:
                taker.take_from(queue)
        except Refused:
            self.close_queue(queue)
            raise

    def close_queue(self, queue: str) -> None:
        """Have a shared queue no longer taken from."""
        for taker in list(self.takers):
            taker.leave(queue)

    def end_taking(self, reason: str) -> None:
        """Have nothing more taken."""
        takers, self.takers = list(self.takers), {}
        for taker in takers:
            taker.source_ended(reason)

    def changed(self, now: float) -> None:
        """Record that it looks otherwise now, and tell who shows it."""
        self.modified = now
        for observer in list(self.observers):
            observer.pipe_changed()
