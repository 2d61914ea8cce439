"""Access: what the user behind a publisher or a subscription may do.

The core asks where messages come in and where they go out. There is no default: a publisher and a subscription are made
with the rights of a user, so that a protocol cannot forget them.
"""

from typing import Final, Protocol


class Permissions(Protocol):
    """What a user may do; ``triomq.security.Access`` is one."""

    def may_write(self, name: str, /) -> bool:
        """Return whether the user may publish into a sink."""

    def may_read(self, name: str, /) -> bool:
        """Return whether the user may consume from a queue."""


class _Everything:
    """May do everything."""

    def may_write(self, name: str, /) -> bool:
        return True

    def may_read(self, name: str, /) -> bool:
        return True


EVERYTHING: Final[Permissions] = _Everything()
"""For this program itself, and for its peers; named wherever it is given, and never a default."""
