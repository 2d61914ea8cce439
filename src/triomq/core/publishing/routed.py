"""Where messages go, and what they share: what adapters remember and publish with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from triomq.actors import Ref
    from triomq.core.message import Head

NEVER = -1
"""No directory has this version."""


class CachedRoute:
    """Where messages with one sink and one key go; made and remembered by a publisher's adapter.

    Args:
        sink: The sink's name; the empty one is the default sink, which leads to the queue that is called like the key.
        key: The routing key.
        keys: Further keys that the message is routed by.
    """

    __slots__ = ("key", "keys", "queues", "sink", "version")

    def __init__(self, sink: str, key: str, keys: tuple[str, ...] = ()) -> None:
        self.sink = sink
        self.key = key
        self.keys = keys
        self.queues: tuple[Ref, ...] = ()
        self.version = NEVER  # of the directory, when ``queues`` was found

    def found(self, queues: tuple[Ref, ...], version: int) -> CachedRoute:
        """Return a route of the same name that stands."""
        route = CachedRoute(self.sink, self.key, self.keys)
        route.queues, route.version = queues, version
        return route


class RoutedHead:
    """Where a message goes, and its head: made and remembered by a publisher's adapter, compared by identity.

    Args:
        route: Where it goes.
        head: Its head.
    """

    __slots__ = ("head", "route")

    def __init__(self, route: CachedRoute, head: Head) -> None:
        self.route = route
        self.head = head


class RoutedRun(NamedTuple):
    """Messages that share head and route: what ``Publisher.publish`` takes as its first arguments."""

    route: CachedRoute
    head: Head
    contents: Sequence[bytes]
    size: int
