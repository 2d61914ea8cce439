"""Feeds in RestMS's sense, which are sinks and shared queues here: which there are, and of which type.

A sink hides a queue of the same name. Not listed are exclusive queues, streams, those of pipes, those that the broker
names itself, internal sinks, and kinds of sinks that RestMS has no word for.
"""

from typing import TYPE_CHECKING

import msgspec

from triomq.core import QueueState, SinkKind, SinkState
from triomq.endpoints.declaring import RESERVED
from triomq.endpoints.feeds.words import DEFAULT, FEED_PREFIX, PIPE_MARK, QUEUE_TYPES, SINK_TYPES

if TYPE_CHECKING:
    from triomq.endpoints.feeds.book import FeedBook


class FeedView(msgspec.Struct, frozen=True):
    """A feed as RestMS shows it.

    Args:
        name: Its name; ``default`` for the default sink.
        type: Its type.
        is_queue: Whether it is a shared queue, and not a sink.
        user: Who has made it; empty if it was configured.
        origin: Which broker has made it; empty if it was this one.
        title: For people.
        license: For people.
        modified: When it changed last, in Unix time; 0 if that is not known.
    """

    name: str
    type: str
    is_queue: bool = False
    user: str = ""
    origin: str = ""
    title: str = ""
    license: str = ""
    modified: float = 0.0

    @property
    def sink(self) -> str:
        """The sink that its messages are published into."""
        return "" if self.is_queue or self.name == DEFAULT else self.name

    @property
    def is_configured(self) -> bool:
        """Whether no client of this broker has made it, so that none may change or delete it."""
        return not self.user or bool(self.origin) or self.name.startswith(RESERVED)

    def is_changed_by(self, user: str, *, is_administrator: bool) -> bool:
        """Return whether a user may change and delete it."""
        return not self.is_configured and (self.user == user or is_administrator)

    @property
    def written(self) -> str:
        """What it is to be written to: its queue, or its sink."""
        return self.name if self.is_queue else self.sink


def sink_kind(type_: str) -> SinkKind | None:
    """Return how a feed of a type routes; None if that type is no sink."""
    return SINK_TYPES.get(type_ or SinkKind.DIRECT.value)


def find_feed(book: "FeedBook", name: str) -> FeedView | None:
    """Return a feed; None if there is none of that name."""
    if name == DEFAULT:
        return FeedView(DEFAULT, "direct" if book.has_types else "")
    directory = book.directory
    sink = directory.sinks.get(name)
    if sink is not None:
        return _of_sink(book, sink)
    queue = directory.queues.get(name)
    return None if queue is None else _of_queue(book, queue)


def feed_names(book: "FeedBook") -> list[str]:
    """List names that may be those of public feeds, the default one first; ``find_public`` says which of them are."""
    directory = book.directory
    return [DEFAULT, *directory.sinks, *(name for name in directory.queues if name not in directory.sinks)]


def find_public(book: "FeedBook", name: str) -> FeedView | None:
    """Return a public feed as a domain lists it; None if there is none of that name."""
    if name == DEFAULT:
        return FeedView(DEFAULT, "")  # as 3/Defaults shows it in its document of a domain
    return None if name.startswith(FEED_PREFIX) or not name else find_feed(book, name)


def _of_sink(book: "FeedBook", sink: SinkState) -> FeedView | None:
    kind, record = sink.declared.kind, book.feeds.get(sink.name)
    if record is not None and sink_kind(record.type) is not kind:
        record = None  # of a feed that was deleted over another protocol
    if kind is SinkKind.CONSISTENT_HASH or sink.declared.internal or not sink.name:
        return None
    type_ = kind.value if record is None else record.type
    if type_ and not book.has_types:
        return None
    title, license_, modified = ("", "", 0.0) if record is None else (record.title, record.license, record.modified)
    return FeedView(sink.name, type_, False, sink.user, sink.origin, title, license_, modified)


def _of_queue(book: "FeedBook", queue: QueueState) -> FeedView | None:
    record, declared = book.feeds.get(queue.name), queue.declared
    if not book.has_types or queue.owner is not None or declared.stream is not None:
        return None
    if queue.name in book.pipes or declared.remarks == PIPE_MARK or queue.name.startswith(RESERVED):
        return None
    if record is not None and record.type not in QUEUE_TYPES:
        record = None
    type_ = record.type if record is not None else "service" if declared.auto_delete else "rotator"
    title, license_, modified = ("", "", 0.0) if record is None else (record.title, record.license, record.modified)
    return FeedView(queue.name, type_, True, queue.user, queue.origin, title, license_, modified)
