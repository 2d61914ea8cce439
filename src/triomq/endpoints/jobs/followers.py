"""Who wants to know what becomes of a job, beside its requester: peers that have asked for its state."""

from typing import Protocol

from triomq.endpoints.jobs.job import BookedJob, End


class Follower(Protocol):
    """Who follows jobs."""

    def changed(self, job: BookedJob, end: End | None, answer: object) -> None:
        """Hear that a job is somewhere else now, or has ended, with what its worker has said, if it has."""


class Followers:
    """The followers of a book's jobs; there is nobody in here for most of them."""

    __slots__ = ("by_job",)

    def __init__(self) -> None:
        self.by_job: dict[bytes, dict[Follower, None]] = {}
        """By the id of a job; who looks whether there are any saves a call for each job that has none."""

    def add(self, job: bytes, follower: Follower) -> None:
        """Tell somebody of every change of a job from now on, up to its end."""
        self.by_job.setdefault(job, {})[follower] = None

    def remove(self, job: bytes, follower: Follower) -> None:
        """Tell somebody nothing more of a job."""
        found = self.by_job.get(job)
        if found is not None:
            found.pop(follower, None)
            if not found:
                del self.by_job[job]

    def tell(self, job: BookedJob, end: End | None = None, answer: object = None, *, failed: End | None = None) -> None:
        """Tell of a change; after an end nobody follows the job any more.

        Args:
            job: The job.
            end: How it has ended; None if it has not.
            answer: What its worker has said of that, or of the attempt.
            failed: How an attempt has ended after which there is another one.
        """
        found = self.by_job.get(job.id) if end is None else self.by_job.pop(job.id, None)
        for follower in list(found or ()):
            follower.changed(job, end, answer)
