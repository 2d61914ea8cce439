"""What the book answers."""

from typing import Final

import msgspec

from triomq.endpoints.jobs.job import End

_DEAD: Final = ("failed", "timed-out", "lost")
"""Ends after which somebody may want to look at a job, and to requeue it."""


class Standing(msgspec.Struct, frozen=True, gc=False):
    """Why a job is not entered: this one is there, in its place.

    Args:
        job: The id of the one that is there, which may be the same.
        end: How it has ended; None if it has not.
    """

    job: bytes
    end: End | None


class Fate(msgspec.Struct, frozen=True, gc=False):
    """What becomes of a job after an attempt; of one that was not the present one nothing does.

    Args:
        again_after: Seconds until the next attempt; None if there is none.
        end: How the job has ended, if it has.
        is_dead: Whether its message is to become a dead letter.
    """

    again_after: float | None = None
    end: End | None = None
    is_dead: bool = False


LATE: Final = Fate()

REQUEUED: Final = Fate(again_after=0.0)

ENDS: Final[dict[End, Fate]] = {
    end: Fate(end=end, is_dead=end in _DEAD) for end in ("ok", "failed", "cancelled", "timed-out", "expired", "lost")
}


class JobSummary(msgspec.Struct, frozen=True, gc=False):
    """Where a job is: a ``Stage``, ``delayed``, or an ``End``; of one that has ended only that is known.

    Args:
        id: Its id.
        state: Where it is.
        attempt: How often it was begun.
        queue: Where its messages are.
        user: As whom its requester was let in.
        due: Unix time before which it does not begin; 0 is at once.
        since: Unix time at which it came there; 0 if that is not known.
    """

    id: bytes
    state: str
    attempt: int = 0
    queue: str = ""
    user: str = ""
    due: float = 0.0
    since: float = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.state in ENDS
