"""What users have at once, counted against their limits."""

from collections import Counter
from collections.abc import Callable

from triomq.security.user import User

__all__ = ["Presence"]


class Presence:
    """How many connections, channels and queues each user has; made with the broker, told by its endpoints."""

    def __init__(self) -> None:
        """Start with nobody here."""
        self.connections: Counter[str] = Counter()
        self.channels: Counter[str] = Counter()
        self._queues: dict[str, list[Callable[[], bool]]] = {}

    def has_room(self, user: User, what: str) -> bool:
        """Tell whether one more of ``"connections"``, ``"channels"`` or ``"queues"`` is within the user's limit."""
        limit: int | None = getattr(user.limits, what)
        return limit is None or self._count(user.name, what, limit) < limit

    def _count(self, name: str, what: str, limit: int) -> int:
        if what != "queues":
            counter: Counter[str] = getattr(self, what)
            return counter[name]
        queues = self._queues.get(name, [])
        if len(queues) >= limit:
            queues[:] = [exists for exists in queues if exists()]
        return len(queues)

    def come(self, name: str) -> None:
        """Count a connection."""
        self.connections[name] += 1

    def go(self, name: str) -> None:
        """Count a connection no longer."""
        _less(self.connections, name)

    def open_channel(self, name: str) -> None:
        """Count a channel."""
        self.channels[name] += 1

    def close_channel(self, name: str) -> None:
        """Count a channel no longer."""
        _less(self.channels, name)

    def declare_queue(self, user: User, exists: Callable[[], bool]) -> None:
        """Count a queue, as long as it exists; of users without a limit none is counted.

        Args:
            user: Who has declared it.
            exists: Tells whether it still exists.
        """
        if user.limits.queues is not None:
            self._queues.setdefault(user.name, []).append(exists)


def _less(counter: Counter[str], name: str) -> None:
    counter[name] -= 1
    if counter[name] <= 0:
        del counter[name]
