"""The schedules of a domain, which are the broker's own, and the actor that sends what is due.

    SCHEDULE ──> EMQPPeer ──> ScheduleBook.set ──> record ── on disk ──> ACK
    UNSCHEDULE ──> EMQPPeer ──> ScheduleBook.remove
    the time has come ──> Scheduler ─┬─ publish, as the user who has set it ──> queue
                                     └─ ScheduleBook.advance ──> record, in the same batch as the message

Rules:

- A schedule belongs to a user, and is told from his others by what it calls: setting it again replaces it, and he alone
  can end it.
- In a broker with a store all schedules are durable. How far one has come is written in the batch that has its message:
  after a kill a tick was sent and noted, or neither. Its id names the tick.
- What cannot be published for the time being (memory, disk) is due until it can. What is refused, since its user may
  not publish any more, is logged, and the schedule goes on.
- The book outlives the endpoint's incarnations, and the actor does not: when it crashes another one is started, which
  goes on behind the tick that it crashed over.
"""

import logging
import time
from collections.abc import Callable, Container, Iterator
from math import inf
from typing import Final

import msgspec
import trio

from triomq.core import (
    EVERYTHING,
    SCHEDULES,
    CachedRoute,
    Clock,
    Directory,
    Head,
    KeyedRecords,
    Permissions,
    Publisher,
    PublishingPaused,
    RecordKind,
    Restarting,
    traits_of,
)
from triomq.endpoints.base.client import Client
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.memory_listener import NOBODY
from triomq.endpoints.base.statistics import ScheduleStatistics
from triomq.endpoints.emqp.content import EMQP_CODEC, RequestProperties, encode_request
from triomq.endpoints.emqp.jobs.book import job_book
from triomq.endpoints.emqp.jobs.content import JOB_CODEC, JobProperties, encode_job, terms_of
from triomq.endpoints.emqp.jobs.traced import trace_submitted
from triomq.endpoints.emqp.queues import JOB_QUEUE, queue_for
from triomq.endpoints.jobs import BookedJob, JobSender
from triomq.errors import LimitExceeded, Refused, StoreCorrupt
from triomq.protocols.emqp import NO_EXTENSION, Headers, call_name, decode_extension, make_headers, parse_headers
from triomq.timetable import Progress, Timetable, advance, begin, resume

LARGEST: Final = 64 * 1024
"""Bytes of the message of a schedule, which stays in memory and is written at each tick."""

SHORTEST: Final = 1.0
"""Seconds between two jobs of a schedule: what released schedulers can count."""

_AT_ONCE: Final = 100  # ticks in one turn
_LOOK: Final = 60.0
"""Seconds after which the clock on the wall is looked at in any case: somebody may have set it."""


class Schedule(msgspec.Struct, frozen=True, array_like=True):
    """What is to be done, for whom, when, and how far it has come: the record, too.

    Args:
        queue: Where its jobs go.
        headers: Of the SCHEDULE.
        message: Of each job.
        user: Who has set it.
        timetable: When it is due.
        progress: How far it has come.
        owner: The program that has it in its code; empty for one that was set by hand.
        extension: What its jobs are to have beside their headers; an extension frame, or nothing.
    """

    queue: str
    headers: bytes
    message: bytes
    user: str
    timetable: Timetable
    progress: Progress
    owner: str = ""
    extension: bytes = b""

    def is_like(self, other: "Schedule") -> bool:
        """Return whether both say the same, however far they have come."""
        return msgspec.structs.replace(self, progress=other.progress) == other


class ScheduleBook:
    """The schedules of one domain; made by the first endpoint of that domain, and outlives it.

    Args:
        directory: The domain's.
        now: Gives the Unix time.

    Raises:
        StoreCorrupt: A record of the store is none.
    """

    def __init__(self, directory: Directory, now: Callable[[], float] = time.time) -> None:
        self.now = now
        self.clock: Clock[str] = Clock(now)
        self.schedules: dict[str, Schedule] = {}
        self._shares = directory.shares
        self.is_served = False
        """Whether there is a scheduler: of two, each tick would be sent twice."""
        self._records = KeyedRecords(directory, RecordKind.SCHEDULE)
        for (key,), value in self._records.recovered():
            try:
                schedule = _decode(value)
            except msgspec.DecodeError as error:
                raise StoreCorrupt(f"the record of a schedule in {directory.name!r} cannot be read: {error}") from None
            progress = resume(schedule.timetable, schedule.progress, now())
            self._enter(key, msgspec.structs.replace(schedule, progress=progress))

    def set(
        self,
        key: str,
        queue: str,
        headers: Headers,
        message: bytes,
        user: str,
        timetable: Timetable,
        *,
        owner: str = "",
        extension: bytes = b"",
    ) -> None:
        """Begin a schedule, in place of that of the same key; one of the same owner that says the same goes on.

        Args:
            key: What tells it from others.
            queue: As in ``Schedule``, also the others.
            headers: As there.
            message: As there.
            user: As there.
            timetable: As there.
            owner: As there.
            extension: As there.

        Raises:
            Refused: It would never be due, or too often.
            ShareReached: The user has as many as it may.
        """
        if 0 < timetable.interval < SHORTEST:
            raise Refused(f"an interval of {timetable.interval} s; it takes {SHORTEST} at least")
        if len(message) > LARGEST:
            raise LimitExceeded(f"a message of {len(message)} bytes; that of a schedule has at most {LARGEST}")
        if key not in self.schedules:
            self._shares.require(SCHEDULES, user)
        progress = begin(timetable, self.now())
        schedule = Schedule(queue, headers.frame, message, user, timetable, progress, owner, extension)
        found = self.schedules.get(key)
        if not owner or found is None or not found.is_like(schedule):
            self._put(key, schedule)

    def remove_others(self, owner: str, user: str, staying: Container[str]) -> None:
        """End the schedules of an owner that its code does not have any more.

        Args:
            owner: Whose they are.
            user: Who asks; those that others have set stay.
            staying: The keys of those that the code has.
        """
        for key, schedule in list(self.schedules.items()):
            if schedule.owner == owner and schedule.user == user and key not in staying:
                self.remove(key)

    def remove(self, key: str) -> None:
        """End a schedule, if it is there."""
        found = self.schedules.pop(key, None)
        if found is not None:
            self._shares.give(SCHEDULES, found.user)
            self.clock.forget(key)
            self._records.remove((key,))

    def advance(self, key: str, schedule: Schedule) -> None:
        """Note that a tick was sent, and set the next one."""
        progress = advance(schedule.timetable, schedule.progress, self.now())
        if progress.due is None:
            self.remove(key)
        else:
            self._put(key, msgspec.structs.replace(schedule, progress=progress))

    def again(self, key: str) -> None:
        """Have a tick that was taken from the clock due again."""
        self._enter(key, self.schedules[key])

    def statistics(self) -> Iterator[ScheduleStatistics]:
        """List the schedules."""
        for key, schedule in self.schedules.items():
            due = schedule.progress.due
            yield ScheduleStatistics(
                key=key,
                call=call_name(schedule.message),
                queue=schedule.queue,
                user=schedule.user,
                timetable=schedule.timetable,
                due=None if due is None else due - self.now(),
                runs=schedule.progress.runs,
                owner=schedule.owner,
            )

    def _put(self, key: str, schedule: Schedule) -> None:
        self._enter(key, schedule)
        self._records.put((key,), _encode(schedule))

    def _enter(self, key: str, schedule: Schedule) -> None:
        if key not in self.schedules:
            self._shares.take(SCHEDULES, schedule.user)
        self.schedules[key] = schedule
        self.clock.forget(key)
        self.clock.set(key, inf if schedule.progress.due is None else schedule.progress.due)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Schedule).decode


class Scheduler(Client):
    """The actor that sends what is due; a child of its endpoint, with nobody behind it.

    Args:
        context: What the broker lends.
        domain: Where its schedules are.
        book: Which they are.
    """

    kind = "scheduler"
    tag = "emqp"
    noun = "scheduler"

    def __init__(self, context: BrokerContext, domain: str, book: ScheduleBook) -> None:
        super().__init__(context)
        self._book = book
        self._domain = domain
        self._waits = False  # for the end of a pressure
        self._sending: str | None = None
        self.gone = trio.Event()
        """Set when it has ended, in order or not."""

    @property
    def about(self) -> str:
        """How many schedules there are, for the tree of actors."""
        count = len(self._book.schedules)
        return f"{count} schedule{'s' * (count != 1)}"

    def started(self) -> None:
        """Look at the clock as soon as something is due earlier than what it waits for."""
        self._book.is_served = True
        for key in self._book.schedules:
            self._book.again(key)  # one that has crashed had some of them in its hands
        self._book.clock.on_earlier = self.reschedule

    def due_at(self) -> float:
        """Return when the next tick is due, on Trio's clock."""
        if self._waits:
            return inf
        due = self._book.clock.next_deadline
        return inf if due == inf else trio.current_time() + min(_LOOK, due - self._book.now())

    def due(self, now: float) -> None:
        """Send what is due, as much as fits into a turn."""
        book = self._book
        keys = book.clock.take_due(book.now())
        for place, key in enumerate(keys):
            if place >= _AT_ONCE or self._waits or not self._send(key, book.schedules[key]):
                book.again(key)

    def _send(self, key: str, schedule: Schedule) -> bool:
        """Publish a job, and note that; return whether it could be, or never can."""
        self._sending = key
        try:
            self._publish(key, schedule)
        except PublishingPaused as paused:
            self._waits, self._sending = True, None
            self._publisher(EVERYTHING).when_open(paused.pressure, self._open_again)
            return False
        except Restarting:  # the domain is
            self._waits, self._sending = True, None
            self.start_task(self._try_later)
            return False
        except Refused as refused:
            reason = str(refused)
            self.note(logging.WARNING, "scheduled job refused", reason=reason, user=schedule.user, queue=schedule.queue)
        self._book.advance(key, schedule)
        self._sending = None
        return True

    def _publish(self, key: str, schedule: Schedule) -> None:
        domain = self.context.domains[self._domain]
        asked = parse_headers(schedule.headers)
        headers = make_headers(guarantee=asked.guarantee, retry_count=asked.retry_count, timeout=asked.timeout)
        tick = f"{key}-{schedule.progress.due:.3f}".encode()
        if schedule.owner:
            self._publish_booked(schedule, tick, headers)
            return
        queue = queue_for(schedule.queue, domain.directory, domain.ref)
        encoded = encode_request(RequestProperties(tick, headers.frame, user=schedule.user))
        traits = traits_of(codec=EMQP_CODEC, publisher=0, persistent=headers.guarantee)
        self._put(schedule, queue, Head("", schedule.queue, 0, len(encoded), len(encoded), traits=traits), encoded)

    def _publish_booked(self, schedule: Schedule, tick: bytes, headers: Headers) -> None:
        """Publish a job of the book, unless the one before it holds its unique key still."""
        domain = self.context.domains[self._domain]
        extension = decode_extension(schedule.extension) if schedule.extension else NO_EXTENSION
        terms = terms_of(extension, headers, self._book.now())
        queue = queue_for(schedule.queue, domain.directory, domain.ref, JOB_QUEUE)
        jobs = job_book(self.context, domain.directory)
        sender, now = JobSender(schedule.user), jobs.register.tick()
        if jobs.accept(BookedJob(tick, queue, sender, terms, headers.guarantee, since=now)) is not None:
            return
        priority = extension.priority or 0
        encoded = encode_job(
            JobProperties(
                tick, headers.frame, b"", schedule.user, schedule.extension, deadline=terms.deadline, priority=priority
            )
        )
        traits = traits_of(codec=JOB_CODEC, publisher=0, persistent=headers.guarantee, has_priority=priority > 0)
        try:
            self._put(schedule, queue, Head("", schedule.queue, 0, len(encoded), len(encoded), traits=traits), encoded)
        except BaseException:
            jobs.withdraw(tick)
            raise
        trace_submitted(domain.directory, queue, (tick,), (schedule.message,))

    def _put(self, schedule: Schedule, queue: str, head: Head, encoded: bytes) -> None:
        """Publish a message as the user who has set a schedule."""
        users = self.context.users
        access = users.access(schedule.user, self._domain) if schedule.user != NOBODY else EVERYTHING
        content = encoded + schedule.message
        self._publisher(access).publish(CachedRoute("", queue), head, [content], len(content))

    def _publisher(self, access: Permissions) -> Publisher:
        return Publisher(self.context.domains[self._domain].directory, access, self._turn)

    def _open_again(self) -> None:
        self.in_turn(self._go_on)

    async def _try_later(self) -> None:
        await trio.sleep(0.1)
        self._go_on()

    def _go_on(self) -> None:
        self._waits = False
        if not self.has_left:
            self.reschedule()

    def released(self) -> None:
        """Leave the clock to the next one; a tick over which this one has crashed is over."""
        self._book.clock.on_earlier = None
        self._book.is_served = False
        key, self._sending = self._sending, None
        if key is not None:
            self._book.advance(key, self._book.schedules[key])
        self.gone.set()
