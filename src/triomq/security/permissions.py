"""What a user may do in a domain: three patterns, as RabbitMQ has them, and their answers kept by name."""

import re
from collections.abc import Callable, Mapping

from triomq.checked import Checked

ANY_DOMAIN = "*"
"""In a user's permissions: each domain that is not named there."""

_NAMES = 4096
"""Answers kept of each kind; whoever asks about more names pays for the patterns again."""


class Permission(Checked, frozen=True, forbid_unknown_fields=True, gc=False):
    """What a user may do with which sinks and queues: regular expressions of their names.

    A pattern is searched anywhere in the name, as RabbitMQ does, so ``^`` and ``$`` are needed to mean all of it; one
    that is empty fits nothing. The default sink goes by the name ``amq.default``.

    Args:
        configure: What it may declare and delete.
        write: What it may publish to, and bind.
        read: What it may consume, purge, and bind to.
    """

    configure: str = ""
    write: str = ""
    read: str = ""

    def __post_init__(self) -> None:
        """Check that they are patterns."""
        super().__post_init__()
        for kind in ("configure", "write", "read"):
            pattern = getattr(self, kind)
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{kind}: {pattern!r} is no regular expression: {error}") from None

    def is_within(self, other: "Permission") -> bool:
        """Tell whether whoever has the other one may certainly do all that this one allows."""
        pairs = ((self.configure, other.configure), (self.write, other.write), (self.read, other.read))
        return all(ours in (theirs, "", "^$") or theirs in _EVERYTHING for ours, theirs in pairs)


_EVERYTHING = frozenset((".*", "^.*$", "^.*", ".*$"))

ALL = Permission(".*", ".*", ".*")
"""Everything in a domain."""

NONE = Permission()
"""To be in a domain and touch nothing there."""


def permission_in(permissions: Mapping[str, Permission], domain: str) -> Permission | None:
    """Find what is allowed in a domain; None if not even to be there."""
    found = permissions.get(domain)
    return permissions.get(ANY_DOMAIN) if found is None else found


class Access:
    """What one user may do in one domain, now; given by ``Users.access``, and changed in place by it.

    Answers are kept by name, so that asking again costs one look-up.
    """

    __slots__ = ("_configure", "_read", "_write", "may_enter")

    may_enter: bool
    """Whether the user may be there at all."""

    def __init__(self, permission: Permission | None) -> None:
        self.change(permission)

    def change(self, permission: Permission | None) -> None:
        """Allow this from now on."""
        self.may_enter = permission is not None
        allowed = permission or NONE
        self._configure = _Answers(allowed.configure)
        self._write = _Answers(allowed.write)
        self._read = _Answers(allowed.read)

    def may_configure(self, name: str) -> bool:
        """Tell whether the user may declare and delete a sink or queue of this name."""
        return self._configure[name]

    def may_write(self, name: str) -> bool:
        """Tell whether the user may publish to a sink of this name, or bind a sink or queue."""
        return self._write[name]

    def may_read(self, name: str) -> bool:
        """Tell whether the user may consume from a queue of this name, or bind something to a sink."""
        return self._read[name]


class _Answers(dict[str, bool]):
    """Whether names fit a pattern, worked out when first asked for."""

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
