"""Shares: what one user may have of each pool of a domain. This is the one place where they are declared.

    ``Quotas``   what a user has in all domains of a broker, against limits that are set for it
    ``Shares``   what a user has of something that a domain has a bounded amount of, for all of its users

Rules:

- A user may have a part of a pool, never more than half. So one that takes all that it can costs no other user a
  refusal: as much as it has is left to each other, until there are as many such users as there are parts.
- The program itself, which has no name, may have all of it.
- A pool whose things give way to newer ones refuses nobody: there what goes is of the user that has most.
- What a restart brings back is counted, and never refused.
"""

from collections import Counter
from typing import Final

import msgspec

from triomq.errors import LimitExceeded


class Pool(msgspec.Struct, frozen=True):
    """Something that a domain, or an endpoint, has a bounded amount of.

    Args:
        name: What is counted, in the plural.
        most: How much there is, unless whoever asks knows better.
        part: A user may have the so-manieth part of it.
        advice: What to do when there is no more.
        gives_way: Whether older ones give way to newer ones, so that nothing is refused.
    """

    name: str
    most: int
    part: int = 4
    advice: str = ""
    gives_way: bool = False

    def share(self, most: int | None = None) -> int:
        """Return how much a user may have."""
        return max(1, (self.most if most is None else most) // self.part)


_MIB: Final = 1 << 20

STAGED: Final = Pool(
    "bytes that are staged", 256 * _MIB, 2, "commit smaller batches, or wait until others are committed"
)
"""Of batches that wait for their commit (``core.streams.staging``). Half of it is two of the largest batches."""

WRITERS: Final = Pool(
    "writers that have committed within a week", 10_000, 4, "use the name of a writer for all runs of its query"
)
"""Each has a record on disk and in memory."""

LEDGERS: Final = Pool(
    "groups that have leased messages and not acknowledged all", 1_000, 4, "use one group for all runs of a job"
)
"""Each is an actor, and a row in the store."""

GROUPS: Final = Pool(
    "positions of groups in streams", 100_000, 4, "have groups forgotten that are not used any more (`triomq forget`)"
)
"""Of a partitioned stream a group has one in each partition. Each is a record, and some 500 bytes in memory."""

PUBLISHERS: Final = Pool("numbered publishers of a stream", 1_000, 2, gives_way=True)
"""Each is a record on disk, and some 200 bytes in memory."""

SCHEDULES: Final = Pool("schedules", 40_000, 4, "end some of them first")
"""Each is a timer, and a record that is written at each tick."""

UNIQUE_KEYS: Final = Pool("unique keys of jobs that have not ended", 400_000, 4, "wait until some have ended")
"""Each is a record on disk, and some 1.6 KB in memory with its job."""

PARKED: Final = Pool("bytes of jobs that wait for a place of their key", 256 * _MIB, 4, gives_way=True)
"""They are in memory, wherever their queues' other messages are; what is more stays in its queue."""

RESULTS: Final = Pool("bytes of results that are kept", 64 * _MIB, 4, gives_way=True)
"""What a broker can have in memory beside its messages, if it has no store; with one, they are on disk."""

SESSIONS: Final = Pool("sessions of an MTL endpoint", 10_000, 4, "close sessions that are not used")
"""``MTL.most_sessions`` says how many there are."""

POOLS: Final = (STAGED, WRITERS, LEDGERS, GROUPS, PUBLISHERS, SCHEDULES, UNIQUE_KEYS, PARKED, RESULTS, SESSIONS)
"""All of them. A test takes all that one user can of each, and sees that another one is refused nothing."""


class ShareReached(LimitExceeded):
    """A user has its share of a pool, or nothing is left of that."""


class Shares:
    """What users have of pools; part of a domain's directory, which it outlives the domain's incarnations with."""

    __slots__ = ("_counts", "_totals")

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._totals: Counter[str] = Counter()

    def count(self, pool: Pool, user: str) -> int:
        """Return what a user has."""
        return self._counts[pool.name, user]

    def total(self, pool: Pool) -> int:
        """Return what all have."""
        return self._totals[pool.name]

    def has_room(self, pool: Pool, user: str, more: int = 1, *, most: int | None = None) -> bool:
        """Return whether a user may have so much more; the arguments are those of ``require``."""
        whole = pool.most if most is None else most
        if self._totals[pool.name] + more > whole:
            return False
        return not user or self._counts[pool.name, user] + more <= pool.share(most)

    def require(self, pool: Pool, user: str, more: int = 1, *, most: int | None = None) -> None:
        """Require that a user may have so much more.

        Args:
            pool: Of what.
            user: The user's name; empty for the program itself.
            more: How much.
            most: How much there is, if that is not as the pool says.

        Raises:
            ShareReached: It may not.
        """
        if self.has_room(pool, user, more, most=most):
            return
        whole, share, count = pool.most if most is None else most, pool.share(most), self._counts[pool.name, user]
        if user and count + more > share:
            found = f"user {user!r} has {count} {pool.name}, and its share is {share} of {whole}"
        else:
            found = f"there are {self._totals[pool.name]} {pool.name}, and {whole} are all that can be"
        raise ShareReached(f"{found}; {pool.advice}")

    def take(self, pool: Pool, user: str, more: int = 1) -> None:
        """Count so much more."""
        self._totals[pool.name] += more
        self._counts[pool.name, user] += more

    def give(self, pool: Pool, user: str, less: int = 1) -> None:
        """Count so much less."""
        self._totals[pool.name] -= less
        left = self._counts[pool.name, user] - less
        if left > 0:
            self._counts[pool.name, user] = left
        else:
            del self._counts[pool.name, user]
