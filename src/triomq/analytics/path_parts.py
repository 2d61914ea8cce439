"""A path and its parts: stays in one queue, or of one job, their events, and what they spent their time with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

_BEGINS_WAIT: Final = {"queued", "requeued", "job-submitted", "job-retried"}
_BEGINS_RUN: Final = {"delivered", "job-started"}
_ENDS: Final = {
    "accepted",
    "rejected",
    "expired",
    "dropped",
    "given-up",
    "discarded",
    "job-finished",
    "job-failed",
    "job-timed-out",
    "job-cancelled",
}

_FAILED: Final = {"rejected", "expired", "dropped", "given-up", "job-failed", "job-timed-out"}


class PathEvent(msgspec.Struct, frozen=True):
    """A row of the trace log; its columns, and ``process``: when what wrote it had started."""

    process: int
    ts: datetime
    seq: int
    node: str
    kind: str
    domain: str | None = None
    queue: str | None = None
    msg_id: int | None = None
    session: int | None = None
    attempt: int | None = None
    size: int | None = None
    exchange: str | None = None
    routing_key: str | None = None
    consumer: str | None = None
    message_id: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    from_queue: str | None = None
    from_id: int | None = None
    job_id: str | None = None
    job: str | None = None
    error: str | None = None
    protocol: str | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What no other event has."""
        return self.node, self.process, self.seq

    @property
    def order(self) -> tuple[str, int, int]:
        """What events of a node are sorted by: their numbers, since clocks are set back."""
        return self.key

    @property
    def is_of_job(self) -> bool:
        """Whether it is an event of a job, and not of the message that carries it."""
        return self.kind.startswith("job-")

    @property
    def is_failure(self) -> bool:
        """Whether it is an end otherwise than the publisher wished."""
        return self.kind in _FAILED

    def details(self) -> Iterator[str]:
        """Yield what else there is to say of it, in words."""
        if self.from_queue is not None:
            yield f"from {self.from_queue}/{self.from_id}"
        elif self.kind == "queued" and self.routing_key is not None:
            yield f"by {self.exchange!r} with {self.routing_key!r}" if self.exchange else "by the queue's name"
        if self.consumer:
            yield f"to {self.consumer}" if self.kind == "delivered" else self.consumer
        if self.protocol:
            yield self.protocol
        # Of a message it counts how often it came back, of a job how often it was started.
        runs = None if self.attempt is None else self.attempt + (not self.is_of_job)
        if runs is not None and runs > 1:
            yield f"attempt {runs}"
        if self.size is not None:
            yield f"{self.size:,} B"
        if self.error:
            yield self.error

    @property
    def place(self) -> tuple[object, ...]:
        """Where it happened: a queue and the number in it, or a job."""
        if self.is_of_job:
            return "job", self.job_id
        return self.node, self.domain, self.queue, self.msg_id


def begins_anew(before: PathEvent, event: PathEvent) -> bool:
    """Return whether an event is of another message at the same place than the one before."""
    return event.kind == "queued" or (before.kind in _ENDS and not event.is_of_job)


class PathSpan(msgspec.Struct, frozen=True):
    """A part of a stay's time.

    Args:
        kind: In the queue, or with a consumer.
        began: When it began.
        ended: When it ended; None if the log does not say.
    """

    kind: Literal["wait", "run"]
    began: datetime
    ended: datetime | None

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.ended is None else (self.ended - self.began).total_seconds()


class Stay(msgspec.Struct, frozen=True):
    """What happened to a message in one queue, from its arrival to its end; or to a job.

    Args:
        events: What happened to it, at least one event; of a part of the log perhaps without the first ones.
    """

    events: Sequence[PathEvent]

    @property
    def is_job(self) -> bool:
        """Whether it is a job, and not a message."""
        return self.events[0].is_of_job

    @property
    def queue(self) -> str | None:
        """The queue, also that of a job."""
        return self.events[0].queue

    @property
    def msg_id(self) -> int | None:
        """The message's number in its queue; in a stream its offset."""
        return self.events[0].msg_id

    @property
    def name(self) -> str:
        """How it is called: ``queue/number``, or the job's function."""
        if self.is_job:
            return f"{self._first('job') or 'job'} ({self.job_id})"
        return f"{self.queue}/{self.msg_id}"

    @property
    def message_id(self) -> str | None:
        """What its publisher has set."""
        return self._first("message_id")

    @property
    def correlation_id(self) -> str | None:
        """What its publisher has set."""
        return self._first("correlation_id")

    @property
    def traceparent(self) -> str | None:
        """What its publisher has set."""
        return self._first("traceparent")

    @property
    def job_id(self) -> str | None:
        """The job that it is, or carries."""
        return self._first("job_id")

    def _first(self, column: str) -> str | None:
        values = (getattr(event, column) for event in self.events)
        return next((value for value in values if value), None)

    @property
    def moved_from(self) -> tuple[str, int] | None:
        """The queue and the number that it had before it moved here; None if it was published to this queue."""
        event = self.events[0]
        return None if event.from_queue is None or event.from_id is None else (event.from_queue, event.from_id)

    @property
    def began(self) -> datetime:
        """When its first event was."""
        return self.events[0].ts

    @property
    def ended(self) -> datetime | None:
        """When it ended; None if the log does not say."""
        return next((event.ts for event in reversed(self.events) if event.kind in _ENDS), None)

    @property
    def outcome(self) -> str:
        """How it ended, or in which state the log leaves it."""
        kind = next((event.kind for event in reversed(self.events) if event.kind in _ENDS), "")
        if not kind:
            last = next(reversed(self.spans()), None)
            return "" if last is None else "waits" if last.kind == "wait" else "not settled"
        return kind.removeprefix("job-")

    @property
    def has_failed(self) -> bool:
        """Whether it ended otherwise than its publisher wished."""
        return any(event.is_failure for event in self.events)

    def summary(self, duration: Callable[[float], str]) -> str:
        """Return its waits, its runs and its outcome, in words.

        Args:
            duration: Writes a time in seconds.
        """
        times = []
        for kind in ("wait", "run"):
            seconds = [span.seconds for span in self.spans() if span.kind == kind]
            known = [value for value in seconds if value is not None]
            if known and len(known) == len(seconds):
                times.append(f"{kind} {duration(sum(known))}")
        return ", ".join([*times, self.outcome])

    def spans(self) -> list[PathSpan]:
        """Return the parts of its time: waits and runs, without overlaps.

        A record of a stream goes to many consumers and is settled by none of them in the log; it has a first wait.
        """
        return list(self._spans())

    def _spans(self) -> Iterator[PathSpan]:
        kind: Literal["wait", "run"] | None = None
        began = self.began
        for event, after in zip(self.events, (*self.events[1:], None), strict=True):
            if (
                event.kind == "delivered" and after is not None and after.kind == "returned"
            ) or event.kind == "returned":
                continue  # it was not sent after all
            begins: Literal["wait", "run"] | None
            begins = "wait" if event.kind in _BEGINS_WAIT else "run" if event.kind in _BEGINS_RUN else None
            if begins is None and event.kind not in _ENDS:
                continue
            if kind is not None and begins == kind == "run":
                continue  # another consumer of a stream
            if kind is not None:
                yield PathSpan(kind, began, event.ts)
            kind, began = begins, event.ts
        if kind is not None:
            yield PathSpan(kind, began, None)


class MessagePath(msgspec.Struct, frozen=True):
    """What became of a message or a job: stays that are linked, in the order in which they began.

    Args:
        stays: At least one.
        not_followed: Ids that too many messages share.
    """

    stays: Sequence[Stay]
    not_followed: Sequence[str]

    @property
    def began(self) -> datetime:
        """When its first event was."""
        return min(event.ts for stay in self.stays for event in stay.events)

    @property
    def ended(self) -> datetime:
        """When its last event was."""
        return max(event.ts for stay in self.stays for event in stay.events)


class FoundPaths(msgspec.Struct, frozen=True):
    """What a search has found, and where it has searched.

    Args:
        paths: Those that have the id, in the order in which they began.
        is_cut: Whether there are more than a search takes.
        files: How many files were searched.
        events: How many events they have.
        first: The time of the first event; None if there is none.
        last: The time of the last one.
        skipped: Files that could not be read, and why.
    """

    paths: Sequence[MessagePath]
    is_cut: bool
    files: int
    events: int
    first: datetime | None
    last: datetime | None
    skipped: Mapping[Path, str]
