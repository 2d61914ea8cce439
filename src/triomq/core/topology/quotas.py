"""What users have at once in all domains of a broker, counted against their limits.

The counts stand beside the directories, and a domain asks them for whatever a session of a user makes, so that no
protocol has to. Sessions of no user, which are the program's own, are neither counted nor limited. What a restart or a
file of definitions brings back is never refused.
"""

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

import msgspec

from triomq.checked import Checked
from triomq.errors import PreconditionFailed

Resource: TypeAlias = Literal["connections", "channels", "queues", "sinks", "bindings", "steps"]
"""What is counted. Steps are what bindings can cost a single publish at worst, see ``SinkState.weight``."""

MOST_STEPS = 90_000
"""Steps of all bindings of a user, in all sinks, which may lead to each other: a publish through all of them takes some
15 ms. A user without a limit of bindings has no limit of these.
"""


class DomainLimits(Checked, frozen=True, forbid_unknown_fields=True):
    """What a domain may have at once, whoever made it.

    Args:
        connections: Connections of clients; None for any number.
        queues: Queues; None for any number. Those that are there already stay.
    """

    connections: Annotated[int, msgspec.Meta(ge=0)] | None = None
    queues: Annotated[int, msgspec.Meta(ge=0)] | None = None


class UserLimitReached(PreconditionFailed):
    """The user has as many of something as it may have.

    Args:
        what: What cannot be done, such as ``declare queue 'q'``.
        user: The user's name.
        resource: What it has too many of.
        limit: How many it may have.
    """

    def __init__(self, what: str, user: str, resource: Resource, limit: int) -> None:
        kind = "routing step" if resource == "steps" else resource.removesuffix("s")
        super().__init__(f"cannot {what}: {kind} limit of user {user!r} ({limit}) is reached")


def _unlimited(user: str, resource: Resource) -> int | None:
    """Return no limit."""
    return None


class Quotas:
    """Counts of what users have; created with a broker, shared by its domains and endpoints.

    Args:
        limit_of: Returns how much of something a user may have; None is no limit.
    """

    def __init__(self, limit_of: Callable[[str, Resource], int | None] = _unlimited) -> None:
        self.limit_of = limit_of
        self._counts: Counter[tuple[str, Resource]] = Counter()

    def limit(self, user: str, resource: Resource) -> int | None:
        """Return a limit; None if there is none."""
        if not user:
            return None
        if resource == "steps":
            return None if self.limit_of(user, "bindings") is None else MOST_STEPS
        return self.limit_of(user, resource)

    def count(self, user: str, resource: Resource) -> int:
        """Return what a user has."""
        return self._counts[user, resource]

    def has_room(self, user: str, resource: Resource, more: int = 1) -> bool:
        """Return whether so much more is within a user's limit."""
        limit = self.limit(user, resource)
        return limit is None or self._counts[user, resource] + more <= limit

    def require(self, what: str, user: str, resource: Resource, more: int = 1) -> None:
        """Check that so much more is within a user's limit.

        Args:
            what: What is to be done, for the text.
            user: The user's name; empty for the program itself.
            resource: What there will be more of.
            more: How much.

        Raises:
            UserLimitReached: It is not.
        """
        if not self.has_room(user, resource, more):
            limit = self.limit(user, resource)
            assert limit is not None
            raise UserLimitReached(what, user, resource, limit)

    def take(self, user: str, resource: Resource, more: int = 1) -> None:
        """Count so much more."""
        if user:
            self._counts[user, resource] += more

    def give(self, user: str, resource: Resource, less: int = 1) -> None:
        """Count so much less."""
        if user:
            left = self._counts[user, resource] - less
            if left > 0:
                self._counts[user, resource] = left
            else:
                del self._counts[user, resource]
