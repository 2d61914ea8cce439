"""Permissions of a user in a domain: three patterns, as RabbitMQ has them, and a cache of their results by name."""

import re
from collections.abc import Callable, Mapping

from triomq.checked import Checked

ANY_DOMAIN = "*"
"""The key in a user's permissions for each domain that is not named there."""

_NAMES = 4096
"""Cached names for each pattern; with more of them the cache is emptied and the pattern runs again."""


class Permission(Checked, frozen=True, forbid_unknown_fields=True, gc=False):
    """Permissions on sinks and queues, as regular expressions of their names.

    A pattern is searched anywhere in the name, as RabbitMQ does, so ``^`` and ``$`` are needed to mean all of it; one
    that is empty fits nothing. The name of the default sink is ``amq.default`` here.

    Args:
        configure: Names that the user may declare and delete.
        write: Names that it may publish to, and bind.
        read: Names that it may consume from, purge, and bind to.
    """

    configure: str = ""
    write: str = ""
    read: str = ""

    def __post_init__(self) -> None:
        """Check that the fields are regular expressions."""
        super().__post_init__()
        for kind in ("configure", "write", "read"):
            pattern = getattr(self, kind)
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{kind}: {pattern!r} is no regular expression: {error}") from None

    def is_within(self, other: "Permission") -> bool:
        """Return whether the other permission certainly allows all that this one allows."""
        pairs = ((self.configure, other.configure), (self.write, other.write), (self.read, other.read))
        return all(ours in (theirs, "", "^$") or theirs in _EVERYTHING for ours, theirs in pairs)


_EVERYTHING = frozenset((".*", "^.*$", "^.*", ".*$"))

ALL = Permission(".*", ".*", ".*")
"""All permissions in a domain."""

NONE = Permission()
"""Permission to enter a domain, and to use nothing there."""


def permission_in(permissions: Mapping[str, Permission], domain: str) -> Permission | None:
    """Return the permission in a domain; None if the user may not enter it."""
    found = permissions.get(domain)
    return permissions.get(ANY_DOMAIN) if found is None else found


class Access:
    """The present permissions of one user in one domain; returned by ``Users.access``, which changes it in place.

    Results are cached by name, so that asking again costs one look-up.
    """

    __slots__ = ("_configure", "_read", "_write", "may_enter")

    may_enter: bool
    """Whether the user may enter the domain."""

    def __init__(self, permission: Permission | None) -> None:
        self.change(permission)

    def change(self, permission: Permission | None) -> None:
        """Set another permission."""
        self.may_enter = permission is not None
        allowed = permission or NONE
        self._configure = _Matches(allowed.configure)
        self._write = _Matches(allowed.write)
        self._read = _Matches(allowed.read)

    def may_configure(self, name: str) -> bool:
        """Return whether the user may declare and delete a sink or queue of this name."""
        return self._configure[name]

    def may_write(self, name: str) -> bool:
        """Return whether the user may publish to a sink of this name, or bind a sink or queue."""
        return self._write[name]

    def may_read(self, name: str) -> bool:
        """Return whether the user may consume from a queue of this name, or bind something to a sink."""
        return self._read[name]


class _Matches(dict[str, bool]):
    """A cache of whether names match a pattern, filled when first asked for."""

    def __init__(self, pattern: str) -> None:
        super().__init__()
        # As RabbitMQ has it: the empty pattern is that of the empty name, which no resource has.
        self._search: Callable[[str], re.Match[str] | None] = re.compile(pattern or "^$").search

    def __missing__(self, name: str) -> bool:
        if len(self) >= _NAMES:
            self.clear()
        # The default sink has no name, and permissions know it as this.
        answer = self[name] = self._search(name or "amq.default") is not None
        return answer
