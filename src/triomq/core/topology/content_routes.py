"""Where messages go that are routed by their content: by headers sinks, predicates, or a hash of a property.

Such a message has to be looked into, but what is found depends on nothing but the sink, its keys and the octets of its
properties, until the directory's version moves. So

- what a key alone says is looked up once for all messages with it: the queues that need no further look, and the guards
  that have to be asked;
- what the octets of properties lead to is remembered, so that the next message with the same ones is not even decoded;
- both are shared by all publishers of a domain. Properties that never come again, since each message has an id in them,
  are forgotten all at once when there are too many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triomq.core.message import Head, properties_of
from triomq.core.queue.queue_state import QueueState

if TYPE_CHECKING:
    from collections.abc import Collection

    from triomq.actors import Ref, Turn
    from triomq.core.routing.guards import GuardGroup
    from triomq.core.routing.sink import Destination, SinkState
    from triomq.core.topology.directory import Directory, Route
    from triomq.properties import HeaderValue, Properties

_MOST = 4096
"""Properties that are remembered in a domain, 2 MiB at worst; eight queues that they lead to count as one more."""

_LONGEST = 256
"""Octets of properties that are remembered; such as are longer mostly have a part that never comes again."""

_LOOK = 2
"""What it costs to decode properties, in queue pushes, besides what trying guards costs."""

_SMALL = 512
"""Octets of properties that are decoded in the time of that."""

_DECODED = 16
"""Octets of larger ones that are decoded in the time of a queue push, where they have very many values."""

Queues = tuple["Ref", ...]
Way = tuple[str, tuple[str, ...]]
"""A sink's name, and the keys by which a message is routed."""


def queues_among(found: Collection[Destination]) -> Queues | None:
    """Return the queues that bindings lead to; None if one leads to a sink."""
    queues: dict[Ref, None] = {}
    for destination in found:
        if isinstance(destination, QueueState):
            if not destination.gone:
                queues[destination.ref] = None
        elif not destination.gone:
            return None
    return tuple(queues)


class ContentRoute:
    """Where messages with one sink and the same keys go; made when the first of them is routed.

    Args:
        routes: Counts what is remembered.
        directory: Of the sink.
        way: The sink, and the keys.
    """

    __slots__ = ("_directory", "_groups", "_plain", "_remembered", "_routes", "_sink", "_way")

    def __init__(self, routes: ContentRoutes, directory: Directory, way: Way) -> None:
        self._routes = routes
        self._directory = directory
        self._way = way
        self._remembered: dict[int, dict[bytes, Queues]] = {}  # by codec
        sink_name, keys = way
        self._sink: SinkState = directory.sink(sink_name)
        # What the key alone says, if only guards have to be asked besides.
        self._plain: Queues = ()
        self._groups: Collection[GuardGroup[Destination]] | None = None
        if len(keys) == 1 and self._sink.options.alternate is None:
            by_key = self._sink.by_key(keys[0])
            plain = None if by_key is None else queues_among(by_key.destinations)
            if by_key is not None and by_key.groups and plain is not None:
                self._plain, self._groups = plain, by_key.groups

    def find(self, head: Head, content: bytes) -> Queues:
        """Return the queues for a message; raises what ``Directory.route_all`` does."""
        codec, encoded = head.traits.codec, properties_of(head, content)
        remembered = self._remembered.get(codec)
        found = None if remembered is None else remembered.get(encoded)
        return self._look_up(codec, encoded) if found is None else found

    def find_all(self, head: Head, contents: Sequence[bytes], turn: Turn | None = None) -> list[Queues]:
        """Return the queues for each message of a run; raises what ``Directory.route_all`` does.

        Args:
            head: What the messages share.
            contents: Their bytes.
            turn: The one whose budget ends it, behind the first message at least; with None it goes to the end.
        """
        codec, start, stop = head.traits.codec, head.properties_start, head.properties_stop
        remembered = self._remembered.setdefault(codec, {})
        found: list[Queues] = []
        for content in contents:
            encoded = content[start:stop]
            queues = remembered.get(encoded)
            if queues is None:
                if turn is not None and found and turn.exhausted:
                    break
                queues = self._look_up(codec, encoded)
            found.append(queues)
        return found

    def _look_up(self, codec: int, encoded: bytes) -> Queues:
        """Look into properties that are not remembered."""
        directory = self._directory
        directory.spend(_LOOK if len(encoded) < _SMALL else len(encoded) // _DECODED)
        queues = None if self._groups is None else self._ask_guards(codec, encoded)
        if queues is None:
            queues = self._routes.route(self._way, codec, encoded).queues
        if len(encoded) <= _LONGEST:
            self._remembered.setdefault(codec, {})[encoded] = queues
            self._routes.count(1 + len(queues) // 8)
        return queues

    def _ask_guards(self, codec: int, encoded: bytes) -> Queues | None:
        """Ask the guards that the key leads to; None if one leads to a sink."""
        guards, groups = self._sink.guards, self._groups
        assert guards is not None
        assert groups is not None
        properties = self._directory.codecs.read_encoded(codec, encoded)
        headers = {} if properties is None else properties.headers or {}
        found, cost = guards.admit(groups, headers, lambda: properties)
        self._directory.spend(cost)
        if not found:
            return self._plain
        queues = queues_among(found)
        if queues is None or not self._plain:
            return queues
        return tuple(dict.fromkeys(self._plain + queues))


class ContentRoutes:
    """All that are known in a domain; created and owned by its directory."""

    __slots__ = ("_count", "_directory", "_routes", "_version")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._routes: dict[Way, ContentRoute] = {}
        self._count = 0
        self._version = -1

    def get(self, way: Way) -> ContentRoute | None:
        """Return the route, if messages that go this way are known to be routed by their content."""
        if self._version != self._directory.version:
            self._forget()
            self._version = self._directory.version
        return self._routes.get(way)

    def add(self, way: Way) -> ContentRoute:
        """Remember that messages which go this way are routed by their content."""
        self.count(1)
        route = self._routes[way] = ContentRoute(self, self._directory, way)
        return route

    def route(self, way: Way, codec: int, encoded: bytes) -> Route:
        """Find where a message goes; its properties are decoded, once, if a sink asks for them.

        Args:
            way: The sink, and the keys.
            codec: Names how the properties are encoded.
            encoded: The properties.

        Raises:
            NoSuchSink: There is no such sink.
            SinkInternal: Only other sinks may publish into it.
            TooManyKeys: To look all of them up would take too long.
            TooManySteps: To look through all sinks would.
        """
        directory, (sink, keys) = self._directory, way
        decoded: list[Properties | None] = []

        def properties() -> Properties | None:
            if not decoded:
                decoded.append(directory.codecs.read_encoded(codec, encoded))
            return decoded[0]

        def headers() -> dict[str, HeaderValue]:
            found = properties()
            return {} if found is None else found.headers or {}

        if len(keys) == 1:
            return directory.route(sink, keys[0], headers, properties=properties)
        return directory.route_all(sink, keys, headers, properties=properties)

    def count(self, more: int) -> None:
        """Count what is remembered, and forget all of it when that is too much."""
        self._count += more
        if self._count > _MOST:
            self._forget()

    def _forget(self) -> None:
        self._routes = {}
        self._count = 0
