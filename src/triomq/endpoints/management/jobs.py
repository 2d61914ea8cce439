"""Answers what one can ask about a domain's jobs, and does to one what is asked; see ``JobDesk``."""

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from itertools import islice
from typing import TypeVar

import msgspec

from triomq.core import NotResident, Publisher
from triomq.endpoints.base.job_desk import Browser, DeadJob, FoundJob, JobDesk
from triomq.endpoints.management.paging import Paged, PageEnd
from triomq.errors import NotFound
from triomq.protocols.control import (
    CancelJob,
    CancelledJob,
    DeadJobRecord,
    GetJobTotals,
    JobDetails,
    JobTotals,
    ListDeadJobs,
    ListJobs,
    LiveJobRecord,
    RequeuedJob,
    RequeueJob,
    ShowJob,
    encode,
    sayable,
)

J = TypeVar("J", FoundJob, DeadJob)

_LOOKED_AT = 20_000
"""Jobs that are looked at for one, or for a page: some 50 ms of work."""


class JobInspector:
    """Looks at the jobs of one domain.

    Args:
        desk: Who knows them; None if nobody has any there.
        browse: Asks a queue for messages.
        may_read: Whether the asker may read a queue: payloads are what others have written.
        room: Bytes of the largest answer.
    """

    def __init__(self, desk: JobDesk | None, *, browse: Browser, may_read: Callable[[str], bool], room: int) -> None:
        self._desk = desk
        self._browse = browse
        self._may_read = may_read
        self._room = room

    def get_totals(self, asked: GetJobTotals) -> JobTotals:
        """Count jobs."""
        if self._desk is None:
            return JobTotals()
        counts = self._desk.counts()
        return JobTotals(counts.running, counts.parked, counts.dead, counts.happened)

    def list_jobs(self, asked: ListJobs) -> Iterator[Paged[LiveJobRecord] | PageEnd]:
        """List jobs that have not ended; a page has fewer of them when few of many are asked for."""
        desk, matches = self._desk, _matcher(asked.name)
        if desk is None:
            return
        for number, job in enumerate(desk.unended(self._browse, asked.after, asked.queue), 1):
            if asked.state in ("", job.state):
                name = desk.name_of(job.payload)
                if matches(name):
                    yield Paged(job.cursor, _record(job, name))
            if number == _LOOKED_AT:
                yield PageEnd(job.cursor)

    def list_dead(self, asked: ListDeadJobs) -> Iterator[Paged[DeadJobRecord]]:
        """List jobs that have failed for good."""
        desk, matches = self._desk, _matcher(asked.name)
        if desk is None:
            return
        for job in desk.dead(self._browse, asked.after):
            name = desk.name_of(job.payload)
            if matches(name):
                yield Paged(job.place, _dead_record(job, name), _shorten)

    def show(self, asked: ShowJob) -> JobDetails:
        """Show a job.

        Raises:
            NotFound: There is none of this id, or it has ended too long ago.
        """
        desk = self._desk
        if desk is not None:
            job = None if asked.place else self._find(desk, asked.job)
            if job is not None:
                return self._details(desk, job)
            dead = self._find_dead(desk, asked.job, asked.place)
            if dead is not None:
                return self._dead_details(desk, dead)
            job = desk.summary(asked.job)
            if job is not None:
                return self._details(desk, job)
        raise NotFound(
            f"there is no job '{asked.job}', or it has ended too long ago; `triomq jobs list` shows those here"
        )

    def _find(self, desk: JobDesk, job: str) -> FoundJob | None:
        """Look for a job, as far as messages are in memory."""
        known = desk.summary(job)
        return _first_of(islice(desk.unended(self._browse, queue=known.queue if known else ""), _LOOKED_AT), job)

    def _find_dead(self, desk: JobDesk, job: str, place: int) -> DeadJob | None:
        """Look for a dead letter: at its place, or as far as they are in memory."""
        if place:
            found = next(desk.dead(self._browse, place - 1), None)
            return found if found is not None and found.id == job else None
        return _first_of(desk.dead(self._browse), job)

    def _details(self, desk: JobDesk, job: FoundJob) -> JobDetails:
        record = _record(job, desk.name_of(job.payload))
        details = JobDetails(
            id=record.id,
            state=record.state,
            name=record.name,
            queue=record.queue,
            attempt=record.attempt,
            user=record.user,
            due=record.due,
        )
        return self._with_arguments(details, desk, job.queue, job.payload)

    def _dead_details(self, desk: JobDesk, job: DeadJob) -> JobDetails:
        record = _dead_record(job, desk.name_of(job.payload))
        details = JobDetails(
            id=record.id,
            state=record.state,
            name=record.name,
            queue=record.queue,
            attempt=record.attempts,
            user=record.user,
            type=record.type,
            message=record.message,
            traceback=sayable(job.traceback),
            time=record.time,
        )
        if len(encode(details)) > self._room:
            details = msgspec.structs.replace(details, traceback="", message=details.message[:1000])
        return self._with_arguments(details, desk, desk.dead_letters, job.payload)

    def _with_arguments(self, details: JobDetails, desk: JobDesk, queue: str, payload: bytes) -> JobDetails:
        """Add the arguments, if the asker may see them, and they fit."""
        if not payload or not self._may_read(queue) or len(payload) > self._room:
            return details
        whole = msgspec.structs.replace(details, **desk.arguments_of(payload))
        return whole if len(encode(whole)) <= self._room else details

    def cancel(self, asked: CancelJob, may: Callable[[str], None]) -> CancelledJob:
        """Cancel a job.

        Args:
            asked: Which.
            may: Called with the user whose job it is; raises if the asker may not.

        Raises:
            NotFound: There is none of this id that can be cancelled.
        """
        if self._desk is None:
            raise NotFound(f"there is no job '{asked.job}'")
        return CancelledJob(self._desk.cancel(self._browse, asked.job, may, tree=asked.tree))

    def requeue(self, asked: RequeueJob, publisher: Publisher) -> RequeuedJob:
        """Send a job again that has failed for good; as the asker, who has to read dead letters and to publish.

        Raises:
            NotFound: There is no dead letter of this job.
            Refused: It cannot be published.
        """
        desk = self._desk
        if desk is not None:
            dead = self._find_dead(desk, asked.job, asked.place)
            if dead is not None:
                return RequeuedJob(desk.send_again(dead, publisher), desk.dead_letters)
        raise NotFound(f"there is no dead letter of a job '{asked.job}'; `triomq jobs dead` lists them")


def _first_of(jobs: Iterator[J], job: str) -> J | None:
    """Return the job of an id; only the first ones are waited for, if they are on disk.

    To wait for more would not end: what has been read for one page makes room for the next.
    """
    looked_at = 0
    try:
        for found in jobs:
            looked_at += 1
            if found.id == job:
                return found
    except NotResident:
        if not looked_at:
            raise
    return None


def _matcher(pattern: str) -> Callable[[str], object]:
    return (lambda name: True) if pattern == "*" else re.compile(translate(pattern)).match


def _record(job: FoundJob, name: str) -> LiveJobRecord:
    return LiveJobRecord(
        sayable(job.id), sayable(name), sayable(job.queue), job.state, job.attempt, sayable(job.user), job.due
    )


def _dead_record(job: DeadJob, name: str) -> DeadJobRecord:
    return DeadJobRecord(
        id=sayable(job.id),
        name=sayable(name),
        queue=sayable(job.queue),
        state=sayable(job.state),
        attempts=job.attempts,
        user=sayable(job.user),
        type=sayable(job.type),
        message=sayable(job.message),
        time=job.time,
        place=job.place,
    )


def _shorten(record: DeadJobRecord, room: int) -> DeadJobRecord:
    bare = msgspec.structs.replace(record, message="")
    free = max(0, room - len(encode(bare)))
    return msgspec.structs.replace(record, message=record.message[: free // 6])  # a letter takes six in JSON at most
