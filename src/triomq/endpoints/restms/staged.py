"""Staged contents: bodies that a user has sent to a feed (RestMS's word) before the message that refers to them.

They are in memory, belong to their user, and wait for their message for a while. The account of all users' bytes is
asked before a body is read, by its announced length, and again while it comes.
"""

from io import BytesIO
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from triomq.endpoints.base.wheel import Wheel
    from triomq.endpoints.restms.resources import RestMSDomain


PLACE: Final = 1024
"""Bytes that a content is counted with beside its own: about what one takes that has a single byte."""

_PART_OF_MEMORY: Final = 8
"""What of the broker's memory the contents of all users may have: the alarm does not see them."""


class StagedAccount:
    """The bytes that users have staged; made with the resources, lasts as long."""

    __slots__ = ("total", "users")

    def __init__(self) -> None:
        self.users: dict[str, int] = {}
        self.total = 0

    def room(self, user: str, domain: "RestMSDomain") -> int:
        """Return how many bytes a user may stage now, one content at most."""
        room = domain.config.staged_bytes - self.users.get(user, 0)
        mark = domain.directory.memory.mark
        return (min(room, mark // _PART_OF_MEMORY - self.total) if mark else room) - PLACE

    def add(self, user: str, size: int) -> None:
        """Count bytes."""
        self.users[user] = self.users.get(user, 0) + size
        self.total += size

    def remove(self, user: str, size: int) -> None:
        """Count bytes less."""
        left = self.users.pop(user, 0) - size
        self.total -= size
        if left > 0:
            self.users[user] = left


class StagedContent:
    """A content that is staged or just being sent; ends with its message, by a DELETE, or when its time is over.

    Args:
        hash_: Its own.
        domain: Where it is.
        feed: The feed (RestMS's word) that it was sent to.
        user: Whose it is.
        type_: The content type.
    """

    __slots__ = ("_bytes", "domain", "feed", "hash", "is_over", "modified", "size", "timers", "type", "until", "user")

    def __init__(self, hash_: str, domain: "RestMSDomain", feed: str, user: str, type_: str) -> None:
        self.hash = hash_
        self.domain = domain
        self.feed = feed
        self.user = user
        self.type = type_
        self.modified = domain.now()
        self.size = PLACE
        domain.resources.staged.add(user, PLACE)
        self.timers: Wheel | None = None
        """What ends it, if nothing else does."""
        self.until = inf
        """When that is, on Trio's clock."""
        self._bytes = BytesIO()  # one block: pieces of two bytes would take twenty times their size
        self.is_over = False

    def take(self, piece: bytes) -> bool:
        """Add a piece of the body; return False if the user has no room for it."""
        staged = self.domain.resources.staged
        if len(piece) > staged.room(self.user, self.domain) + PLACE:
            return False
        staged.add(self.user, len(piece))
        self.size += len(piece)
        self._bytes.write(piece)
        return True

    @property
    def body(self) -> bytes:
        """All of it."""
        return self._bytes.getvalue()

    def end(self) -> None:
        """Give its room back, and its timer; a second call does nothing."""
        if not self.is_over:
            self.is_over = True
            self._bytes = BytesIO()
            if self.timers is not None:
                self.timers.discard(self)
            resources = self.domain.resources
            resources.found.pop(self.hash, None)
            resources.contents.pop(self, None)
            resources.staged.remove(self.user, self.size)
