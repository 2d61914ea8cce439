"""Slots: a window of what a consumer has asked for, for protocols whose workers say that they are ready.

A window gets its room back when a delivery is settled. Slots do not: each message uses one up, and only the consumer's
next word (``offer``) brings more. So a worker never gets more than it asked for, whatever becomes of its deliveries.

All feeds of a worker share its slots. Of the feeds that stand in line for them those with a higher weight go first: a
worker that serves several queues prefers those for which it has said so.
"""

from triomq.core.dispatch.feed import Feed, Window

_BEGIN = 1
"""A limit of 0 would be none, so the count begins with one slot that is used up."""


class Slots(Window):
    """The messages that a consumer has asked for and not got; made with the consumer, shared by its feeds."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_BEGIN)
        self.used = _BEGIN

    @property
    def free(self) -> int:
        """How many messages it has asked for and not got."""
        return self.limit - self.used

    def offer(self, count: int) -> None:
        """Ask for so many messages more."""
        self.limit += count
        self._call()

    def give(self, messages: int, size: int) -> None:
        """Do nothing: what is settled asks for nothing."""

    def wait(self, feed: Feed, size: int) -> None:
        """Put a feed into the line, behind those of its weight."""
        super().wait(feed, size)
        line = self._line
        if line is not None and len(line) > 1:
            self._line = dict(sorted(line.items(), key=_by_weight))


def _by_weight(entry: tuple[Feed, int]) -> int:
    return -entry[0].weight
