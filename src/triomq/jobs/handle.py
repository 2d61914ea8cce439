"""A job that was sent: its id, how far it is, what comes of it."""

from collections.abc import AsyncIterator, Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast, overload

import msgspec

from triomq.errors import JobError, WrongResult
from triomq.jobs import link as trio_side
from triomq.jobs.arguments import from_wire
from triomq.jobs.definition import JobDefinition
from triomq.jobs.failures import error_of
from triomq.jobs.link import JobLink

if TYPE_CHECKING:
    from triomq.clients import EMQPReply, EMQPRequest
    from triomq.protocols.emqp import JobState

R = TypeVar("R", covariant=True)
T = TypeVar("T")
V = TypeVar("V")

_decode: Final = msgspec.json.Decoder().decode


class _Result(msgspec.Struct):
    value: object


_decode_result: Final = msgspec.json.Decoder(_Result).decode


class Job(Generic[R]):
    """A job that is with a broker; returned by ``send`` and ``map``, or by ``Jobs.handle`` for one of others.

    Args:
        link: The way to the broker.
        job: Its id.
        definition: What is called, if that is known here.
        request: What its answer comes to; None for a job of others.
    """

    __slots__ = ("__weakref__", "_definition", "id", "link", "request")

    def __init__(
        self, link: JobLink, job: bytes, definition: JobDefinition | None = None, request: "EMQPRequest | None" = None
    ) -> None:
        self.id = job.decode()
        """By which the broker knows it, and ``triomq jobs show`` finds it."""
        self.link = link
        """The way to its broker."""
        self._definition = definition
        self.request = request
        """What its answer comes to, in the connection's Trio run; None for a job of others."""

    def __repr__(self) -> str:
        """Show name and id."""
        return f"<Job {self.name} {self.id}>"

    def __await__(self) -> Generator[object, object, R]:
        """Raise: what is awaited is its result."""
        raise TypeError("a job is not awaited itself; write `await job.result()`")

    @property
    def name(self) -> str:
        """What is called; empty if that is not known here."""
        return "" if self._definition is None else self._definition.name

    @property
    def is_duplicate(self) -> bool:
        """Whether it was there already, of the same ``unique`` text, when it was sent."""
        return self.request is not None and self.request.duplicate_of == self._bytes

    @property
    def is_own(self) -> bool:
        """Whether it was sent by this handle's connection, to which its answer and its progress go."""
        return self.request is not None and not self.is_duplicate

    @property
    def _bytes(self) -> bytes:
        return self.id.encode()

    async def result(self) -> R:
        """Wait until it has ended, and return what its function returned; cancelling this does not cancel the job.

        A job of others, and a duplicate, has a result if its sender asked for that (``keep=``), or if it ends now.

        Raises:
            JobFailed: It has ended without a result: ``JobTimedOut``, ``JobCancelled``, ``JobExpired``, ``WorkerLost``,
                ``JobsFailed`` of a group, or its function has raised; the remote traceback stands below.
            WrongResult: The result is not what the annotation says.
            NoSuchJob: There is none of that id, or nothing is known of it any more.
            ResultNotKept: It has ended, and its result went to its sender alone.
            Disconnected: The connection was closed.
        """
        return self.outcome(await self.link.run(self.answer))

    async def answer(self) -> "EMQPReply":
        """Wait for the answer, in the connection's Trio run; raises as ``result`` does, but for what it says."""
        if self.request is None or self.is_duplicate:
            return await trio_side.follow(self.link.connection, self._bytes)
        return await self.request.reply()

    def answer_now(self) -> "EMQPReply | None":
        """Return the answer if it is here: who waits for many jobs is spared a turn of the loop for each."""
        return self.request.answer if self.request is not None else None

    def outcome(self, reply: "EMQPReply") -> R:
        """Return the result that an answer carries, or raise the error."""
        extension = reply.extension
        if extension.state not in ("ok", ""):
            self.link.raised(self.id)
            raise error_of(self.id, self.name, extension, reply.message)
        if self._definition is not None:
            return cast("R", self._definition.decode_result(reply.message))
        try:
            return cast("R", _decode_result(reply.message).value)
        except msgspec.MsgspecError as error:
            raise WrongResult(f"the result of job {self.id} cannot be read: {error}") from None

    async def state(self) -> "JobState":
        """Ask how it is: ``waiting``, ``delayed``, ``parked``, ``running``, how it has ended, or ``unknown``."""
        return await self.link.run(partial(trio_side.state_of, self.link.connection, self._bytes))

    async def cancel(self, *, grace: float | None = None) -> bool:
        """Cancel it and the jobs that it has sent; return whether it had not ended yet.

        One that waits is gone at once. One that runs is cancelled by Trio if its function is async, notified
        otherwise, and its process ended if it does not stop in time; ``result`` raises ``JobCancelled`` then.

        Args:
            grace: Seconds that it may take to stop; its worker's own if None.
        """
        return await self.link.run(partial(trio_side.cancel, self.link.connection, self._bytes, grace))

    @overload
    def progress(self) -> AsyncIterator[Any]: ...
    @overload
    def progress(self, kind: type[V]) -> AsyncIterator[V]: ...
    def progress(self, kind: object = Any) -> AsyncIterator[object]:
        """Iterate over what it reports by ``current_job().progress(…)``, until it has ended; a slow reader misses some.

        Args:
            kind: To what each value is converted.

        Raises:
            JobError: It was sent by others, to whom its progress goes.
            WrongResult: A value is of another kind.
        """
        if self.request is None or self.is_duplicate:
            raise JobError(
                f"the progress of job {self.id} goes to its sender; here `state()` and `result()` can be asked"
            )
        read = _decode if kind is Any else msgspec.json.Decoder(kind, dec_hook=from_wire).decode
        return _Values(self.link, self.request.values(), read)

    def items(self) -> AsyncIterator[object]:
        """Iterate over the items of a stream, until it has ended; ``result`` says how."""
        assert self.request is not None
        assert self._definition is not None
        return _Values(self.link, self.request.items(), self._definition.decode_item)

    async def close(self) -> None:
        """Cancel it unless it has ended, even in a task that is cancelled, waiting for a second at most."""
        if self.request is None or not self.request.is_over:
            await self.link.run(partial(trio_side.cancel_now, self.link.connection, self._bytes))


class _Values(AsyncIterator[T], Generic[T]):
    """Values that come one by one from the connection's Trio run."""

    def __init__(self, link: JobLink, values: AsyncIterator[bytes], read: Callable[[bytes], T]) -> None:
        self._link = link
        self._values = values
        self._read = read

    async def __anext__(self) -> T:
        value = await self._link.run(self._values.__anext__)
        try:
            return self._read(value)
        except msgspec.MsgspecError as error:
            raise WrongResult(f"{value!r:.80} was reported, which is of another kind: {error}") from None


class JobStream(AsyncIterator[T], Generic[T]):
    """The items of a job; made by ``stream`` of a function that is a generator, ends with its block."""

    def __init__(self, job: Job[None]) -> None:
        self.job = job
        """The job whose items they are."""
        self._items = job.items()

    async def __anext__(self) -> T:
        """Wait for the next item.

        Raises:
            StopAsyncIteration: The generator has ended.
            JobFailed: It has failed.
            WrongResult: The item is not what the annotation says.
        """
        try:
            return cast("T", await self._items.__anext__())
        except StopAsyncIteration:
            await self.job.result()
            raise
