"""The tracer: what a log of everything is called with, by whatever knows what has happened.

    queues ─────────▶ queued, handed out, settled, removed        by run or batch
    endpoints ──────▶ entered, left, lost                         by client
    books of jobs ──▶ jobs                                        by run where they come so

- It is called, and not told as observers are, so that it costs no actor's turn. There is one at most, for as long as
  the domain lives (``Directory.tracer``).
- The id that a run begins with is known in its queue alone: where there is a tracer, queues are of a class that calls
  it (``TracedQueue``), and where there is none, not even a test is left.
- Callers know what has happened and nothing of logs; the tracer knows nothing of protocols but their names.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from triomq.actors import Ref
from triomq.core.delivery import Outcome
from triomq.core.message import Head

if TYPE_CHECKING:
    from triomq.core.batch import Batch
    from triomq.core.queue.deadletter import Reason
    from triomq.core.queue.moved import MovedFrom
    from triomq.core.queue.queue_state import QueueState


class JobEvent(Enum):
    """What has happened to a job; the value is the kind of the row."""

    SUBMITTED = "job-submitted"
    STARTED = "job-started"
    PROGRESSED = "job-progressed"
    FINISHED = "job-finished"
    FAILED = "job-failed"
    """For good."""
    RETRIED = "job-retried"
    """An attempt has failed, and there will be another one."""
    TIMED_OUT = "job-timed-out"
    CANCELLED = "job-cancelled"


class Tracer(Protocol):
    """What is called with all that happens, in the very turn; it must not raise, wait, or change anything.

    Ids are those of the messages in their queue.
    """

    # Messages

    def queued(
        self,
        queue: "QueueState",
        first: int,
        head: Head,
        contents: Sequence[bytes],
        heads: Sequence[Head] | None = None,
        moved_from: "MovedFrom | None" = None,
    ) -> None:
        """Record that a queue has stored a run, whose ids follow one another; perhaps one that was elsewhere before."""

    def appended(self, queue: "QueueState", first: int, count: int) -> None:
        """Record that a stream has stored so many records of a chunk, into which nothing looks."""

    def handed_out(self, queue: "QueueState", batch: "Batch") -> None:
        """Record that a batch goes to a consumer, whole."""

    def settled(self, queue: "QueueState", ids: Sequence[int], outcome: Outcome) -> None:
        """Record that deliveries were settled, rejected or requeued."""

    def removed(self, queue: "QueueState", ids: Sequence[int] | None, reason: "Reason | None") -> None:
        """Record that messages have left a queue otherwise; as ``Directory.on_removed`` tells, None for all of them."""

    def traces(self, queue: "QueueState", ids: Sequence[int]) -> Sequence[int]:
        """Return which of some messages are traced: those are traced wherever they go."""

    def ended(self, queue: "QueueState") -> None:
        """Forget a queue, which is deleted."""

    # Clients

    def entered(self, domain: str, session: int, client: Ref | None, protocol: str) -> None:
        """Record by which protocol a session publishes, by its number, and one of its clients consumes."""

    def left(self, client: Ref) -> None:
        """Forget a client."""

    def lost(self, domain: str, session: int, client: Ref, reason: str, unsettled: int) -> None:
        """Record that a client is gone without a word, or silent, and how many deliveries it had."""

    def session_ended(self, domain: str, session: int) -> None:
        """Forget a session, some time later: what it has published may still come into further queues."""

    # Jobs

    def jobs(
        self,
        domain: str,
        queue: str,
        event: JobEvent,
        jobs: Sequence[bytes],
        *,
        attempts: Sequence[int] = (),
        worker: Ref | None = None,
        name_of: Callable[[int], str] | None = None,
        error: str = "",
    ) -> None:
        """Record what has happened to jobs of a queue.

        Args:
            domain: The domain.
            queue: Where their messages are, or were.
            event: What it is.
            jobs: Their ids.
            attempts: Which attempt of each it is; none where there has been none.
            worker: Who has them.
            name_of: Returns what the job at a place of these calls; None where that is not known.
            error: What they have failed of: its type, a colon, and a text.
        """
