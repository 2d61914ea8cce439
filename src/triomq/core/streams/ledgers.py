"""Ledgers: messages of an ordinary queue that a group reads by offsets, as records of a stream, until it has done them.

    queue ── LeaseMessages ──▶ ledger of (queue, user, group): a stream that is in no directory
             taken over in one      │  offsets 0, 1, …; an identity; in the store if the queue is durable
             turn and one batch     │
                                    ├── acknowledge(offset) ──▶ what is below is gone
      ◀── HandBack, at the end ─────┘   an hour after its lease: what is left of it comes back

Rules:

- A message is in the queue or in the ledger, never in both and never in neither: it goes over, and comes back, in one
  turn, which is one batch of the store.
- A lease never waits for messages, and is small enough for one turn; who wants more asks again.
- Whoever has leased messages can read them again as often as it likes, from any connection and after a restart of the
  broker: that is what a batch job needs which repeats a failed task.
- What comes back goes behind all that is in the queue, marked as perhaps delivered before. Ids in a queue only grow, in
  the store too, so its old place is not there any more; and after an hour nothing is in order anyway. A time to live
  begins anew. How often a message was leased is not counted (``delivery_limit``).
- Leases end in the order in which they were made. So what comes back is always the first that the ledger has, and its
  offsets are out of range from then on.
- A group is its user's: two users that give a group the same name have a ledger each, and neither sees the other's.
- A ledger is deleted with its queue. One in which nothing is leased gives way when there are too many,
  or too many of its user (``shares.LEDGERS``): then its identity is gone, and who remembers that is told so.

Dropped: a consumer whose deliveries are unsettled. They would be back in the queue after a restart, and what a job had
begun could not be repeated.
"""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from math import ceil
from time import time as unix_time
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from triomq.actors import Request, Turn
from triomq.core.backlog import Run
from triomq.core.delivery import Outcome
from triomq.core.message import Head, Stretch, traits_of
from triomq.core.persistence.keyed_records import KeyedRecords
from triomq.core.queue.handover import HandBack, TakeOver
from triomq.core.queue.moved import MovedFrom, MovedMessages, where_from
from triomq.core.queue.queue_state import QueueState
from triomq.core.refusals import Restarting
from triomq.core.streams.chunk import decoded
from triomq.core.streams.log import StreamLog
from triomq.core.streams.partitions import partitions_of
from triomq.core.streams.requests import GoOn, read_records
from triomq.core.streams.retention import RetentionLimits
from triomq.core.streams.start import Bounds
from triomq.core.topology.options import QueueOptions, StreamOptions
from triomq.core.topology.shares import LEDGERS
from triomq.errors import ActorError, ChunkDamaged, LimitExceeded, NotForStreams, OutOfRange, Refused, StoreError
from triomq.store import RecordKind

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory
    from triomq.core.topology.session import Session

_log = logging.getLogger("triomq.core")

LEASE_SECONDS: Final = 3600.0
"""Seconds until what was leased comes back: longer than a batch of a job takes with its repetitions, and than the
restart of a cluster; and nobody wants to wait longer for a message whose reader has gone."""

_GRAIN: Final = 10
"""Seconds: leases of so long end together, at the end of it, so that what is written of a ledger stays small."""

MOST_RECORDS: Final = 20_000
"""Messages of one lease: some ten milliseconds of a turn."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one lease, one message excepted: as many as a queue has in memory."""

MOST_OUTSTANDING: Final = 1_000_000
"""Messages that a group may have leased and not acknowledged: some seconds of Spark's work."""

MOST_OUTSTANDING_BYTES: Final = 256 * 1024 * 1024
"""The same for their bytes, which are in memory if the queue is not durable; as much as may be staged."""

_AT_ONCE: Final = 256 * 1024
"""Bytes that come back in one turn: some milliseconds."""

_RETRY: Final = 5.0
"""Seconds until it is tried again to bring something back."""

_NO_LIMITS: Final = RetentionLimits(0, 0, 0, 4 * 1024 * 1024)
"""Of a ledger nothing goes by itself; its size is counted in segments, so those are small."""

_ALL: Final = 1 << 62


class LeaseMessages(Request["Leased"], frozen=True):
    """To a domain: move the first ready messages of a queue into the ledger of a group, which is made if need be.

    Args:
        queue: The queue's name.
        group: The group's.
        session: Who asks.
        most_records: How many messages at most; 0 only has the ledger made.
        most_bytes: How many bytes at most, one message excepted.

    Raises (in the asker):
        NoSuchQueue, QueueStopped, QueueLocked: See ``Directory.queue``.
        NotForStreams: It is a stream, which can be read without that.
        InExclusiveUse: A consumer has the queue for itself.
        LimitExceeded: The group has leased too much, or there are too many ledgers.
        NotResident: The messages are being read from the store.
        Restarting: The queue is being restarted.
        StoreError: The store cannot be written.
    """

    queue: str
    group: str
    session: "Session"
    most_records: int
    most_bytes: int


class Leased(msgspec.Struct, frozen=True, gc=False):
    """What there is behind a lease.

    Args:
        bounds: Of the ledger, with the records that have just come.
        ready: How many messages are ready in the queue.
    """

    bounds: Bounds
    ready: int


class LeasedRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The records up to an offset that go back together, and when, in seconds since 1970."""

    stop: int
    deadline: int


class _Recorded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is remembered of a ledger beside its records: its first offset, its leases, when it was used last."""

    base: int
    leases: Sequence[LeasedRange]
    used: float


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Recorded).decode


def ledgers_of(directory: "Directory") -> "Ledgers":
    """Return what groups have leased in a domain."""
    if directory.ledgers is None:
        directory.ledgers = Ledgers(directory)
    return directory.ledgers


class GroupLedger:
    """What one group has leased from one queue; made by the first lease, outlives the domain's incarnations.

    ``state`` is that of its stream, which is in no directory.

    Args:
        ledgers: All of the domain.
        queue: The queue's name.
        group: The group's name.
        state: Of its stream; its user is whose the group is.
    """

    def __init__(self, ledgers: "Ledgers", queue: str, group: str, state: QueueState) -> None:
        self.queue = queue
        self.group = group
        self.user = state.user
        self.state = state
        self.leases: deque[LeasedRange] = deque()  # oldest first, none of them empty
        self.used = ledgers.wall()
        self._is_handing_back = False
        self._ledgers = ledgers
        assert isinstance(state.backlog, StreamLog)
        self.log = state.backlog
        self.log.segments.limits = _NO_LIMITS

    @property
    def names(self) -> tuple[str, ...]:
        """What it is recorded under; those of the program itself have no user."""
        return (self.queue, self.group, self.user) if self.user else (self.queue, self.group)

    @property
    def room(self) -> tuple[int, int]:
        """How many records and bytes may be leased beside those that are."""
        log = self.log
        return MOST_OUTSTANDING - (log.next_id - log.base), MOST_OUTSTANDING_BYTES - log.segments.size

    def add(self, messages: Sequence[MovedMessages]) -> None:
        """Append what was taken over, as one lease."""
        tracer = self.state.directory.tracer
        for stretch, moved_from in messages:
            head, contents, heads = stretch
            first = self.log.next_id
            self.log.push(head, contents, sum(map(len, contents)), heads=heads)
            if tracer is not None:
                tracer.queued(self.state, first, head, contents, heads, moved_from)
        self.state.ref.tell_nowait(GoOn(_nothing))  # readers may wait
        deadline = ceil((self._ledgers.wall() + LEASE_SECONDS) / _GRAIN) * _GRAIN
        if self.leases and self.leases[-1].deadline >= deadline:  # the time of day may have been put back
            deadline = self.leases.pop().deadline
        self.leases.append(LeasedRange(self.log.next_id, deadline))
        self.set_clock()
        self._ledgers.record(self)

    def drop_settled(self, offset: int) -> None:
        """Drop the records below an offset: the group has done them, or they are in their queue again."""
        if (tracer := self.state.directory.tracer) is not None:
            tracer.settled(self.state, range(self.log.base, offset), Outcome.ACCEPT)
        self.drop_below(offset)

    def drop_below(self, offset: int) -> None:
        """Drop the records below an offset, and their leases."""
        self.log.drop_below(offset)
        while self.leases and self.leases[0].stop <= offset:
            self.leases.popleft()
        self._ledgers.record(self)

    # What comes back

    def set_clock(self, delay: float = 0.0) -> None:
        """Have the domain call ``hand_back`` when the oldest lease ends, but not before a delay."""
        if self.leases:
            clock = self.state.directory.clock
            clock.set(self, clock.now() + max(self.leases[0].deadline - self._ledgers.wall(), delay))

    async def hand_back(self, turn: Turn) -> None:
        """Bring back what is leased for too long; called by the domain's clock."""
        if self._is_handing_back:  # there is a further lease since
            return
        delay, self._is_handing_back = 0.0, True
        try:
            while self._overdue() > self.log.base:
                await self._hand_back_some(turn)
        except (ActorError, Refused, StoreError, ChunkDamaged, trio.WouldBlock) as error:
            fields = {"queue": self.queue, "group": self.group, "reason": str(error) or "it is being restarted"}
            _log.warning("leased messages cannot go back to their queue yet", extra={"fields": fields})
            delay = _RETRY
        finally:
            self._is_handing_back = False
        if not self.state.gone:
            self.set_clock(delay)

    def _overdue(self) -> int:
        """Return the offset up to which leases have ended."""
        now = self._ledgers.wall()
        return max((lease.stop for lease in self.leases if lease.deadline <= now), default=0)

    async def _hand_back_some(self, turn: Turn) -> None:
        first = self.log.base
        try:
            found = await read_records(self.state, first, most_records=self._overdue() - first, most_bytes=_AT_ONCE)
        except OutOfRange:  # they have been acknowledged meanwhile
            return
        if not found.chunks:
            raise Refused("they are not on disk yet")
        turn.run(self._hand_back_chunks, [bytes(chunk) for chunk in found.chunks])

    def _hand_back_chunks(self, chunks: Sequence[bytes]) -> None:
        """Move records to the end of the queue, in the present turn: those that are still there, and overdue."""
        first, stop = self.log.base, self._overdue()
        runs = [part for chunk in chunks for run in decoded(chunk) if (part := _part(run, first, stop)) is not None]
        queue = self.state.directory.queues.get(self.queue)
        if queue is None or not runs:
            return
        queue.ref.ask_nowait(HandBack([MovedMessages(_marked(run), self._where_from(run)) for run in runs]))
        last = runs[-1]
        self.drop_settled(last.first + len(last.contents))

    def _where_from(self, run: Run) -> MovedFrom | None:
        return where_from(self.state, range(run.first, run.first + len(run.contents)))


def _nothing() -> None:
    """Have the stream look for what can be read."""


def _part(run: Run, first: int, stop: int) -> Run | None:
    """Return the records of a run with offsets of a range; None if there are none."""
    start, end = max(0, first - run.first), min(len(run.contents), stop - run.first)
    if start >= end:
        return None
    heads = None if run.heads is None else run.heads[start:end]
    head = run.head if heads is None else heads[0]
    return Run(head, run.contents[start:end], run.first + start, 0, 0, 0.0, heads)


def _marked(run: Run) -> Stretch:
    """Return the messages of a run, which may have been here before."""
    traits = msgspec.structs.asdict(run.head.traits)
    marked = traits_of(**{**traits, "repeated": True})
    known: dict[int, Head] = {}

    def mark(head: Head) -> Head:
        if id(head) not in known:
            known[id(head)] = msgspec.structs.replace(head, traits=marked)
        return known[id(head)]

    heads = None if run.heads is None else [mark(head) for head in run.heads]
    return Stretch(mark(run.head), run.contents, heads)


class Ledgers:
    """The ledgers of one domain; part of its directory, so that they outlive the domain's incarnations.

    ``wall`` gives the seconds since 1970.

    Args:
        directory: The domain's.
    """

    def __init__(self, directory: "Directory") -> None:
        self._directory = directory
        self._records = KeyedRecords(directory, RecordKind.LEDGER)
        self._ledgers: dict[str, dict[tuple[str, str], GroupLedger]] = {}  # by queue, and group and user
        self.wall = unix_time

    def __iter__(self) -> Iterator[GroupLedger]:
        """Go through all ledgers."""
        return (ledger for groups in self._ledgers.values() for ledger in groups.values())

    def __len__(self) -> int:
        """Count them."""
        return sum(map(len, self._ledgers.values()))

    def find(self, queue: str, group: str, user: str) -> GroupLedger | None:
        """Return the ledger of a user's group; None if it has never leased anything from that queue."""
        return self._ledgers.get(queue, {}).get((group, user))

    def of_queue(self, queue: str) -> list[GroupLedger]:
        """Return the ledgers of a queue."""
        return list(self._ledgers.get(queue, {}).values())

    def make(self, queue: QueueState, group: str, user: str) -> GroupLedger:
        """Make a ledger that has no actor yet."""
        state = make_state(self._directory, queue.name, group, user, durable=queue.durable)
        return self._add(queue.name, group, state)

    def _add(self, queue: str, group: str, state: QueueState) -> GroupLedger:
        ledger = GroupLedger(self, queue, group, state)
        self._directory.shares.take(LEDGERS, ledger.user)
        self._ledgers.setdefault(queue, {})[group, state.user] = ledger
        return ledger

    def recover(self, queue: str, group: str, state: QueueState) -> None:
        """Take a ledger that the store had; ``recover_leases`` follows when all are there."""
        self._add(queue, group, state)

    def recover_leases(self) -> None:
        """Take what the store had of leases."""
        for names, value in self._records.recovered():
            queue, group, *user = names
            ledger, recorded = self.find(queue, group, *user or ("",)), _decode(value)
            if ledger is None:
                self._records.remove(names)
                continue
            if recorded.base > ledger.log.base:
                ledger.log.drop_below(recorded.base)
            ledger.leases.extend(recorded.leases)
            ledger.used = recorded.used

    def record(self, ledger: GroupLedger) -> None:
        """Write what is to be known of a ledger after a restart."""
        ledger.used = self.wall()
        if ledger.state.durable:
            recorded = _Recorded(ledger.log.base, tuple(ledger.leases), ledger.used)
            self._records.put(ledger.names, _encode(recorded))

    def forget(self, ledger: GroupLedger) -> None:
        """Forget a ledger whose stream is deleted."""
        groups = self._ledgers[ledger.queue]
        del groups[ledger.group, ledger.user]
        self._directory.shares.give(LEDGERS, ledger.user)
        if not groups:
            del self._ledgers[ledger.queue]
        self._directory.clock.forget(ledger)
        if ledger.state.durable:
            self._records.remove(ledger.names)

    def giving_way(self, user: str) -> GroupLedger | None:
        """Return the ledger that gives way to a new one of a user; None if there is room.

        It is the user's own, if that has its share; otherwise anybody's.

        Raises:
            ShareReached: There is none: of all something is leased.
        """
        shares = self._directory.shares
        if shares.has_room(LEDGERS, user):
            return None
        is_its_own = user != "" and shares.count(LEDGERS, user) >= LEDGERS.share()
        empty = [ledger for ledger in self if not ledger.leases and (not is_its_own or ledger.user == user)]
        if not empty:
            shares.require(LEDGERS, user)
        return min(empty, key=lambda ledger: ledger.used)

    def acknowledge(self, ledger: GroupLedger, offset: int) -> None:
        """Drop the records below an offset: the group has done them. What is below the first one is none.

        Raises:
            Refused: The offset is beyond the last record.
        """
        ledger.log.catch_up()
        if offset > ledger.log.stop:
            raise Refused(
                f"group {ledger.group!r} has leased no record {offset - 1} of queue {ledger.queue!r}; the next one "
                f"will be {ledger.log.stop}"
            )
        if offset > ledger.log.base:
            ledger.drop_settled(offset)


def make_state(
    directory: "Directory", queue: str, group: str, user: str, *, durable: bool, number: int = 0, identity: int = 0
) -> QueueState:
    """Make the state of a ledger's stream, which no policy applies to.

    Args:
        directory: The domain's.
        queue: The queue's name.
        group: The group's.
        user: The user's.
        durable: Whether the queue is there after a restart.
        number: Its number in the store, if that knows it already.
        identity: Likewise.
    """
    options = QueueOptions(durable=durable, stream=StreamOptions())
    name = f"{queue}, leased by {group}"
    state = QueueState(name, options, directory, user=user, number=number, identity=identity)
    state.options, state.policy = options, None
    return state


def lease_messages(message: LeaseMessages, ledger: GroupLedger, queue: QueueState) -> Leased:
    """Move messages into a ledger, in the present turn; raises as ``LeaseMessages``."""
    log = ledger.log
    ledger.used = ledgers_of(queue.directory).wall()
    if (fault := queue.directory.fault_of([queue.ref])) is not None:
        raise fault
    room, bytes_room = ledger.room
    if message.most_records and (room <= 0 or bytes_room <= 0):
        raise LimitExceeded(
            f"group {ledger.group!r} has leased {log.next_id - log.base} messages of queue {ledger.queue!r} and not "
            f"acknowledged them; {MOST_OUTSTANDING} are allowed, with {MOST_OUTSTANDING_BYTES} bytes: acknowledge them"
        )
    most = min(message.most_records, MOST_RECORDS, room)
    most_bytes = min(max(1, message.most_bytes), MOST_BYTES, bytes_room)  # one is moved in any case
    messages: Sequence[MovedMessages] = ()
    if most:
        try:
            messages = queue.ref.ask_nowait(TakeOver(most, most_bytes))
        except trio.WouldBlock:
            raise Restarting(queue.ref) from None
    if messages:
        ledger.add(messages)
    return Leased(Bounds(log.identity, log.base, log.next_id, log.bounds.last_time), queue.backlog.ready)


def require_leasable(directory: "Directory", message: LeaseMessages) -> QueueState:
    """Return the queue that messages are to be leased from; raises as ``LeaseMessages``."""
    if partitions_of(directory, message.queue):
        raise NotForStreams(message.queue, "lease")
    return directory.queue(message.queue, message.session)
