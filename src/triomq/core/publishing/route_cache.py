"""The routes that a publisher remembers, for publishers whose messages share no head: then only the routes repeat."""

from collections.abc import Callable

from triomq.core.publishing.routed import CachedRoute
from triomq.core.topology.directory import Directory

_ROUTES = 1024
"""Routes of one publisher: most publish with few keys; those that do not only pay for a new one each time."""


class RouteCache:
    """Routes by sink and key; created by a publisher's adapter, ends with it.

    Args:
        directory: Of the domain that is published into.
        check: Called with a key that is new; raises for one that the wires of consumers cannot carry.
    """

    __slots__ = ("_check", "_directory", "_routes", "_version")

    def __init__(self, directory: Directory, check: Callable[[str], None]) -> None:
        self._directory = directory
        self._check = check
        self._routes: dict[tuple[str, str], CachedRoute] = {}
        self._version = -1  # of the directory, when the routes were begun

    def find(self, sink: str, key: str) -> CachedRoute:
        """Return the route; raises what ``check`` does."""
        return self._routes.get((sink, key)) or self._add(sink, key)

    def _add(self, sink: str, key: str) -> CachedRoute:
        self._check(key)
        if self._directory.version != self._version or len(self._routes) >= _ROUTES:
            self._routes.clear()  # which may name queues that are gone
            self._version = self._directory.version
        route = self._routes[sink, key] = CachedRoute(sink, key)
        return route
