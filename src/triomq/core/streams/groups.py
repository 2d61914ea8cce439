"""Which groups have positions in the streams of a domain: whose they are, and when each was used last.

    SetPosition ──▶ the stream's log has the offset ──▶ here: user and time, written in the same record
    30 days without one ──▶ the position is forgotten, in memory and on disk

Rules:

- Who sets the first position of a group in a stream is charged for it (``shares.GROUPS``).
- A position ends when it was not set for ``UNUSED_SECONDS``, when somebody has it forgotten (``ForgetGroup``), or with
  its stream. A group that comes back later begins as a new one does.
- They are in the order of their use. So what is to end is always the first, and looking costs nothing.
"""

import logging
from collections.abc import Iterable
from itertools import islice
from time import time as unix_time
from typing import TYPE_CHECKING, Final

import msgspec

from triomq.core.streams.log import StreamLog
from triomq.core.topology.shares import GROUPS

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory

_log = logging.getLogger("triomq.core")

UNUSED_SECONDS: Final = 30 * 24 * 3600.0
"""Seconds after which a position ends that was not set again: longer than a program is away that comes back."""

_LOOK: Final = 3600.0
"""Seconds between two looks at least."""

_AT_ONCE: Final = 1_000
"""Positions that end in one turn."""


def groups_of(directory: "Directory") -> "Groups":
    """Return the groups of a domain."""
    if directory.groups is None:
        directory.groups = Groups(directory)
    return directory.groups


class _Use(msgspec.Struct, gc=False):
    """Who has made a position, and when it was set last, in seconds since 1970."""

    user: str
    used: int


class Groups:
    """The groups of one domain; part of its directory, so that they outlive the domain's incarnations.

    ``wall`` gives the seconds since 1970.

    Args:
        directory: The domain's.
    """

    def __init__(self, directory: "Directory") -> None:
        self._directory = directory
        self._uses: dict[tuple[str, str], _Use] = {}  # by stream and group; the one that is unused for longest first
        self.wall = unix_time

    def __len__(self) -> int:
        """Count the positions."""
        return len(self._uses)

    def require_room(self, stream: str, group: str, user: str, more: int = 1) -> None:
        """Require that a user may set a position, and perhaps others of partitions.

        Raises:
            ShareReached: It would be a new one, and the user has as many as it may.
        """
        if (stream, group) not in self._uses:
            self._directory.shares.require(GROUPS, user, more)

    def set(self, stream: str, group: str, user: str) -> tuple[str, int]:
        """Note that a position is set; return what its record has of that: the user, and the time.

        Raises:
            ShareReached: As ``require_room``.
        """
        use = self._uses.pop((stream, group), None)
        now = int(self.wall())
        if use is None:
            self._directory.shares.require(GROUPS, user)
            self._directory.shares.take(GROUPS, user)
            use = _Use(user, now)
        use.used = now
        self._uses[stream, group] = use
        self._set_clock()
        return use.user, use.used

    def recover(self, stream: str, group: str, user: str, used: int) -> None:
        """Take what the store had; ``recovered`` follows."""
        self._directory.shares.take(GROUPS, user)
        self._uses[stream, group] = _Use(user, used or int(self.wall()))

    def recovered(self) -> None:
        """Put what was recovered in order."""
        self._uses = dict(sorted(self._uses.items(), key=lambda item: item[1].used))
        self._set_clock()

    def forget(self, stream: str, group: str) -> None:
        """Note that a position has ended."""
        use = self._uses.pop((stream, group), None)
        if use is not None:
            self._directory.shares.give(GROUPS, use.user)

    def forget_stream(self, stream: str, groups: Iterable[str]) -> None:
        """Note that a stream has ended, with the positions of these groups."""
        for group in list(groups):
            self.forget(stream, group)

    def _set_clock(self) -> None:
        """Look again when the first one may have ended."""
        if self._uses:
            first = next(iter(self._uses.values()))
            clock = self._directory.clock
            clock.set(self, clock.now() + max(_LOOK, first.used + UNUSED_SECONDS - self.wall()))

    def expire(self) -> None:
        """End the positions that were not used for long; called by the domain's clock."""
        before, ended = self.wall() - UNUSED_SECONDS, 0
        oldest = list(islice(self._uses.items(), _AT_ONCE))
        for stream, group in [names for names, use in oldest if use.used <= before]:
            queue = self._directory.queues.get(stream)
            if queue is not None and isinstance(queue.backlog, StreamLog):
                queue.backlog.forget_group(group)
            self.forget(stream, group)
            ended += 1
        if ended:
            _log.info("groups were not used for long and have no position any more", extra={"fields": {"ended": ended}})
        self._set_clock()
