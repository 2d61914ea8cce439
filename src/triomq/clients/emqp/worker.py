"""A worker of an eMQP broker: it says how many jobs it has room for, takes them, and answers each."""

from collections.abc import Mapping, Sequence
from typing import Self

import msgspec
import trio

from triomq.clients.emqp.connector import EMQPConnector
from triomq.clients.emqp.link import EMQPLink
from triomq.protocols.emqp import (
    DisconnectAsked,
    Event,
    Extension,
    Opened,
    PeerLeaving,
    Requested,
    Silent,
    Unknown,
    WeightedQueue,
)

_WEIGHT = 10
"""Of a queue without one, as released workers have it."""


class EMQPJob:
    """A job that a worker has; made by ``EMQPWorker``, ends with ``reply`` or ``fail``.

    Args:
        worker: The worker.
        event: What came.
    """

    __slots__ = ("_event", "_worker", "answered")

    def __init__(self, worker: "EMQPWorker", event: Requested) -> None:
        self._worker = worker
        self._event = event
        self.answered = False

    @property
    def queue(self) -> str:
        """The queue that its requester named."""
        return self._event.queue

    @property
    def message(self) -> bytes:
        """What is to be done."""
        return self._event.message

    @property
    def id(self) -> bytes:
        """Its id, which its requester made."""
        return self._event.msgid

    @property
    def timeout(self) -> float:
        """Seconds that it may take; 0 is without limit."""
        return self._event.headers.timeout

    @property
    def attempt(self) -> int:
        """How often it was begun, this time included; 0 with a broker that does not say."""
        return self._event.extension.attempt

    def reply(self, message: bytes = b'{"value": true}') -> None:
        """Answer it, and take another job.

        Args:
            message: JSON in UTF-8, such as ``{"value": 5}``, where the broker or the requester is a released program.

        Raises:
            LocalProtocolError: The broker cannot be sent such a message.
        """
        self._worker.answer(self, message, Extension(state="ok", attempt=self.attempt))

    def fail(self, error: BaseException, *, retry: bool = True) -> None:
        """Answer that it has failed; a broker with our extensions tries it again, if its headers say so.

        Args:
            error: Why.
            retry: Whether another attempt is worth while.
        """
        message = msgspec.json.encode({"value": str(error)})
        name = type(error).__name__
        self._worker.answer(
            self,
            message,
            Extension(state="failed", attempt=self.attempt, type=name, message=str(error)[:1000], retry=retry),
        )


class EMQPWorker:
    """A worker's conversation with a broker; made by ``open_emqp_worker``, ends with its block.

    ``async for job in worker`` yields jobs, never more at a time than it has slots; several tasks may do so. When the
    network or the broker was away it goes on by itself. What it had then may have been given to another worker: its
    answer is dropped.

    Args:
        connector: Where to, and as whom.
        queues: From which it takes jobs; with weights, if they differ.
        slots: How many jobs it may have at a time.
    """

    def __init__(self, connector: EMQPConnector, queues: Sequence[str] | Mapping[str, int], slots: int = 1) -> None:
        weights = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, _WEIGHT)
        self._slots = slots
        self._jobs: set[EMQPJob] = set()
        self._offered = 0  # slots that the broker knows of
        self._sender, self._receiver = trio.open_memory_channel[EMQPJob](slots)
        named = tuple(WeightedQueue(weight, name) for name, weight in weights.items())
        self._link = EMQPLink(connector, "worker", self._heard, queues=named)
        self.is_leaving = False
        """Whether the broker has said goodbye, and no job will come before it is back."""

    async def start(self, nursery: trio.Nursery) -> None:
        """Connect; raises as ``EMQPLink.start`` does."""
        await self._link.start(nursery)

    async def close(self) -> None:
        """Say goodbye; jobs that are not answered go to other workers, if they have a guarantee."""
        await self._link.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EMQPJob:
        return await self._receiver.receive()

    def answer(self, job: EMQPJob, message: bytes, extension: Extension) -> None:
        """Answer a job, and offer its slot; a second answer to the same one does nothing."""
        if job.answered:
            return
        self._link.engine.reply(job.id, message, extension)
        job.answered = True
        if job in self._jobs:
            self._jobs.discard(job)
            self._offer()
        self._link.flush()

    def _offer(self) -> None:
        """Tell the broker of the slots that it does not know of."""
        free = self._slots - len(self._jobs) - self._offered
        if free > 0 and self._link.engine.state == "open":
            self._offered += free
            self._link.engine.ready(free)

    def _heard(self, event: Event) -> None:
        match event:
            case Requested():
                self._requested(event)
            case Opened():
                self.is_leaving = False
                self._offered = 0
                self._offer()
            case Unknown() | Silent():
                self._offered = 0
            case PeerLeaving() | DisconnectAsked():
                self.is_leaving = True
            case _:
                pass

    def _requested(self, event: Requested) -> None:
        self._offered = max(0, self._offered - 1)
        job = EMQPJob(self, event)
        self._jobs.add(job)
        try:
            self._sender.send_nowait(job)
        except trio.WouldBlock:  # the broker sends more than it was asked for
            self._jobs.discard(job)
