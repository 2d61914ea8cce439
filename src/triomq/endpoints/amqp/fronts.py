"""What stands before deliveries, for batches whose messages are not alike.

The engine lays out such a batch in one pass, if it is handed the front of each message. Consumers see the same few
keys and lengths of properties again and again, so a front is looked up by the message's head, which costs 40 ns; to
write it costs 1.5 µs.
"""

from collections.abc import Sequence
from typing import TypeAlias

from triomq.core import Head
from triomq.protocols.amqp import AMQPEngine, Framing, Front

_FRONTS = 2048
"""Fronts remembered for one connection, each some 300 bytes: a table for each consumer would have no bound."""

Use: TypeAlias = tuple[int, str, bool]
"""What the fronts of one table are for: the channel, the consumer's tag, whether the messages were delivered before."""


class Fronts:
    """The fronts of one connection, by use and head; made with its first batch of messages that are not alike.

    Args:
        engine: Writes them.
    """

    __slots__ = ("_count", "_engine", "_tables")

    def __init__(self, engine: AMQPEngine) -> None:
        self._engine = engine
        self._tables: dict[Use, dict[Head, Front]] = {}
        self._count = 0

    def find(self, use: Use, heads: Sequence[Head]) -> list[Front]:
        """Return the front for each head."""
        try:
            known = self._tables[use]
            return [known[head] for head in heads]
        except KeyError:
            known = self._learn(use, heads)
            return [known[head] for head in heads]

    def _learn(self, use: Use, heads: Sequence[Head]) -> dict[Head, Front]:
        """Write the fronts that are missing."""
        if self._count >= _FRONTS:
            self._tables.clear()
            self._count = 0
        known = self._tables.setdefault(use, {})
        before = len(known)
        for head in heads:
            if head not in known:
                known[head] = self._engine.outbox.front(*use, head.exchange, head.routing_key, framing_of(head))
        self._count += len(known) - before
        return known


def framing_of(head: Head) -> Framing:
    """Return the engine's own framing of a head."""
    return Framing(
        max(0, head.frame), head.properties_start, head.properties_stop, head.body_start, head.body_trailer, head.flags
    )
