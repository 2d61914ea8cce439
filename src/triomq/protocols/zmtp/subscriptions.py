"""What one peer has subscribed to: topics, each with how often, within limits."""

from collections.abc import Sequence

from triomq.protocols.zmtp.codes import PeerError
from triomq.protocols.zmtp.settings import LONGEST_TOPIC, MOST_SUBSCRIPTIONS, SUBSCRIPTION_OCTETS


class Subscriptions:
    """Owned by an engine of the publishing side. A topic counts how often it was asked for, as libzmq's does."""

    __slots__ = ("_counts", "_octets")

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._octets = 0

    @property
    def topics(self) -> Sequence[bytes]:
        """Those that are there."""
        return tuple(self._counts)

    def judge(self, topic: bytes) -> None:
        """Look at a topic before anybody is asked.

        Raises:
            PeerError: It is too long.
        """
        if len(topic) > LONGEST_TOPIC:
            raise PeerError("TOO_LARGE", f"a topic has {len(topic)} octets; at most {LONGEST_TOPIC} are allowed")

    def add(self, topic: bytes) -> bool:
        """Add a topic, and return whether it was not there.

        Raises:
            PeerError: There are too many, or they have too many octets.
        """
        count = self._counts.get(topic, 0)
        if not count:
            if len(self._counts) >= MOST_SUBSCRIPTIONS:
                raise PeerError("TOO_MANY", f"the peer subscribes to more than {MOST_SUBSCRIPTIONS} topics")
            if self._octets + len(topic) > SUBSCRIPTION_OCTETS:
                raise PeerError("TOO_MANY", f"the peer subscribes to topics of more than {SUBSCRIPTION_OCTETS} octets")
            self._octets += len(topic)
        self._counts[topic] = count + 1
        return not count

    def drop(self, topic: bytes) -> bool:
        """Take a topic back once, and return whether it has gone by that."""
        count = self._counts.get(topic, 0)
        if count > 1:
            self._counts[topic] = count - 1
        elif count:
            del self._counts[topic]
            self._octets -= len(topic)
        return count == 1
