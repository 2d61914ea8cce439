"""Who wants what is published to a topic: subscriptions are beginnings of topics, as ZeroMQ has it.

A dict from beginnings to their subscribers, and the lengths that are in use: a topic is looked up once for each of
these that is not longer than itself. So a subscription takes the memory of its octets and of an entry, whoever goes
takes away what is his own alone, and no tree has to be walked for either. What was found for a topic is remembered,
since topics come again, until anything changes.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Generic, TypeVar

S = TypeVar("S")

_REMEMBERED = 1000
"""Topics of which it is remembered who wants them."""


class TopicIndex(Generic[S]):
    """Owned by a listener for subscribers."""

    def __init__(self) -> None:
        self._subscribers: dict[bytes, dict[S, None]] = {}
        self._lengths: Counter[int] = Counter()
        self._found: dict[bytes, Sequence[S]] = {}

    def __len__(self) -> int:
        """Count the different subscriptions."""
        return len(self._subscribers)

    def add(self, beginning: bytes, subscriber: S) -> None:
        """Have a subscriber found for topics that begin so."""
        subscribers = self._subscribers.get(beginning)
        if subscribers is None:
            subscribers = self._subscribers[beginning] = {}
            self._lengths[len(beginning)] += 1
        subscribers[subscriber] = None
        self._found.clear()

    def remove(self, beginning: bytes, subscriber: S) -> None:
        """Have it found by that no more."""
        subscribers = self._subscribers[beginning]
        del subscribers[subscriber]
        self._found.clear()
        if not subscribers:
            del self._subscribers[beginning]
            self._lengths[len(beginning)] -= 1
            if not self._lengths[len(beginning)]:
                del self._lengths[len(beginning)]

    def find(self, topic: bytes) -> Sequence[S]:
        """Return the subscribers that want a topic, each once."""
        found = self._found.get(topic)
        if found is None:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            found = self._found[topic] = self._look_up(topic)
        return found

    def _look_up(self, topic: bytes) -> Sequence[S]:
        found: dict[S, None] = {}
        for length in self._lengths:
            if length <= len(topic):
                found.update(self._subscribers.get(topic[:length], {}))
        return tuple(found)
