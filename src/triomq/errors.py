"""All errors that triomq raises, in one tree.

TriomqError
├─ ProtocolError            LocalProtocolError (our misuse) · RemoteProtocolError (the peer's)
├─ Refused                  Unroutable · QueueUnreadable · SinkBroken · NotForStreams · OutOfRange
│  ├─ NotFound              NoSuchSink · NoSuchQueue · QueueStopped · UnknownStage
│  ├─ AccessRefused         InExclusiveUse · ForeignResource · SinkInternal
│  ├─ PreconditionFailed    Inequivalent · SinkInUse · QueueInUse · QueueNotEmpty
│  │                        PartOfStream · OtherStream
│  ├─ ResourceLocked        QueueLocked
│  └─ LimitExceeded         QueueFull
├─ Disconnected · ConsumerCancelled
├─ ActorError               ActorStopped · HandlerFailed · MailboxFull · NameTaken · NoSuchActor · RestartLimitExceeded
├─ JobError                 WrongArguments · WrongResult · UnknownJob · NoRunningJob · NotConnected · AlreadyConnected
│  │                        NoSuchJob · ResultNotKept
│  └─ JobFailed             JobTimedOut · JobCancelled · JobExpired · WorkerLost · JobsFailed (an ExceptionGroup, too)
├─ StoreError               StoreLocked · StoreCorrupt · StoreTooNew · DiskFull · StoreUnwritable · StoreLost
│                           NotAllWritten
├─ ChunkDamaged
├─ PipelineError            JavaNotFound · SparkTooOld · RecordsLost · WrongCheckpoint · WrongSchema
├─ TraceLogError
└─ ConfigError

``Refused`` is an answer, not a crash: a handler that raises it refuses its asker's request, and its actor goes on.
"""

from collections.abc import Sequence
from typing import ClassVar, Self


class TriomqError(Exception):
    """The root: ``except TriomqError`` catches all that triomq raises on purpose."""


class ProtocolError(TriomqError):
    """One side broke the rules of a wire protocol."""


class LocalProtocolError(ProtocolError):
    """Our own side called an engine in a state that does not allow it; a bug in the caller."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules; engines report this as an event, clients raise it."""


class Refused(TriomqError):
    """The broker understood the request and refuses it; nothing was changed.

    Each endpoint has one table from the subclasses of this to its own reply codes.
    """


class NotFound(Refused):
    """The named sink, queue or binding does not exist."""


class AccessRefused(Refused):
    """The name is reserved, the resource is in exclusive use, or the user has no permission."""


class PreconditionFailed(Refused):
    """The existing sink or queue differs from the requested one, is in use, or is not empty."""


class ResourceLocked(Refused):
    """The queue belongs exclusively to another session."""


class LimitExceeded(Refused):
    """A configured limit leaves no room; the text names the limit."""


class Unroutable(Refused):
    """A message published as mandatory reached no queue."""


class _About(Refused):
    """A refusal about one sink or queue, which has its name."""

    _text: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(self._text.format(name))


class NoSuchSink(_About, NotFound):
    """There is no sink of that name."""

    _text = "no sink {!r} here; declare it first"


class NoSuchQueue(_About, NotFound):
    """There is no queue of that name."""

    _text = "no queue {!r} here; declare it first"


class QueueStopped(_About, NotFound):
    """The queue crashed so often that its supervisor gave it up; its messages stay."""

    _text = "queue {!r} process is stopped by supervisor; the log says why; delete it or restart the broker"


class QueueLocked(_About, ResourceLocked):
    """The queue belongs exclusively to another session, or its exclusiveness differs from the requested one."""

    _text = "queue {!r} belongs exclusively to another session; use another name or wait until it ends"


class InExclusiveUse(_About, AccessRefused):
    """The queue has an exclusive feed, or the new feed is to be exclusive and there are others."""

    _text = "queue {!r} is in exclusive use; close its other feeds first"


class ForeignResource(AccessRefused):
    """Only the maker of a sink, a queue or a binding may delete it: another broker, or a client of this one.

    RestMS, profile 4/AMQP9: resources from another server are protected from clients of this one.

    Args:
        what: The thing, as texts call it.
        origin: Where it comes from; empty if it is this broker's own.
        asker: The peer that wants to delete it, in the same way.
    """

    def __init__(self, what: str, origin: str, asker: str) -> None:
        self.origin = origin
        if origin:
            reason = f"{what} comes from {origin!r}; delete it there, or forget that origin here"
        else:
            reason = f"{what} was made here and not by {asker!r}; delete it here"
        super().__init__(reason)


class SinkInternal(_About, AccessRefused):
    """Only other sinks may publish into the sink."""

    _text = "sink {!r} is internal; publish into a sink that is bound to it"


class SinkInUse(_About, PreconditionFailed):
    """The sink has bindings, and was to be deleted only without any."""

    _text = "sink {!r} has bindings; unbind them first, or delete it with if_unused=False"


class QueueInUse(_About, PreconditionFailed):
    """The queue has feeds, and was to be deleted only without any."""

    _text = "queue {!r} has feeds; close them first, or delete it with if_unused=False"


class QueueNotEmpty(_About, PreconditionFailed):
    """The queue has messages, and was to be deleted only without any."""

    _text = "queue {!r} is not empty; purge it first, or delete it with if_empty=False"


class PartOfStream(PreconditionFailed):
    """It belongs to a partitioned stream, which is declared and deleted as a whole.

    Args:
        what: The thing, as texts call it.
        stream: The stream's name.
    """

    def __init__(self, what: str, stream: str) -> None:
        self.stream = stream
        super().__init__(f"{what} belongs to the partitioned stream {stream!r}; delete that as a whole")


class QueueFull(_About, LimitExceeded):
    """The queue has no room for the message, and refuses it rather than drop older ones."""

    _text = "queue {!r} is full; consume from it, or raise its max_length or max_bytes"


class Inequivalent(PreconditionFailed):
    """What exists was declared with another value.

    Args:
        name: The sink's or queue's name.
        option: The option's name in the core's words.
        received: What this declare asks for.
        current: What is in force.
    """

    def __init__(self, name: str, option: str, received: object, current: object) -> None:
        self.name = name
        self.option = option
        self.received = received
        self.current = current
        super().__init__(
            f"{option} of {name!r} is {current!r}, not {received!r}; declare it the same, or delete it first"
        )


class QueueUnreadable(_About, Refused):
    """The store cannot read the messages of a queue."""

    _text = "queue {!r} cannot be read from disk; the log and `triomq store check` say why"


class NotForStreams(Refused):
    """A stream keeps what was read, so it knows nothing that takes messages out of a queue.

    Args:
        name: The stream's name.
        what: What was asked for, as a word or two: ``"get"``, ``"purge"``.
    """

    def __init__(self, name: str, what: str) -> None:
        self.name = name
        self.what = what
        super().__init__(f"{what} is not for stream {name!r}, which keeps what was read; open a feed at an offset")


class OutOfRange(Refused):
    """The stream has dropped the records at this offset: retention was faster than the reader.

    Args:
        name: The stream's name.
        offset: The offset that was asked for.
        first: The lowest offset that can be read.
        stop: One more than the highest one.
    """

    def __init__(self, name: str, offset: int, first: int, stop: int) -> None:
        self.name = name
        self.offset = offset
        self.first = first
        self.stop = stop
        super().__init__(f"stream {name!r} has offsets {first} to {stop - 1}, and {offset} is gone; read from {first}")


class OtherStream(PreconditionFailed):
    """The stream was deleted and declared anew since its reader learnt what it is: offsets mean other records."""


class UnknownStage(NotFound):
    """What is to be committed is not staged, as after a restart: stage it again."""


class SinkBroken(_About, Refused):
    """The sink crashed at this request, or so often before that it was stopped."""

    _text = "sink {!r} crashed; the log says why"


class Disconnected(TriomqError):
    """A client could not connect, or lost its connection; what was not confirmed may or may not have happened."""


class ConsumerCancelled(TriomqError):
    """The broker has ended a client's consumer: its queue was deleted, or has failed."""


class ActorError(TriomqError):
    """An actor could not be asked; not a refusal by the actor."""


class ActorStopped(ActorError):
    """The actor has stopped for good and will never answer."""


class HandlerFailed(ActorError):
    """The handler of a request crashed; ``__cause__`` is its exception."""


class MailboxFull(ActorError):
    """The mailbox is full and its overflow policy is to reject."""


class NameTaken(ActorError):
    """A running sibling has that name already."""


class NoSuchActor(ActorError):
    """There is no actor at that path."""


class RestartLimitExceeded(ActorError):
    """A supervisor restarted its children too often; ``__cause__`` is the last failure."""


class ChunkDamaged(TriomqError):
    """Records of a stream are not what was written; the text names their offsets, as far as they are known."""


class StoreError(TriomqError):
    """The data on disk cannot be read or written; the text names the file and the way out."""


class StoreLocked(StoreError):
    """Another broker uses that directory."""


class StoreCorrupt(StoreError):
    """The file is damaged, or is not a store at all."""


class StoreTooNew(StoreError):
    """A later version of triomq has written it."""


class DiskFull(StoreError):
    """The disk is full; nothing was written, and it may be tried again."""


class StoreUnwritable(StoreError):
    """The directory is read-only, or the disk reports errors; nothing was written."""


class StoreLost(StoreUnwritable):
    """The files of the store are not in their places any more; the text says where, or how they can be saved."""


class NotAllWritten(StoreError):
    """The broker has ended, and not all of it could be written to disk; the text says what not, and why."""


class JobError(TriomqError):
    """A job could not be sent, run or looked up."""


class WrongArguments(JobError):
    """The arguments of a call are not those that the function takes; the text has the path to the wrong one."""


class WrongResult(JobError):
    """A result cannot be sent, or is not what the annotation of its function says."""


class UnknownJob(JobError):
    """No function of that name is registered; nothing was imported to look for it."""


class NoRunningJob(JobError):
    """``current_job()`` was asked outside a job."""


class NotConnected(JobError):
    """Jobs were sent, and nothing connects them with a broker."""


class AlreadyConnected(JobError):
    """Jobs were connected a second time; one ``Jobs`` has one broker at a time."""


class NoSuchJob(JobError):
    """The broker knows no job of that id, or has forgotten it since it ended."""


class ResultNotKept(JobError):
    """A job has ended well, and its result went to its sender alone."""


class JobFailed(JobError):
    """A job has ended without a result; the text has the remote traceback behind it.

    Args:
        job: Its id.
        name: What was called.
        kind: The class of the remote exception, by its name; empty if there was none.
        reason: The text of the remote exception, or why the job was ended.
        remote_traceback: Where the remote exception came from.
    """

    _text: ClassVar[str] = "failed"

    def __init__(self, job: str, name: str, kind: str = "", reason: str = "", remote_traceback: str = "") -> None:
        self.job = job
        self.name = name
        self.kind = kind
        self.reason = reason
        self.remote_traceback = remote_traceback
        cause = f"{kind}: {reason}" if kind and reason else kind or reason
        super().__init__(f"{name or 'job'} {self._text}{': ' if cause else ''}{cause} (job {job})")
        if remote_traceback:
            self.add_note("\nIn the worker:\n" + remote_traceback.rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        """Make it again with the same arguments: its text is not one of them."""
        return type(self), (self.job, self.name, self.kind, self.reason, self.remote_traceback)


class JobTimedOut(JobFailed):
    """A job ran longer than it may, and was stopped."""

    _text = "timed out"


class JobCancelled(JobFailed):
    """A job was cancelled, by its caller, by its parent's end, or by hand."""

    _text = "was cancelled"


class JobExpired(JobFailed):
    """The deadline of a job's caller had passed before it could begin."""

    _text = "expired before it began"


class WorkerLost(JobFailed):
    """The process of a job died, more often than it may be tried again."""

    _text = "was lost with its worker"


class JobsFailed(JobFailed, ExceptionGroup[Exception]):
    """A job has failed of several errors at once, such as those of its sub-jobs.

    Args:
        job: As in ``JobFailed``, also the others.
        name: As there.
        kind: As there.
        reason: As there.
        remote_traceback: As there.
        errors: The errors, each a ``JobFailed``.
    """

    def __new__(
        cls, job: str, name: str, kind: str, reason: str, remote_traceback: str, errors: Sequence[Exception]
    ) -> Self:
        """Make the group, which takes its errors here."""
        return super().__new__(cls, f"{name or 'job'} failed: {reason} (job {job})", errors)

    def __init__(
        self, job: str, name: str, kind: str, reason: str, remote_traceback: str, errors: Sequence[Exception]
    ) -> None:
        super().__init__(job, name, kind, reason, remote_traceback)

    def derive(self, errors: Sequence[Exception], /) -> "JobsFailed":  # type: ignore[override]  # of Exceptions only
        """Make a group of some of the errors, as ``except*`` does."""
        return JobsFailed(self.job, self.name, self.kind, self.reason, self.remote_traceback, errors)

    def __reduce__(self) -> tuple[object, ...]:
        """Make it again with the same arguments."""
        return type(self), (self.job, self.name, self.kind, self.reason, self.remote_traceback, self.exceptions)


class ConfigError(TriomqError):
    """The configuration is wrong; the text names the path, what was found and what is allowed."""


class PipelineError(TriomqError):
    """Spark's source or sink cannot do what was asked; the text names what it is about: option, stream, address."""


class JavaNotFound(PipelineError):
    """No Java on this machine can run Spark; the text says what was found and how to install one."""


class SparkTooOld(PipelineError):
    """The PySpark that is installed lacks what sources in Python need."""


class RecordsLost(PipelineError):
    """Records that a query or a batch was to read were dropped before: by retention, or with their stream."""


class WrongCheckpoint(PipelineError):
    """What stands in a checkpoint is nothing that this version of the source has written."""


class WrongSchema(PipelineError):
    """The columns that were asked for, or are to be written, are not those that there are."""


class TraceLogError(TriomqError):
    """A trace log, or a file of it, cannot be read; the text names it."""


class ReportError(TriomqError):
    """A report of a trace log, or its page, cannot be made; the text says what is missing or cannot be read."""
