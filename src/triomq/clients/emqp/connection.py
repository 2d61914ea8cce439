"""A client of an eMQP broker: jobs and what becomes of them, publications, subscriptions, schedules.

    begin, publish, … ──> PendingCommand ──> engine ──> link
    ACK, ERROR, REPLY, PROGRESS ──> _HANDLERS ──> the PendingCommand with that id
    the broker, or its successor, is back ──> all that is not acknowledged is given again, in its order

Nothing is awaited per message: what is given goes out at the end of the turn, and a task that gives many of them waits
for room now and then, of which there is less the more are not acknowledged.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any, Final

import trio

from triomq.clients.emqp.connector import EMQPConnector
from triomq.clients.emqp.following import EMQPReports
from triomq.clients.emqp.link import EMQPLink
from triomq.clients.emqp.pending import Command, PendingCommand
from triomq.clients.emqp.request import EMQPReply, EMQPRequest, NotAnswered
from triomq.clients.emqp.topics import EMQPSubscription
from triomq.errors import AccessRefused, Disconnected, LimitExceeded, LocalProtocolError, NotFound, Refused
from triomq.protocols.emqp import (
    DURABLE,
    ENDED,
    MOST_IDS,
    NO_EXTENSION,
    NO_HEADERS,
    Acknowledged,
    Dispatched,
    Event,
    Extension,
    Headers,
    Opened,
    PeerEngine,
    PeerLeaving,
    Progressed,
    RefusalReceived,
    Replied,
    StateReported,
    TopicPublished,
    make_headers,
    schedule_key,
)

_MOST_UNACCEPTED: Final = 2000
"""Requests without ACK before those who send more wait: what a broker takes in 100 ms, as a slow disk does."""

_ERRORS: Final[Mapping[str, type[Refused]]] = {
    "forbidden": AccessRefused,
    "full": LimitExceeded,
    "alarm": LimitExceeded,
    "disk": LimitExceeded,
    "unknown": NotFound,
}


class EMQPConnection:
    """A client's conversation with a broker; made by ``open_emqp``, ends with its block.

    When the network or the broker was away it goes on by itself: what was not acknowledged is given again, requests
    under their old ids, and subscriptions are made again.

    Args:
        connector: Where to, and as whom.
    """

    def __init__(self, connector: EMQPConnector) -> None:
        self._pending: dict[bytes, PendingCommand] = {}
        self._unaccepted = 0
        self._room = trio.lowlevel.ParkingLot()
        self._topics: dict[str, list[EMQPSubscription]] = {}
        self._reports: dict[bytes, list[EMQPReports]] = {}
        self._unsure: set[bytes] = set()  # requests of which the broker is asked whether they have ended meanwhile
        self._broker_left = False  # and no other one has come
        self._link = EMQPLink(connector, "client", self._heard, outstanding=self._pending)

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect; raises as ``EMQPLink.start`` does."""
        await self._link.start(nursery)

    async def close(self) -> None:
        """Say goodbye; what still waits fails."""
        await self._link.close()
        error = Disconnected("the connection is closed")
        for pending in list(self._pending.values()):
            self._fail(pending, error)
        for reports in self._all_reports():
            reports.fail(error)

    @property
    def has_extensions(self) -> bool:
        """Whether the broker knows our extensions, so that it acknowledges, refuses, and brings answers."""
        return self._link.engine.is_extended

    # Jobs

    def begin(
        self,
        queue: str,
        message: bytes,
        headers: Headers = NO_HEADERS,
        extension: Extension = NO_EXTENSION,
        *,
        deadline: float = inf,
    ) -> EMQPRequest:
        """Give the broker a job, at the end of this turn or with ``flush``, without waiting for anything.

        Who gives many calls ``wait_room`` now and then. While the broker is away they wait here.

        Args:
            queue: The queue's name; one that nobody has declared is ``default``.
            message: What the worker gets; released ones want a call in JSON.
            headers: What is asked for, made by ``make_headers``: once for many jobs, if possible.
            extension: What else a broker with extensions is told.
            deadline: When nobody wants it any more, on Trio's clock; not with an extension that has one already.

        Raises:
            LocalProtocolError: It cannot be sent.
        """
        request = EMQPRequest(self, self._link.new_id(), queue, message, headers, extension, deadline)
        self._give(request)
        return request

    def flush(self) -> None:
        """Send what was given, now and not at the end of the turn."""
        self._link.flush()

    async def wait_room(self) -> None:
        """Wait while too much waits to be sent, or to be accepted, and until the broker knows us."""
        await self._link.wait_room()
        while self._unaccepted >= _MOST_UNACCEPTED:
            await self._room.park()
            await self._link.wait_room()

    async def send(
        self,
        queue: str,
        message: bytes,
        *,
        guarantee: bool = False,
        retry_count: int = 0,
        job_timeout: float = 0.0,
        extension: Extension = NO_EXTENSION,
    ) -> None:
        """Send a job, and wait until the broker has it; with a broker without extensions it is only sent.

        Args:
            queue: The queue's name; one that nobody has declared is ``default``.
            message: What the worker gets; released ones want a call in JSON.
            guarantee: Whether it survives the loss of its worker and, in a durable queue, a restart of the broker.
            retry_count: How often it is tried again when it fails.
            job_timeout: Seconds that it may run; 0 is without limit.
            extension: What else a broker with extensions is told.

        Raises:
            AccessRefused: The user may not.
            LimitExceeded: A queue is full, or the broker is short of memory or disk.
            Refused: The broker refuses it otherwise.
            LocalProtocolError: It cannot be sent.
        """
        headers = make_headers(guarantee=guarantee, retry_count=retry_count, timeout=job_timeout)
        await self.wait_room()
        await self._accepted(self.begin(queue, message, headers, extension))

    async def request(
        self,
        queue: str,
        message: bytes,
        *,
        guarantee: bool = False,
        retry_count: int = 0,
        job_timeout: float = 0.0,
        extension: Extension = NO_EXTENSION,
    ) -> EMQPReply:
        """Send a job, and wait for its answer; arguments as for ``send``, and how long to wait is up to the caller.

        With ``tie`` in its extension frame the job is cancelled when the caller is.

        Raises:
            NotAnswered: The broker is a released one, which brings no answers.
            Disconnected: The broker was restarted, and a job without a guarantee is lost with it.
            Refused: As ``send`` does.
            LocalProtocolError: It cannot be sent.
        """
        headers = make_headers(reply_requested=True, guarantee=guarantee, retry_count=retry_count, timeout=job_timeout)
        await self.wait_room()
        request = self.begin(queue, message, headers, extension)
        self.flush()
        try:
            return await request.reply()
        finally:
            if not request.is_over:
                request.abandon()
                if extension.tie and self.has_extensions:
                    self.cancel_nowait(request.id)

    async def cancel(self, job: bytes, *, grace: float | None = None, tree: bool = False) -> None:
        """Have a job ended, and wait until the broker has noted that; its answer says when it has ended.

        Args:
            job: The id of a job, whoever sent it.
            grace: Seconds that it has to end by itself; without it is the worker's to say.
            tree: Whether the jobs that it has sent are ended too.

        Raises:
            NotFound: There is none, or it has ended.
            AccessRefused: It is another user's.
            LocalProtocolError: The broker has no extensions.
        """
        await self.wait_room()
        await self._accepted(self._cancel(job, grace, tree))

    def cancel_nowait(self, job: bytes, *, grace: float | None = None, tree: bool = False) -> None:
        """Have a job ended, as ``cancel`` does, without waiting; for code whose own scope is cancelled."""
        self._cancel(job, grace, tree)
        self.flush()

    def _cancel(self, job: bytes, grace: float | None, tree: bool) -> Command:
        extension = Extension(grace=None if grace is None else int(grace * 1000), tree=tree)
        return self._command(lambda engine: engine.cancel(job, extension))

    async def states(self, jobs: Sequence[bytes], *, results: bool = False) -> dict[bytes, StateReported]:
        """Return what has become of jobs.

        Args:
            jobs: Their ids.
            results: Whether the answers of those that have ended are wanted too, where they are kept.

        Raises:
            LocalProtocolError: The broker has no extensions.
            Refused: It does not answer.
        """
        found: dict[bytes, StateReported] = {}
        async with self.follow(jobs, results=results, changes=False) as reports:
            while (report := reports.take()) is not None:
                found[report.request] = report
        return found

    @asynccontextmanager
    async def follow(
        self, jobs: Sequence[bytes], *, results: bool = False, changes: bool = True
    ) -> AsyncIterator[EMQPReports]:
        """Follow what becomes of jobs; begins with a report of each.

        Args:
            jobs: Their ids.
            results: Whether the answer is wanted with the end of each.
            changes: Whether what happens from now on is reported too.

        Raises:
            LocalProtocolError: The broker has no extensions.
            Refused: It does not answer.
        """
        reports = EMQPReports(jobs, results=results, changes=changes)
        for job in reports.jobs:
            self._reports.setdefault(job, []).append(reports)
        try:
            for some in reports.questions():
                await self.wait_room()
                await self._accepted(self._command(partial(reports.ask, jobs=some)))
            yield reports
        finally:
            for job in reports.jobs:
                self._reports[job].remove(reports)
                if not self._reports[job]:
                    del self._reports[job]
            if self._is_open and self.has_extensions:
                reports.end(self._link.engine)
                self.flush()

    # Other commands

    async def publish(self, topic: str, message: bytes) -> None:
        """Publish a message to all who want its topic; raises as ``send`` does."""
        await self._do(lambda engine: engine.publish(topic, message))

    async def schedule(
        self,
        queue: str,
        message: bytes,
        *,
        interval: float = 0.0,
        cron: str = "",
        haste: bool = True,
        run_count: int = 0,
        retry_count: int = 0,
        job_timeout: float = 0.0,
        extension: Extension = NO_EXTENSION,
    ) -> None:
        """Have a job run again and again; a second schedule of the same call replaces the first.

        One with a name in its extension frame that is there already, with the same times and options, goes on as it is.

        Args:
            queue: Where the jobs go.
            message: The call.
            interval: Whole seconds between two of them; or
            cron: five fields.
            haste: Whether the first one runs at once, and not when the interval has passed.
            run_count: How often it runs; 0 is without end.
            retry_count: As for ``send``.
            job_timeout: As for ``send``.
            extension: As for ``send``; with ``timezone`` for ``cron``.

        Raises:
            Refused: As ``send`` does.
            LocalProtocolError: It has no times.
        """
        headers = make_headers(
            guarantee=True, nohaste=not haste, run_count=run_count, retry_count=retry_count, timeout=job_timeout
        )
        await self._do(
            lambda engine: engine.schedule(queue, message, headers, interval=interval, cron=cron, extension=extension)
        )

    async def unschedule(self, message: bytes) -> None:
        """End the schedule of a call; raises as ``schedule`` does."""
        await self._do(lambda engine: engine.schedule("", message, ends=True))

    async def unschedule_others(self, name: str, staying: Iterable[bytes]) -> None:
        """End the schedules that have a name in their extension frames, but for some; raises as ``schedule`` does.

        Args:
            name: Whose they are.
            staying: The calls whose schedules stay.
        """
        extension = Extension(name=name, staying=tuple(map(schedule_key, staying)))
        await self._do(lambda engine: engine.schedule("", b"[]", ends=True, extension=extension))

    @asynccontextmanager
    async def subscribe(self, topic: str) -> AsyncIterator[EMQPSubscription]:
        """Take what is published to a topic; ``*`` stands for one word between dots, ``#`` for any number of them.

        Raises:
            LocalProtocolError: The broker has no extensions: subscribe with a SUB socket there.
            Refused: As ``send`` does.
        """
        subscription = EMQPSubscription(topic)
        await self._do(lambda engine: engine.subscribe(topic))
        self._topics.setdefault(topic, []).append(subscription)
        try:
            yield subscription
        finally:
            self._topics[topic].remove(subscription)
            if not self._topics[topic]:
                del self._topics[topic]
                if self._is_open:
                    self._link.engine.unsubscribe(topic)
                    self._link.flush()

    async def _do(self, say: Callable[[PeerEngine], bytes]) -> None:
        """Give a command, and wait for what the broker makes of it."""
        await self.wait_room()
        await self._accepted(self._command(say))

    def _command(self, say: Callable[[PeerEngine], bytes]) -> Command:
        command = Command(say)
        self._give(command)
        return command

    async def _accepted(self, pending: PendingCommand) -> None:
        """Wait until the broker has something; a broker without extensions has what was sent."""
        self.flush()
        try:
            await pending.accepted()
        finally:
            self.forget(pending)
        if not self.has_extensions:
            await self._link.wait_room()

    # What is under way

    @property
    def _is_open(self) -> bool:
        return self._link.engine.state == "open"

    def _give(self, pending: PendingCommand) -> None:
        """Say something, now or when the broker is there."""
        engine = self._link.engine
        if engine.state == "open":
            pending.give(engine)
            self._link.flush_soon()
        else:
            pending.id = pending.id or self._link.new_id()
        self._unaccepted += 1
        self._pending[pending.id] = pending
        if engine.state == "open" and not engine.is_extended:
            self._accept(pending, NO_EXTENSION)

    def _accept(self, pending: PendingCommand, extension: Extension) -> None:
        if not pending.is_accepted:
            pending.accept(extension)
            self._count_accepted()
        if pending.is_over:
            self._pending.pop(pending.id, None)

    def _fail(self, pending: PendingCommand, error: Exception) -> None:
        if not pending.is_accepted:
            self._count_accepted()
        pending.fail(error)
        self._pending.pop(pending.id, None)

    def _count_accepted(self) -> None:
        self._unaccepted -= 1
        if self._room and self._unaccepted <= _MOST_UNACCEPTED // 2:
            self._room.unpark_all()

    def forget(self, pending: PendingCommand) -> None:
        """Wait for something no more."""
        if not pending.is_over:
            self._fail(pending, Disconnected("it was abandoned here"))

    def tell_taken(self, request: bytes, extension: Extension) -> None:
        """Tell a worker how far its stream was read, if the broker is there; it is told again when it is back."""
        if self._is_open:
            self._link.engine.progress(request, b"", extension)
            self._link.flush_soon()

    # What comes

    def _heard(self, event: Event) -> None:
        if (handle := _HANDLERS.get(type(event))) is not None:
            handle(self, event)

    def _replied(self, event: Replied) -> None:
        pending = self._pending.pop(event.request, None)
        if isinstance(pending, EMQPRequest):
            if not pending.is_accepted:
                self._count_accepted()
            pending.replied(EMQPReply(event.message, event.extension))

    def _acknowledged(self, event: Acknowledged) -> None:
        pending = self._pending.get(event.request)
        if pending is not None:
            self._accept(pending, event.extension)

    def _refused(self, event: RefusalReceived) -> None:
        pending = self._pending.get(event.request)
        if pending is not None:
            self._fail(pending, _ERRORS.get(event.code, Refused)(event.text))

    def _dispatched(self, event: Dispatched) -> None:
        pending = self._pending.get(event.request)
        if pending is not None:
            self._fail(pending, NotAnswered("a worker has the job; this broker brings no answers"))

    def _progressed(self, event: Progressed) -> None:
        pending = self._pending.get(event.request)
        if isinstance(pending, EMQPRequest):
            pending.progressed(event)
            if pending.is_over:
                del self._pending[event.request]

    def _reported(self, event: StateReported) -> None:
        if event.request in self._unsure:
            self._unsure.discard(event.request)
            pending = self._pending.get(event.request)
            if isinstance(pending, EMQPRequest):
                self._resolve(pending, event)
        for reports in self._reports.get(event.request, ()):
            reports.put(event)

    def _resolve(self, request: EMQPRequest, report: StateReported) -> None:
        """End a request that has ended while we were away, or is lost with the last broker."""
        if report.state.state == "unknown":
            # One that is on disk may wait in its queue: the broker will know it when it comes to it.
            if not (request.has_guarantee and DURABLE in self._link.engine.capabilities):
                self._fail(request, Disconnected("the broker knows nothing of the job any more: was it restarted?"))
        elif report.state.state in ENDED:
            del self._pending[request.id]
            request.has_ended(report)

    def _all_reports(self) -> Iterable[EMQPReports]:
        return {id(each): each for some in self._reports.values() for each in some}.values()

    def _published(self, event: TopicPublished) -> None:
        for subscriptions in self._topics.values():
            if subscriptions[0].matches(event.topic):
                for subscription in subscriptions:
                    subscription.put(event)

    def _left(self, event: PeerLeaving) -> None:
        self._broker_left = True

    def _opened(self, event: Opened) -> None:
        """Do again what the broker may not have heard, or has forgotten."""
        if self._broker_left and not self.has_extensions:
            self._forgotten()
        self._broker_left = False
        engine = self._link.engine
        if self.has_extensions:
            for topic in self._topics:
                engine.subscribe(topic)
            for reports in self._all_reports():
                for some in reports.questions():
                    reports.ask(engine, some)
        accepted = [pending for pending in self._pending.values() if pending.is_accepted]
        for pending in accepted:
            if isinstance(pending, EMQPRequest):
                pending.tell_taken(engine)
        for pending in [pending for pending in self._pending.values() if not pending.is_accepted]:
            del self._pending[pending.id]
            self._unaccepted -= 1
            try:
                self._give(pending)
            except LocalProtocolError as error:
                self._unaccepted += 1
                self._fail(pending, error)

        self._ask_for_ends([pending.id for pending in accepted])

    def _ask_for_ends(self, requests: list[bytes]) -> None:
        """Ask whether jobs have ended while we were away: their answers had nowhere to go."""
        if not self.has_extensions or not self._is_open:
            return
        self._unsure = set(requests)
        for first in range(0, len(requests), MOST_IDS):
            self._command(partial(_ask_for_answers, jobs=requests[first : first + MOST_IDS]))

    def _forgotten(self) -> None:
        """Fail what only the memory of the last broker had, which cannot be asked."""
        for pending in list(self._pending.values()):
            if pending.is_accepted and not pending.has_guarantee:
                self._fail(pending, Disconnected("the broker was restarted, and the job had no guarantee"))


def _ask_for_answers(engine: PeerEngine, jobs: Sequence[bytes]) -> bytes:
    return engine.ask_states(jobs, Extension(result=True))


_HANDLERS: Final[Mapping[type, Callable[[EMQPConnection, Any], None]]] = {
    Replied: EMQPConnection._replied,
    Acknowledged: EMQPConnection._acknowledged,
    RefusalReceived: EMQPConnection._refused,
    Progressed: EMQPConnection._progressed,
    StateReported: EMQPConnection._reported,
    Dispatched: EMQPConnection._dispatched,
    TopicPublished: EMQPConnection._published,
    PeerLeaving: EMQPConnection._left,
    Opened: EMQPConnection._opened,
}
"""What each event does."""
