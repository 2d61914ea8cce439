"""What a requester asks for a job, beside what is to be called: no wire's words, so that every wire may have jobs."""

from typing import Final

import msgspec

FIRST_PAUSE: Final = 1.0
"""Seconds before the second attempt: what a service needs to be restarted, or a connection to be made again."""

LONGEST_PAUSE: Final = 600.0
"""Seconds between two attempts at most."""


class Terms(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked for a job; a job that asks for nothing has ``PLAIN``, the same object for all.

    Args:
        deadline: Unix time after which it is not begun any more; 0 is never.
        retries: How often it is tried again when it has failed.
        backoff: Seconds before the second attempt, and the most between two.
        parent: The job that has sent it, and the attempt of that; empty and 0 for none.
        unique: Of all jobs of a user with this text only one is there at a time; empty for none.
        key: What limit and rate count, of the jobs of a user; empty for none.
        limit: How many jobs of the key run at a time; 0 is without limit.
        rate: How many jobs of the key begin in a second; 0 is without limit.
        tie: Whether it is cancelled when its requester leaves.
        shared: Whether ``unique`` and ``key`` are those of all users that say so, and not its own user's.
    """

    deadline: float = 0.0
    retries: int = 0
    backoff: tuple[float, float] = (FIRST_PAUSE, LONGEST_PAUSE)
    parent: tuple[bytes, int] = (b"", 0)
    unique: str = ""
    key: str = ""
    limit: int = 0
    rate: float = 0.0
    tie: bool = False
    shared: bool = False

    def pause_after(self, attempt: int, chance: float) -> float:
        """Return how many seconds a job waits after an attempt: doubled each time, a random half of it left out.

        Args:
            attempt: The one that has failed, 1 for the first.
            chance: From 0 to 1: jobs that have failed together are not to come back together.
        """
        first, most = self.backoff
        return max(_SHORTEST_PAUSE, min(most, first * 2.0 ** min(attempt - 1, 32)) * (1 + chance) / 2)


_SHORTEST_PAUSE: Final = 0.001
"""Seconds: a message without any delay could be refused by a queue that is full; one that waits has its place."""

PLAIN: Final = Terms()
