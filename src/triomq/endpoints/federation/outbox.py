"""What a peer is still to be told: all resources of our own when it comes, then each change.

Every create is known by the delete that would undo it; so one table says what the peer has been told, what it need not
be told twice, and of what it must hear that it is gone. The table outlives connections, for what is deleted while the
peer is away is in it alone.

Changes wait in a list of limited length. When that overflows, the list is dropped and everything is told once more,
which does no harm: resources are told in a way that may be repeated.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from triomq.core import Action, Binding, Changed, ChangeKind, Directory, QueueState, SinkKind, SinkState, Target
from triomq.protocols.amqp import (
    RestMSFeedCreate,
    RestMSFeedDelete,
    RestMSJoinCreate,
    RestMSJoinDelete,
    RestMSPipeCreate,
    RestMSPipeDelete,
)

Create: TypeAlias = RestMSFeedCreate | RestMSPipeCreate | RestMSJoinCreate
Delete: TypeAlias = RestMSFeedDelete | RestMSPipeDelete | RestMSJoinDelete
Change: TypeAlias = tuple[Delete, Create | None]
"""What would undo it, and what is to be there; None if it is to be gone."""

_FEED_TYPES = {kind: kind.value for kind in (SinkKind.FANOUT, SinkKind.DIRECT, SinkKind.TOPIC, SinkKind.HEADERS)}
"""Kinds of sinks that the class has words for."""

_LONGEST_NAME = 253
"""Octets of a pipe's name, so that ``x:`` and the name make a consumer tag (section 4.2.5.3, short strings)."""

_SYSTEM = "amq."
"""What the names of sinks begin with that every domain has from the start: no need to tell."""


class OutboxStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of an outbox.

    Args:
        announced: Resources that the peer knows of.
        sent: Methods that were given out, all in all.
        waiting: Changes that wait.
        replays: How often everything was told.
    """

    announced: int
    sent: int
    waiting: int
    replays: int


class ResourceOutbox:
    """Made once for a peer, with its specification; outlives connections to it and crashes of who sends.

    Args:
        pipe_type: What the peer calls a pipe.
        limit: How many changes may wait.
    """

    def __init__(self, pipe_type: str, limit: int) -> None:
        self._pipe_type = pipe_type
        self._limit = limit
        self._told: dict[Delete, Create] = {}
        self._gone: dict[Delete, int] = {}  # told, behind which mark; the peer may not have heard it
        self._mark = 0
        self._former: dict[Delete, Create] = {}  # what had been told when the present replay began
        self._changes: deque[Change] = deque()
        self._replay: Iterator[Create | Delete] = iter(())
        self._is_live = False
        self._sent = self._replays = 0

    # Filling

    def begin(self, directory: Directory) -> None:
        """Tell everything, and from now on each change: the peer is there."""
        self._changes.clear()
        self._former = {**self._former, **self._told}
        self._told = {}
        self._replay = self._all(directory)
        self._is_live = True
        self._replays += 1

    def end(self) -> None:
        """Keep no changes: the peer is away, and will be told everything."""
        self._is_live = False
        self._changes.clear()
        self._replay = iter(())

    def changed(self, change: Changed, directory: Directory) -> bool:
        """Take a change of a domain; tell whether there is anything to give out."""
        if change.origin or not self._is_live:
            return False
        found = _change_of(change, directory, self._pipe_type)
        if found is None:
            return False
        if len(self._changes) >= self._limit:
            self.begin(directory)
        else:
            self._changes.append(found)
        return True

    # Emptying

    def take(self, most: int) -> list[Create | Delete]:
        """Give out what is next, in order, about so many; empty when there is nothing left."""
        found = list(islice(self._replay, most))
        while self._changes and len(found) < most:
            found += self._tell(*self._changes.popleft())
        self._sent += len(found)
        return found

    def mark(self) -> int:
        """Give a mark: what is given out from now on comes behind it."""
        self._mark += 1
        return self._mark

    def mark_reached(self, mark: int) -> bool:
        """Note that the peer has heard all before a mark; tell whether that is all that was given out."""
        self._gone = {undo: before for undo, before in self._gone.items() if before >= mark}
        return mark == self._mark and not self._changes

    def knows(self, pipe: str) -> bool:
        """Tell whether the peer has been told of a pipe of ours."""
        return RestMSPipeDelete(pipe) in self._told

    def tell_again(self, pipe: str, directory: Directory) -> None:
        """Tell of a pipe and its joins once more: the peer delivers nothing from it any longer."""
        queue = directory.queues.get(pipe)
        if queue is not None and self.knows(pipe):
            for create in _pipe_and_joins(queue, directory, self._pipe_type):
                self._told.pop(_undoing(create), None)
                self._changes.append((_undoing(create), create))

    def statistics(self) -> OutboxStatistics:
        """Take a snapshot."""
        return OutboxStatistics(len(self._told), self._sent, len(self._changes), self._replays)

    def _tell(self, undo: Delete, create: Create | None) -> list[Create | Delete]:
        """Say one change, unless the peer has been told of it."""
        told = self._told.get(undo)
        if told == create:
            return []
        said: list[Create | Delete] = []
        if told is not None:
            del self._told[undo]
            self._gone[undo] = self._mark
            said.append(undo)
        if create is not None:
            self._told[undo] = create
            said.append(create)
        return said

    # Replaying

    def _all(self, directory: Directory) -> Iterator[Create | Delete]:
        """Give out all that there is, feeds first, then what is no more; changes come meanwhile."""
        for create in _resources(directory, self._pipe_type):
            undo = _undoing(create)
            if self._former.pop(undo, create) != create or undo in self._gone:
                self._gone.pop(undo, None)
                yield undo  # it is another one of that name
            yield from self._tell(undo, create)
        # Deletes that the last connection may have lost, then what went while there was none; joins before their ends.
        for undo in (*self._gone, *reversed(self._former)):
            if undo not in self._told:
                self._gone[undo] = self._mark
                yield undo
        self._former = {}


def _resources(directory: Directory, pipe_type: str) -> Iterator[Create]:
    """Give all resources of our own: feeds, then each pipe followed by its joins.

    What comes while this goes on may be left out, for it is a change.
    """
    for sink in list(directory.sinks.values()):
        if directory.sinks.get(sink.name) is sink and (feed := _feed(sink)) is not None:
            yield feed
    for queue in list(directory.queues.values()):
        if directory.queues.get(queue.name) is queue:
            yield from _pipe_and_joins(queue, directory, pipe_type)


def _pipe_and_joins(queue: QueueState, directory: Directory, pipe_type: str) -> Iterator[Create]:
    if (pipe := _pipe(queue, pipe_type)) is not None:
        yield pipe
    for binding in list(queue.bound or ()):
        sink = directory.sinks.get(binding.source)
        if sink is not None and not sink.origin_of(binding) and (join := _join(binding, sink, queue)) is not None:
            yield join


def _feed(sink: SinkState) -> RestMSFeedCreate | None:
    kind = _FEED_TYPES.get(sink.declared.kind)
    if kind is None or sink.origin or sink.declared.internal or sink.name.startswith(_SYSTEM):
        return None
    return RestMSFeedCreate(kind, sink.name)


def _pipe(queue: QueueState, pipe_type: str) -> RestMSPipeCreate | None:
    if queue.origin or not _may_be_pipe(queue):
        return None
    return RestMSPipeCreate(pipe_type, queue.name)


def _may_be_pipe(queue: QueueState) -> bool:
    """Tell whether a queue could be a pipe there: its deliveries' tag is its name with two octets before it."""
    if queue.owner is not None or queue.name.startswith(_SYSTEM):
        return False
    return len(queue.name.encode("utf-8", "surrogateescape")) <= _LONGEST_NAME


def _join(binding: Binding, sink: SinkState | None, queue: QueueState | None) -> RestMSJoinCreate | None:
    if sink is None or sink.declared.kind not in _FEED_TYPES or sink.declared.internal:
        return None
    if queue is None or not _may_be_pipe(queue) or not _is_plain(binding):
        return None
    return RestMSJoinCreate(binding.destination, binding.source, binding.key)


def _is_plain(binding: Binding) -> bool:
    """Tell whether a join says all that a binding does."""
    return binding.target is Target.QUEUE and not binding.encoded_arguments and binding.predicate is None


def _undoing(create: Create) -> Delete:
    match create:
        case RestMSFeedCreate(_, name):
            return RestMSFeedDelete(name)
        case RestMSPipeCreate(_, name):
            return RestMSPipeDelete(name)
        case RestMSJoinCreate(pipe, feed, address):
            return RestMSJoinDelete(pipe, feed, address)


def _change_of(change: Changed, directory: Directory, pipe_type: str) -> Change | None:
    """Say a change in the words of the class; None where it has none, or where it is over already."""
    if change.action is Action.DELETED:
        undo = _delete_of(change)
        return None if undo is None else (undo, None)
    create = _create_of(change, directory, pipe_type)
    return None if create is None else (_undoing(create), create)


def _create_of(change: Changed, directory: Directory, pipe_type: str) -> Create | None:
    sink, queue, binding = directory.sinks.get(change.name), directory.queues.get(change.name), change.binding
    if binding is not None:
        return _join(binding, sink, directory.queues.get(binding.destination))
    if change.kind is ChangeKind.QUEUE:
        return None if queue is None else _pipe(queue, pipe_type)
    return None if sink is None else _feed(sink)


def _delete_of(change: Changed) -> Delete | None:
    binding = change.binding
    if binding is not None:
        join = RestMSJoinDelete(binding.destination, binding.source, binding.key)
        return join if _is_plain(binding) else None
    return RestMSPipeDelete(change.name) if change.kind is ChangeKind.QUEUE else RestMSFeedDelete(change.name)
