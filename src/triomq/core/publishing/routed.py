"""Where messages go, and what they share: what adapters remember and publish with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from triomq.actors import Ref
    from triomq.core.message import Head

NEVER = -1
"""No directory has this version."""


class CachedRoute(msgspec.Struct, eq=False):
    """Where messages with one sink and one key go; made and remembered by a publisher's adapter, compared by identity.

    Args:
        sink: The sink's name; the empty one is the default sink, which leads to the queue that is called like the key.
        key: The routing key.
        keys: Further keys that the message is routed by.
        queues: The queues that were found.
        version: That of the directory, when they were.
    """

    sink: str
    key: str
    keys: tuple[str, ...] = ()
    queues: tuple[Ref, ...] = ()
    version: int = NEVER

    def found(self, queues: tuple[Ref, ...], version: int) -> CachedRoute:
        """Return a route of the same name that stands."""
        return CachedRoute(self.sink, self.key, self.keys, queues, version)


class RoutedHead(msgspec.Struct, frozen=True, eq=False):
    """Where a message goes, and its head: made and remembered by a publisher's adapter, compared by identity.

    Args:
        route: Where it goes.
        head: Its head.
    """

    route: CachedRoute
    head: Head


class RoutedRun(NamedTuple):
    """Messages that share head and route: what ``Publisher.publish`` takes as its first arguments."""

    route: CachedRoute
    head: Head
    contents: Sequence[bytes]
    size: int
