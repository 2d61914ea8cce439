"""A queue that was declared."""

from collections.abc import Callable


class DeclaredQueue:
    """What declaring a queue gives; every method of a channel that wants a queue takes this or a name.

    A queue that the broker has named is another one after a reconnect, with another name: ``name`` says which.
    """

    __slots__ = ("_current", "_name", "consumer_count", "message_count")

    def __init__(self, name: str, message_count: int, consumer_count: int, current: Callable[[str], str]) -> None:
        self._name = name
        self._current = current
        self.message_count = message_count
        """Messages that were ready when it was declared."""
        self.consumer_count = consumer_count
        """Consumers that it had then."""

    @property
    def name(self) -> str:
        """Its present name."""
        return self._current(self._name)

    def __repr__(self) -> str:
        """Show its name."""
        return f"<DeclaredQueue {self.name!r}>"
