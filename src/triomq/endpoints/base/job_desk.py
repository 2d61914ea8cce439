"""Where one who looks into the broker finds a domain's jobs; what wire they came over is the business of who is asked.

Whoever has jobs puts a ``JobDesk`` into the context, by the domain's name.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from triomq.actors import Ref
from triomq.core import Browse, Entry, Publisher

Browser: TypeAlias = Callable[[Ref, Browse], Sequence[Entry]]
"""Asks a queue for messages that are ready; raises ``Restarting`` while they are read from the disk."""


class FoundJob(msgspec.Struct, frozen=True):
    """A job that has not ended.

    Args:
        cursor: Behind which a list goes on.
        id: Its id.
        queue: Where its message is, or was.
        state: Where it is in its life: running, cancelling, parked, waiting or delayed.
        attempt: How often it was begun.
        user: Who has sent it; empty if that is not known.
        payload: What is to be called, as it came.
        due: Seconds until it may begin.
    """

    cursor: str
    id: str
    queue: str
    state: str
    attempt: int
    user: str
    payload: bytes
    due: float = 0.0


class DeadJob(msgspec.Struct, frozen=True):
    """A job that has failed for good, whole: to be sent again too.

    What a listing shows of it, without payload and traceback and as text that any terminal takes, is ``DeadJobRecord``
    of ``protocols.control``: the answer of a wire, of which an owner of jobs knows nothing.

    Args:
        place: Its message's number in the queue of dead letters, the oldest first.
        id: Its id.
        queue: Where it was.
        state: How it has ended: failed, timed-out or lost.
        attempts: How often it was begun.
        user: Who had sent it.
        payload: What was to be called, as it came.
        type: The class of its error.
        message: The text of that.
        traceback: Where that came from.
        time: When it has ended, in Unix time.
        properties: What else its message has, for whom it belongs to.
    """

    place: int
    id: str
    queue: str
    state: str
    attempts: int
    user: str
    payload: bytes
    type: str
    message: str
    traceback: str
    time: float
    properties: bytes


class JobCounts(msgspec.Struct, frozen=True):
    """How the jobs of a domain do.

    Args:
        running: How many are with workers.
        parked: How many wait for a place of their key.
        dead: How many dead letters there are.
        happened: How often what has happened since the broker was opened: ends by their names, ``retried``, ``late``.
    """

    running: int
    parked: int
    dead: int
    happened: dict[str, int]


class JobDesk(Protocol):
    """The jobs of one domain, as somebody from outside may look at them."""

    dead_letters: str
    """The queue of jobs that have failed for good."""

    def name_of(self, payload: bytes) -> str:
        """Return what a payload calls; an empty text if that cannot be said."""

    def arguments_of(self, payload: bytes) -> dict[str, object]:
        """Return the arguments in a payload: ``args`` and ``kwargs``."""

    def counts(self) -> JobCounts:
        """Return how the jobs do."""

    def unended(self, browse: Browser, after: str = "", queue: str = "") -> Iterator[FoundJob]:
        """Yield jobs that have not ended, those first that are out of their queues.

        Args:
            browse: Asks a queue for messages.
            after: A cursor, behind which the list goes on.
            queue: Only those of this queue; empty for all.
        """

    def dead(self, browse: Browser, after: int = 0) -> Iterator[DeadJob]:
        """Yield jobs that have failed for good, the oldest first."""

    def summary(self, job: str) -> FoundJob | None:
        """Return what is known of a job without its message, also how it has ended if it did so lately."""

    def cancel(self, browse: Browser, job: str, may: Callable[[str], None], *, tree: bool) -> bool:
        """End a job, with its children if that is wanted; return whether it has ended already.

        Args:
            browse: Asks a queue for messages.
            job: Its id.
            may: Called with the user whose job it is; raises if it is not to be cancelled.
            tree: Whether its children are to end at once too.

        Raises:
            NotFound: There is none of this id, or it cannot be cancelled.
        """

    def send_again(self, dead: DeadJob, publisher: Publisher) -> str:
        """Publish a dead job anew, and return its new id.

        Raises:
            NotFound: Its queue is not there any more.
            LimitExceeded: There is no room for it now.
            Refused: It may not be published.
        """
