"""A client of an eMQP broker: jobs and what becomes of them, publications, subscriptions, schedules.

    begin, publish, … ──> Outstanding ──> engine ──> link
    link ──> what comes ──┬─ ACK, ERROR, REPLY, PROGRESS ──> Outstanding
                          ├─ states of jobs ──> EMQPReports
                          └─ publications ──> EMQPSubscription

Nothing is awaited per message: what is given goes out at the end of the turn, and a task that gives many of them waits
for room now and then.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import Any

import trio

from triomq.clients.emqp.connector import EMQPConnector
from triomq.clients.emqp.following import EMQPReports
from triomq.clients.emqp.link import EMQPLink
from triomq.clients.emqp.outstanding import Outstanding
from triomq.clients.emqp.pending import Command, PendingCommand
from triomq.clients.emqp.request import EMQPReply, EMQPRequest
from triomq.clients.emqp.topics import EMQPSubscription
from triomq.errors import Disconnected
from triomq.protocols import in_units
from triomq.protocols.emqp import (
    LONGEST_TIME,
    NO_EXTENSION,
    NO_HEADERS,
    Acknowledged,
    AnswerRun,
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
    RequestRun,
    StateReported,
    TopicPublished,
    make_headers,
    schedule_key,
)


class EMQPConnection:
    """A client's conversation with a broker; made by ``open_emqp``, ends with its block.

    When the network or the broker was away it goes on by itself: what was not acknowledged is given again, requests
    under their old ids, and subscriptions are made again.

    Args:
        connector: Where to, and as whom.
    """

    def __init__(self, connector: EMQPConnector) -> None:
        pending: dict[bytes, PendingCommand] = {}
        self._link = EMQPLink(connector, "client", self._heard, outstanding=pending)
        self._outstanding = Outstanding(self._link, pending)
        self._topics: dict[str, list[EMQPSubscription]] = {}
        self._reports: dict[bytes, list[EMQPReports]] = {}
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            AnswerRun: self._outstanding.answered,
            Replied: self._outstanding.replied,
            Acknowledged: self._outstanding.acknowledged,
            RefusalReceived: self._outstanding.refused,
            Progressed: self._outstanding.progressed,
            Dispatched: self._outstanding.dispatched,
            StateReported: self._reported,
            TopicPublished: self._published,
            PeerLeaving: self._left,
            Opened: self._opened,
        }

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect; raises as ``EMQPLink.start`` does."""
        await self._link.start(nursery)

    async def close(self) -> None:
        """Say goodbye; what still waits fails."""
        await self._link.close()
        error = Disconnected("the connection is closed")
        self._outstanding.close(error)
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
        if deadline != inf:
            in_units("the time to the deadline", max(0.0, deadline - trio.current_time()), 1000, LONGEST_TIME)
        request = EMQPRequest(self._outstanding, self._link.new_id(), queue, message, headers, extension, deadline)
        self._outstanding.give(request)
        return request

    def flush(self) -> None:
        """Send what was given, now and not at the end of the turn."""
        self._link.flush()

    async def wait_room(self) -> None:
        """Wait while too much waits to be sent, or to be accepted, and until the broker knows us."""
        await self._outstanding.wait_room()

    async def send(
        self,
        queue: str,
        message: bytes,
        *,
        guarantee: bool = False,
        retry_count: int = 0,
        job_timeout: float = 0.0,
        extension: Extension = NO_EXTENSION,
    ) -> bytes:
        """Send a job, and wait until the broker has it; with a broker without extensions it is only sent.

        Args:
            queue: The queue's name; one that nobody has declared is ``default``.
            message: What the worker gets; released ones want a call in JSON.
            guarantee: Whether it survives the loss of its worker and, in a durable queue, a restart of the broker.
            retry_count: How often it is tried again when it fails.
            job_timeout: Seconds that it may run; 0 is without limit.
            extension: What else a broker with extensions is told.

        Returns:
            The id of the job that is there already under the same unique key, so that this one is not; empty if it is.

        Raises:
            AccessRefused: The user may not.
            LimitExceeded: A queue is full, or the broker is short of memory or disk.
            Refused: The broker refuses it otherwise.
            LocalProtocolError: It cannot be sent.
        """
        headers = make_headers(guarantee=guarantee, retry_count=retry_count, timeout=job_timeout)
        await self.wait_room()
        request = self.begin(queue, message, headers, extension)
        await self._accepted(request)
        return request.duplicate_of

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
        milliseconds = None if grace is None else in_units("grace", grace, 1000, LONGEST_TIME)
        extension = Extension(grace=milliseconds, tree=tree)
        return self._outstanding.command(lambda engine: engine.cancel(job, extension))

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
                await self._accepted(self._outstanding.command(partial(reports.ask, jobs=some)))
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

    async def publish(self, topic: str, message: bytes, *, guarantee: bool = False) -> None:
        """Publish a message to all who want its topic; raises as ``send`` does.

        Args:
            topic: The topic.
            message: What they get.
            guarantee: Whether it survives a restart of the broker, in a durable queue that is bound to topics.
        """
        headers = make_headers(guarantee=guarantee)
        await self._do(lambda engine: engine.publish(topic, message, headers))

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
        await self._accepted(self._outstanding.command(say))

    async def _accepted(self, pending: PendingCommand) -> None:
        """Wait until the broker has something; a broker without extensions has what was sent."""
        self.flush()
        try:
            await pending.accepted()
        finally:
            self._outstanding.forget(pending)
        if not self.has_extensions:
            await self._link.wait_room()

    @property
    def _is_open(self) -> bool:
        return self._link.engine.state == "open"

    # What comes

    def _heard(self, event: Event | RequestRun | AnswerRun) -> None:
        if (handler := self._handlers.get(type(event))) is not None:
            handler(event)

    def _reported(self, event: StateReported) -> None:
        self._outstanding.reported(event)
        for reports in self._reports.get(event.request, ()):
            reports.put(event)

    def _all_reports(self) -> Iterable[EMQPReports]:
        return {id(each): each for some in self._reports.values() for each in some}.values()

    def _published(self, event: TopicPublished) -> None:
        for subscriptions in self._topics.values():
            if subscriptions[0].matches(event.topic):
                for subscription in subscriptions:
                    subscription.put(event)

    def _left(self, event: PeerLeaving) -> None:
        self._outstanding.broker_left()

    def _opened(self, event: Opened) -> None:
        """Do again what the broker may not have heard, or has forgotten."""
        if self.has_extensions:
            engine = self._link.engine
            for topic in self._topics:
                engine.subscribe(topic)
            for reports in self._all_reports():
                for some in reports.questions():
                    reports.ask(engine, some)
        self._outstanding.give_again()
