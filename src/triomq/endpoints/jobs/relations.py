"""By what jobs are looked for beside their ids: the unique key that one holds, its parent, its requester."""

from typing import TypeVar

from triomq.core import UNIQUE_KEYS, Shares
from triomq.endpoints.jobs.job import BookedJob

T = TypeVar("T")

_NOBODY = (b"", 0.0)


class Relations:
    """The relations of a book's jobs; those that have none are not in here.

    Args:
        shares: Counts who holds unique keys.
    """

    __slots__ = ("_shares", "_tied", "_unique", "children")

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._unique: dict[str, tuple[bytes, float]] = {}
        self.children: dict[bytes, dict[bytes, int]] = {}
        """Those of each parent, with the attempt in which it has sent them."""
        self._tied: dict[bytes, dict[bytes, None]] = {}

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._unique or self.children or self._tied)

    def enter(self, job: BookedJob, now: float) -> None:
        """Enter a job."""
        terms = job.terms
        if terms.unique and job.unique not in self._unique:
            self._unique[job.unique] = (job.id, now)
            self._shares.take(UNIQUE_KEYS, job.user)
        if terms.parent[1]:
            self.children.setdefault(terms.parent[0], {})[job.id] = terms.parent[1]
        if terms.tie and job.requester:
            self._tied.setdefault(job.requester, {})[job.id] = None

    def remove(self, job: BookedJob) -> None:
        """Remove a job that has ended."""
        terms = job.terms
        self.free_unique(job)
        if terms.parent[1]:
            _discard(self.children, terms.parent[0], job.id)
        if terms.tie and job.requester:
            _discard(self._tied, job.requester, job.id)

    def free_unique(self, job: BookedJob) -> None:
        """Let another job have a job's unique key."""
        unique = job.unique
        if unique and self._unique.get(unique, _NOBODY)[0] == job.id:
            del self._unique[unique]
            self._shares.give(UNIQUE_KEYS, job.user)

    def holder(self, job: BookedJob) -> tuple[bytes, float] | None:
        """Return which job holds a job's unique key, and since when."""
        return self._unique.get(job.unique)

    def require_room(self, job: BookedJob) -> None:
        """Require that the user of a job may hold one more unique key.

        Raises:
            ShareReached: It may not.
        """
        if job.unique not in self._unique:
            self._shares.require(UNIQUE_KEYS, job.user)

    def children_of(self, parent: bytes, attempt: int) -> list[bytes]:
        """List the children of a job's attempts up to one."""
        found = self.children.get(parent)
        return [child for child, begun in found.items() if begun <= attempt] if found else []

    def tied_to(self, requester: bytes) -> list[bytes]:
        """List the jobs that are tied to a requester."""
        return list(self._tied.get(requester, ()))


def _discard(table: dict[bytes, dict[bytes, T]], name: bytes, job: bytes) -> None:
    """Remove a job from a table of tables, which has no empty ones."""
    found = table.get(name)
    if found is not None:
        found.pop(job, None)
        if not found:
            del table[name]
