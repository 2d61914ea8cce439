"""What a peer is still to be sent of our resources: all of them when it connects, then each change.

    begin ──► replay: feeds, then each pipe with its joins, then deletes ──┐
                                                                           ├──► take ──► methods for the peer
    changed ──► changes, at most ``limit`` ────────────────────────────────┘
                     └── more: begin again

The class restms has no replies, and creates and deletes may be repeated. So there is no protocol to find out what a
peer missed while it was not connected: it is sent everything. Deletes are the exception, for a peer would never learn
of them. Therefore:

- Each create is stored under the delete that would undo it (``_announced``). That one table answers what the peer
  knows, what need not be sent twice, and what must be deleted. It outlives connections.
- A delete that was sent may be lost with the connection. It stays in ``_gone`` until the peer has answered a mark that
  was sent behind it (``mark_reached``), and is sent again in the next replay.
- What was announced before a replay and is not met in it (``_former``) is gone: its delete is sent at the end.
- The replay is a generator over the directory itself, not a copy: changes that come meanwhile are changes, and what
  the generator then finds is as new as they are. An announcement that the peer knows already is left out.

A list of all changes since the last connection was the alternative: it grows for as long as a peer is not there.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

import msgspec

from triomq.core import Action, Binding, Changed, ChangeKind, Directory, QueueState, SinkState, Target
from triomq.endpoints.declaring import RESERVED
from triomq.endpoints.feeds import SINK_TYPES
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

_FEED_TYPES = {kind: type_ for type_, kind in SINK_TYPES.items()}
"""Kinds of sinks that the class has words for."""

_LONGEST_NAME = 253
"""Bytes of a pipe's name, so that ``x:`` and the name make a consumer tag (section 4.2.5.3, short strings)."""


class OutboxStatistics(msgspec.Struct, frozen=True, gc=False):
    """A snapshot of an outbox.

    Args:
        announced: Resources that the peer knows of.
        sent: Methods that were given out, all in all.
        waiting: Changes that wait.
        replays: How often everything was announced.
    """

    announced: int
    sent: int
    waiting: int
    replays: int


class ResourceOutbox:
    """Made once for a peer, with its specification; outlives connections to it and crashes of its actor.

    Args:
        pipe_type: What the peer calls a pipe.
        limit: How many changes may wait.
    """

    def __init__(self, pipe_type: str, limit: int) -> None:
        self._pipe_type = pipe_type
        self._limit = limit
        self._announced: dict[Delete, Create] = {}
        self._gone: dict[Delete, int] = {}  # deletes that may not have arrived: with the mark before them
        self._mark = 0
        self._former: dict[Delete, Create] = {}  # what had been announced when the present replay began
        self._changes: deque[Change] = deque()
        self._replay: Iterator[Create | Delete] = iter(())
        self._is_live = False
        self._sent = self._replays = 0

    # Filling

    def begin(self, directory: Directory) -> None:
        """Begin with a connection: announce everything, and from now on each change."""
        self._changes.clear()
        self._former = {**self._former, **self._announced}
        self._announced = {}
        self._replay = self._all(directory)
        self._is_live = True
        self._replays += 1

    def end(self) -> None:
        """End with a connection: changes are not stored, since the next one begins with everything."""
        self._is_live = False
        self._changes.clear()
        self._replay = iter(())

    def changed(self, change: Changed, directory: Directory) -> bool:
        """Add a change of a domain; return whether there is anything to send."""
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
        """Remove and return the next methods to send, in order, about so many; empty when there is nothing left."""
        found = list(islice(self._replay, most))
        while self._changes and len(found) < most:
            found += self._announce(*self._changes.popleft())
        self._sent += len(found)
        return found

    def mark(self) -> int:
        """Return a new mark: what is taken from now on comes behind it."""
        self._mark += 1
        return self._mark

    def mark_reached(self, mark: int) -> bool:
        """Drop the deletes that the peer has worked off, all before a mark; return whether it knows everything."""
        self._gone = {undo: before for undo, before in self._gone.items() if before >= mark}
        return mark == self._mark and not self._changes

    def knows(self, pipe: str) -> bool:
        """Return whether the peer knows a pipe of ours."""
        return RestMSPipeDelete(pipe) in self._announced

    def announce_again(self, pipe: str, directory: Directory) -> None:
        """Add a pipe and its joins once more: the peer delivers nothing from it any longer."""
        queue = directory.queues.get(pipe)
        if queue is not None and self.knows(pipe):
            for create in _pipe_and_joins(queue, directory, self._pipe_type):
                self._announced.pop(_undoing(create), None)
                self._changes.append((_undoing(create), create))

    def statistics(self) -> OutboxStatistics:
        """Return a snapshot."""
        return OutboxStatistics(len(self._announced), self._sent, len(self._changes), self._replays)

    def _announce(self, undo: Delete, create: Create | None) -> list[Create | Delete]:
        """Return the methods of one change, none if the peer knows of it."""
        known = self._announced.get(undo)
        if known == create:
            return []
        methods: list[Create | Delete] = []
        if known is not None:
            del self._announced[undo]
            self._gone[undo] = self._mark
            methods.append(undo)
        if create is not None:
            self._announced[undo] = create
            methods.append(create)
        return methods

    # Replaying

    def _all(self, directory: Directory) -> Iterator[Create | Delete]:
        """Yield all that there is, feeds first, then the deletes of what is gone; changes come meanwhile."""
        for create in _resources(directory, self._pipe_type):
            undo = _undoing(create)
            if self._former.pop(undo, create) != create or undo in self._gone:
                self._gone.pop(undo, None)
                yield undo  # it is another one of that name
            yield from self._announce(undo, create)
        # Deletes that the last connection may have lost, then what went while there was none; joins before their ends.
        for undo in (*self._gone, *reversed(self._former)):
            if undo not in self._announced:
                self._gone[undo] = self._mark
                yield undo
        self._former = {}


def _resources(directory: Directory, pipe_type: str) -> Iterator[Create]:
    """Yield all resources of our own: feeds, then each pipe followed by its joins.

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
    if kind is None or sink.origin or sink.declared.internal or sink.name.startswith(RESERVED):
        return None
    return RestMSFeedCreate(kind, sink.name)


def _pipe(queue: QueueState, pipe_type: str) -> RestMSPipeCreate | None:
    if queue.origin or not _may_be_pipe(queue):
        return None
    return RestMSPipeCreate(pipe_type, queue.name)


def _may_be_pipe(queue: QueueState) -> bool:
    """Return whether a queue could be a pipe there: its deliveries' tag is its name with two bytes before it."""
    if queue.owner is not None or queue.name.startswith(RESERVED):
        return False
    return len(queue.name.encode("utf-8", "surrogateescape")) <= _LONGEST_NAME


def _join(binding: Binding, sink: SinkState | None, queue: QueueState | None) -> RestMSJoinCreate | None:
    if sink is None or sink.declared.kind not in _FEED_TYPES or sink.declared.internal:
        return None
    if queue is None or not _may_be_pipe(queue) or not _is_plain(binding):
        return None
    return RestMSJoinCreate(binding.destination, binding.source, binding.key)


def _is_plain(binding: Binding) -> bool:
    """Return whether a join can express all of a binding."""
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
    """Return a change in the methods of the class; None where it has none, or where the change is undone already."""
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
