"""A job that is out with a worker."""

from typing import Final

import msgspec

from triomq.core import Batch
from triomq.endpoints.emqp.content import Origin
from triomq.endpoints.jobs import BookedJob
from triomq.protocols.emqp import Extension, Headers

_FAILED: Final = ("failed", "timed-out", "lost")
"""States of a job that is worth another attempt; released workers name none."""


class DispatchedJob(msgspec.Struct, eq=False):
    """A REQUEST that is out with a worker.

    Args:
        batch: The batch that it came in.
        position: Where in it.
        request: What the requester calls it.
        headers: What the requester wants.
        replying: The same, as the worker gets it.
        given: When the worker got it, on Trio's clock.
        origin: Whom to answer, and what else all jobs have that came as it did; None if it came over another wire.
        timeout: Seconds that it may take; 0 is without limit.
        reply_to: With another wire: where the answer goes, empty for nowhere.
        correlation_id: With that: what is to stand on it.
        entry: The job in the book; None if it is in none.
        attempt: With that: which of its attempts this is.
        deadline: With that: Unix time after which nobody waits for it; 0 is never.
        priority: With another wire: what its publisher has given it, if anything.
    """

    batch: Batch
    position: int
    request: bytes
    headers: Headers
    replying: bytes
    given: float
    origin: Origin | None
    timeout: float = 0.0
    reply_to: str = ""
    correlation_id: str | None = None
    entry: BookedJob | None = None
    attempt: int = 0
    deadline: float = 0.0
    priority: int | None = None

    @property
    def may_be_repeated(self) -> bool:
        """Whether it may be given to another worker."""
        return self.origin is None or self.headers.guarantee or self.has_retries

    @property
    def has_retries(self) -> bool:
        return self.batch.attempts < self.headers.retry_count

    def may_be_tried_again(self, reply: Extension) -> bool:
        """Whether an answer says that the job has failed, and it is to be tried again for that."""
        failed = reply.state in _FAILED and reply.retry is not False
        return failed and self.origin is not None and self.has_retries
