"""A worker of an eMQP broker: it says how many jobs it has room for, takes them, and answers each.

    REQUEST ──> _inbox ──> receive, or async for ──> the owner's
    reply, fail, end, give_back ──> engine ──> out at the end of the turn, with one READY for all the slots
    the broker was away ──> answers are held ──> INFORM says what is still here ──> they go out

Rules:

- What was not answered is the worker's own. When a broker is back that has forgotten us, or another one, it hears with
  INFORM which jobs are here, at which attempt. Answers wait until it has heard that: it would not know whose they are.
- The last answers are said again then, since a broker does not acknowledge them: it may have gone before it had them,
  or before they were on disk. One that has them drops the second.
- A job that came for nothing (after the goodbye, or beyond the slots) is given back at once, where a broker understands
  that; from others it is taken.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self

import msgspec
import trio

from triomq.clients.emqp.connector import EMQPConnector
from triomq.clients.emqp.job import EMQPJob
from triomq.clients.emqp.link import EMQPLink
from triomq.clients.emqp.recent import RecentAnswers
from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import (
    MOST_RUNNING,
    AnswerRun,
    CancelAsked,
    DisconnectAsked,
    Event,
    Extension,
    Opened,
    PeerLeaving,
    Progressed,
    RefusalReceived,
    Requested,
    RequestRun,
    Silent,
    Unknown,
    WeightedQueue,
)

_WEIGHT: Final = 10
"""Of a queue without one, as released workers have it."""

_PAUSE: Final = 0.1
"""Seconds between two values of one job: people see no more of them."""

_PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds until items are sent again: a broker that was restarted takes 10 s at most to know whose job is whose."""

_HEARD: Final = ("open", "leaving", "left")
"""States in which the broker knows whose answers these are."""


class EMQPWorker:
    """A worker's conversation with a broker; made by ``open_emqp_worker``, ends with its block.

    ``async for job in worker`` yields jobs, and ``receive`` all that are here, never more at a time than there are
    slots; several tasks may do so. When the network or the broker was away it goes on by itself, and with the jobs that
    it has. A broker that has given one of them to another worker drops our answer.

    Args:
        connector: Where to, and as whom.
        queues: From which it takes jobs; with weights, if they differ.
        slots: How many jobs it may have at a time.
    """

    def __init__(self, connector: EMQPConnector, queues: Sequence[str] | Mapping[str, int], slots: int = 1) -> None:
        weights = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, _WEIGHT)
        self._name = connector.name
        self._jobs: dict[bytes, EMQPJob] = {}  # not answered, or not heard to be
        self._inbox: deque[EMQPJob] = deque()
        self._takers = trio.lowlevel.ParkingLot()
        self._leavers = trio.lowlevel.ParkingLot()
        self._offered = 0  # slots that the broker knows of
        self._held: list[Callable[[], None]] = []  # what to say when the broker knows us
        self._values: dict[EMQPJob, bytes] = {}  # that wait for their time
        self._has_values = trio.Event()
        self._answers = RecentAnswers()
        self._reopened = trio.Event()  # while there are streams
        self._drains = False
        named = tuple(WeightedQueue(weight, name) for name, weight in weights.items())
        self._link = EMQPLink(
            connector, "worker", self._hear, queues=named, about=self._about, prepare=self._offer
        )  # fmt: skip
        self.is_leaving = False
        """Whether the broker has said goodbye, and no job will come before it is back."""
        self.slots = slots

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect; raises as ``EMQPLink.start`` does."""
        await self._link.start(nursery)
        nursery.start_soon(self._say_values)
        nursery.start_soon(self._go_on_repeating)

    async def close(self) -> None:
        """Say goodbye; jobs that are not answered go to other workers, if they have a guarantee."""
        await self._link.close()

    async def leave(self) -> None:
        """Say goodbye, give back what nobody has taken here, and wait until all other jobs are answered.

        ``receive`` returns nothing any more, and iterations end. How long to wait is up to the caller.
        """
        if not self._drains:
            self._drains = True
            waiting = list(self._inbox)
            self._inbox.clear()
            self._link.engine.leave()
            if not self.give_back(waiting):
                self._inbox.extend(waiting)
            self._takers.unpark_all()
            self._link.flush()
        await trio.lowlevel.checkpoint()
        while self._jobs:
            await self._leavers.park()

    # Jobs

    @property
    def slots(self) -> int:
        """How many jobs it may have at a time; may be changed, and takes back no slot that the broker knows of."""
        return self._slots

    @slots.setter
    def slots(self, slots: int) -> None:
        if not 0 <= slots <= MOST_RUNNING:
            raise LocalProtocolError(f"{slots} slots; a worker has from 0 to {MOST_RUNNING}")
        self._slots = slots
        if self._link.is_open.is_set():
            self._link.flush_soon()

    @property
    def jobs(self) -> Iterable[EMQPJob]:
        """The jobs that it has."""
        return self._jobs.values()

    async def receive(self) -> list[EMQPJob]:
        """Wait for jobs, and return all that have come; none once it leaves."""
        await trio.lowlevel.checkpoint()
        while not self._inbox and not self._drains:
            await self._takers.park()
        jobs = list(self._inbox)
        self._inbox.clear()
        return jobs

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EMQPJob:
        await trio.lowlevel.checkpoint()
        while not self._inbox:
            if self._drains:
                raise StopAsyncIteration
            await self._takers.park()
        job = self._inbox.popleft()
        if self._inbox:
            self._takers.unpark()
        return job

    def answer(self, job: EMQPJob, message: bytes, extension: Extension) -> None:
        """Answer a job; a second answer to the same one does nothing. It goes out at the end of the turn.

        Raises:
            LocalProtocolError: The broker cannot be sent such a message.
        """
        if job.answered:
            return
        if self._values and (value := self._values.pop(job, None)) is not None:
            self._say(job, value, job.numbered())
        if self._is_heard:
            self._reply(job, message, extension)
        else:
            self._held.append(lambda: self._answer_late(job, message, extension))
        job.answered = True
        self._link.flush_soon()

    def _answer_late(self, job: EMQPJob, message: bytes, extension: Extension) -> None:
        """Answer a job that has ended while the broker was away."""
        try:
            self._reply(job, message, extension)
        except LocalProtocolError as error:  # the broker is another one
            failed = Extension(state="failed", attempt=job.attempt, type="LocalProtocolError", message=str(error))
            self._reply(job, b'{"value": "the answer cannot be sent"}', failed)

    def _reply(self, job: EMQPJob, message: bytes, extension: Extension) -> None:
        engine = self._link.engine
        if job.stream is not None:
            extension = msgspec.structs.replace(extension, number=job.stream.sent)
        engine.reply(job.id, message, extension)
        if engine.is_extended:
            self._answers.add(job.id, job.attempt, message, extension, job.stream)
        self._end(job)

    def give_back(self, jobs: Sequence[EMQPJob]) -> bool:
        """Return jobs that were not begun, for which others may have room; return whether the broker takes them.

        A broker without extensions does not: then they are to be run, or failed.
        """
        jobs = [job for job in jobs if not job.answered]
        if not self._is_heard:
            for job in jobs:
                job.answered = True
            self._held.append(lambda: self._return(jobs))
            return True
        if not self._link.engine.is_extended:
            return not jobs
        self._return(jobs)
        self._link.flush_soon()
        return True

    def _return(self, jobs: Sequence[EMQPJob]) -> None:
        if self._link.engine.is_extended:
            self._link.engine.give_back([job.id for job in jobs])
        for job in jobs:
            job.answered = True
            self._end(job)

    def flush(self) -> None:
        """Send answers and READY now, and not at the end of the turn."""
        self._link.flush()

    def _end(self, job: EMQPJob) -> None:
        job.on_cancel = None  # it mostly knows the job: only a collection of garbage would free both
        if self._jobs.get(job.id) is job:
            del self._jobs[job.id]
        if self._drains and not self._jobs:
            self._leavers.unpark_all()

    def _offer(self) -> None:
        """Tell the broker of the slots that it does not know of."""
        self._answers.heard(self._link.heard_at)
        free = self._slots - len(self._jobs) - self._offered
        if free > 0 and not self._drains and self._link.engine.state == "open":
            self._offered += free
            self._link.engine.ready(free)

    # On the way

    @property
    def _is_heard(self) -> bool:
        return self._link.engine.state in _HEARD

    def say_value(self, job: EMQPJob, value: bytes) -> None:
        """Say how far a job has come, now or a little later."""
        now = trio.current_time()
        if job.answered or not self._link.engine.is_extended:
            return
        if now >= job.quiet_until or not self._link.engine.carries(value):
            job.quiet_until = now + _PAUSE
            self._say(job, value, job.numbered())
            self._link.flush_soon()
        else:
            self._values[job] = value
            self._has_values.set()

    async def _say_values(self) -> None:
        while True:
            await self._has_values.wait()
            await trio.sleep(_PAUSE)
            self._has_values = trio.Event()
            values, self._values = self._values, {}
            for job, value in values.items():
                job.quiet_until = trio.current_time() + _PAUSE
                self._say(job, value, job.numbered())
            self._link.flush_soon()

    def say_items(self, job: EMQPJob, items: Iterable[tuple[int, bytes]]) -> None:
        """Send items, with their numbers."""
        if self._is_heard:
            self._say_items(job.id, job.attempt, items)
            self._link.flush_soon()

    def _say_items(self, job: bytes, attempt: int, items: Iterable[tuple[int, bytes]]) -> None:
        for number, item in items:
            extension = Extension(attempt=attempt, number=number, item=True)
            self._link.engine.progress(job, item, extension)

    def _repeat_items(self, since: Mapping[EMQPJob, int] | None = None) -> dict[EMQPJob, int]:
        """Send again what was not read, of streams of which nothing was read since; return how far each was read."""
        streams = {job: job.stream for job in self._jobs.values() if job.stream is not None}
        for job, stream in streams.items():
            if since is None or since.get(job) == stream.taken:
                self.say_items(job, stream)
        return {job: stream.taken for job, stream in streams.items()}

    async def _go_on_repeating(self) -> None:
        """Send items again and again while a broker that has come back finds its reader, and our job."""
        while True:
            await self._reopened.wait()
            self._reopened = trio.Event()
            taken = self._repeat_items({})
            for pause in _PAUSES:
                await trio.sleep(pause)
                taken = self._repeat_items(taken)

    def _say(self, job: EMQPJob, message: bytes, extension: Extension) -> None:
        if self._is_heard:
            self._link.engine.progress(job.id, message, extension)

    # What comes

    def _hear(self, event: Event | RequestRun | AnswerRun) -> None:
        if (handle := _HANDLERS.get(type(event))) is not None:
            handle(self, event)

    def _requested(self, event: Requested) -> None:
        run = RequestRun(event.queue, event.headers, event.extension, (event.msgid,), (event.message,))
        self._requested_run(run)

    def _requested_run(self, run: RequestRun) -> None:
        wanted = 0 if self._drains else self._offered
        self._offered = max(0, self._offered - run.count)
        jobs = [EMQPJob(self, msgid, message, run) for msgid, message in zip(run.msgids, run.messages, strict=True)]
        self._jobs.update((job.id, job) for job in jobs)
        if (spare := jobs[wanted:]) and self.give_back(spare):
            del jobs[wanted:]
        was_empty = not self._inbox
        self._inbox += jobs
        if was_empty and jobs:  # who takes it wakes the next, if there is more by then
            self._takers.unpark()

    def _cancel_asked(self, event: CancelAsked) -> None:
        job = self._jobs.get(event.request)
        if job is not None and not job.answered:
            grace = event.extension.grace
            job.cancelled(None if grace is None else grace / 1000)

    def _taken(self, event: Progressed) -> None:
        job = self._jobs.get(event.request)
        if job is not None and job.stream is not None:
            job.stream.take(event.extension.number)
            if event.extension.follow:
                self.say_items(job, job.stream)

    def _opened(self, event: Opened) -> None:
        """Go on: say what the last broker may not have heard."""
        self.is_leaving = False
        self._offered = 0
        for answer in self._answers.take():
            if self._link.engine.carries(answer.message):
                self._say_items(answer.job, answer.attempt, answer.stream or ())
                self._link.engine.reply(answer.job, answer.message, answer.extension)
                self._answers.add(*answer[1:])  # this broker may go as well
        if any(job.stream is not None for job in self._jobs.values()):
            self._repeat_items()
            self._reopened.set()
        held, self._held = self._held, []
        for say in held:
            say()
        if self._drains:
            self._link.engine.leave()

    def _forgotten(self, event: Unknown | Silent) -> None:
        self._offered = 0
        self._answers.wait()

    def _refused(self, event: RefusalReceived) -> None:
        if event.code == "inform" and self._drains:  # a broker that came while we were leaving
            self._link.begin_again()

    def _dismissed(self, event: PeerLeaving | DisconnectAsked) -> None:
        self.is_leaving = True
        if isinstance(event, PeerLeaving):
            self._answers.wait()

    def _about(self) -> Extension:
        """Return what INFORM says: which jobs are here, or were answered just now."""
        running = {answer.job: answer.attempt for answer in self._answers}
        running.update((job.id, job.attempt) for job in self._jobs.values())
        latest = list(running.items())[-MOST_RUNNING:]
        return Extension(name=self._name, running=tuple((job.decode(), attempt) for job, attempt in latest))


_HANDLERS: Final[Mapping[type, Callable[[EMQPWorker, Any], None]]] = {
    Requested: EMQPWorker._requested,
    RequestRun: EMQPWorker._requested_run,
    CancelAsked: EMQPWorker._cancel_asked,
    Progressed: EMQPWorker._taken,
    Opened: EMQPWorker._opened,
    Unknown: EMQPWorker._forgotten,
    Silent: EMQPWorker._forgotten,
    RefusalReceived: EMQPWorker._refused,
    PeerLeaving: EMQPWorker._dismissed,
    DisconnectAsked: EMQPWorker._dismissed,
}
"""What each event does."""
