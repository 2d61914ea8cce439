"""By what jobs are looked for beside their ids: the unique key that one holds, its parent, its requester."""

from typing import TypeVar

from triomq.endpoints.jobs.job import Job

T = TypeVar("T")

_NOBODY = (b"", 0.0)


class Relations:
    """The relations of a book's jobs; those that have none are not in here."""

    __slots__ = ("_children", "_tied", "_unique")

    def __init__(self) -> None:
        self._unique: dict[str, tuple[bytes, float]] = {}
        self._children: dict[bytes, dict[bytes, int]] = {}
        self._tied: dict[bytes, dict[bytes, None]] = {}

    def enter(self, job: Job, now: float) -> None:
        """Enter a job."""
        terms = job.terms
        if terms.unique:
            self._unique[terms.unique] = (job.id, now)
        if terms.parent[1]:
            self._children.setdefault(terms.parent[0], {})[job.id] = terms.parent[1]
        if terms.tie and job.requester:
            self._tied.setdefault(job.requester, {})[job.id] = None

    def remove(self, job: Job) -> None:
        """Remove a job that has ended; its children have no parent any more."""
        terms = job.terms
        self.free_unique(job)
        if terms.parent[1]:
            _discard(self._children, terms.parent[0], job.id)
        if terms.tie and job.requester:
            _discard(self._tied, job.requester, job.id)

    def free_unique(self, job: Job) -> None:
        """Let another job have a job's unique key."""
        unique = job.terms.unique
        if unique and self._unique.get(unique, _NOBODY)[0] == job.id:
            del self._unique[unique]

    def holder(self, unique: str) -> tuple[bytes, float] | None:
        """Return which job holds a unique key, and since when."""
        return self._unique.get(unique)

    def children(self, parent: bytes, attempt: int) -> list[bytes]:
        """List the children of a job's attempts up to one."""
        found = self._children.get(parent)
        return [child for child, begun in found.items() if begun <= attempt] if found else []

    def orphan(self, parent: bytes) -> None:
        """Forget whose parent a job was."""
        if self._children:
            self._children.pop(parent, None)

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
