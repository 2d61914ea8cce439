"""A job as the book knows it, from acceptance to end."""

from collections.abc import Mapping
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from triomq.endpoints.jobs.terms import PLAIN, Terms

Stage: TypeAlias = Literal["queued", "parked", "running", "cancelling", "cancelled", "expired"]
"""Where a job is in its life.

In its queue, perhaps until a time has come; out of it, waiting for a place of its key; with a worker; with one that was
asked to end it; or, while its message is still in the queue, cancelled or expired.
"""

End: TypeAlias = Literal["ok", "failed", "cancelled", "timed-out", "expired", "lost"]
"""How a job has ended."""

OVER: Final[Mapping[Stage, End]] = {"cancelled": "cancelled", "expired": "expired"}
"""Stages of jobs that have ended and are answered, and whose message is dropped when it comes out."""


class Runner(Protocol):
    """What has jobs that run: a worker's side of a peer."""

    def holds(self, job: "BookedJob") -> bool:
        """Return whether the job is still out with it, unsettled."""

    def cancel(self, job: "BookedJob", grace: float | None) -> bool:
        """Ask the worker to end a job, in so many seconds; return whether it can be asked, and will answer."""


class JobSender(msgspec.Struct, frozen=True, gc=False):
    """Who has sent jobs; the same object for many of them.

    Args:
        user: As whom it was let in.
        identity: Whom to answer; empty if nobody waits for that.
    """

    user: str
    identity: bytes = b""


class BookedJob(msgspec.Struct, eq=False, gc=False):
    """A job; there may be a million, so that it has nothing that most of them do not need.

    Args:
        id: Which its requester has chosen.
        queue: Where its messages are.
        sender: Who has sent it.
        terms: What is asked for it.
        durable: Whether its message is on disk, and what is recorded of it has to be there too.
        due: Unix time before which it does not begin; 0 is at once.
        since: Unix time at which it came to its stage (``Register.moment``); 0 if that was before a restart.
        stage: Where it is.
        attempt: How often it was begun.
        runner: Who has it, as long as it runs.
    """

    id: bytes
    queue: str
    sender: JobSender
    terms: Terms = PLAIN
    durable: bool = False
    due: float = 0.0
    since: float = 0.0
    stage: Stage = "queued"
    attempt: int = 0
    runner: Runner | None = None

    @property
    def user(self) -> str:
        """As whom its requester was let in."""
        return self.sender.user

    @property
    def unique(self) -> str:
        """The unique key by which it is known here, which is its user's unless it is shared; empty for none."""
        return self._scoped(self.terms.unique)

    @property
    def key(self) -> str:
        """The same for what limit and rate count."""
        return self._scoped(self.terms.key)

    def _scoped(self, text: str) -> str:
        if not text:
            return ""
        return f"\0{text}" if self.terms.shared else f"{self.sender.user}\0{text}"

    @property
    def requester(self) -> bytes:
        """Whom to answer; empty if nobody waits for it."""
        return self.sender.identity
