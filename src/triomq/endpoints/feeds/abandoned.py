"""Pipes that nobody will read again: of users that are gone, and of those who have not come for as long as configured.

Nobody else sees a user's pipes, and what is published for them fills their queues. A user that is put in again within a
minute, since somebody changed it by removing it first, finds all pipes there.
"""

from collections.abc import Iterable

from triomq.endpoints.feeds.book import FeedBook
from triomq.endpoints.feeds.making import discard_pipe
from triomq.endpoints.feeds.pipe import PipeState
from triomq.security import Users


class AbandonedPipes:
    """Pipes that no longer have a user; made by an endpoint, which calls ``look`` now and then.

    Args:
        users: The broker's.
        expires: Seconds after which a pipe is deleted that nobody has asked for anything; 0 is never.
    """

    def __init__(self, users: Users, expires: float = 0.0) -> None:
        self._users = users
        self._expires = expires
        self._doubtful: set[str] = set()  # whose users were gone at the last look

    def look(self, books: Iterable[FeedBook]) -> list[PipeState]:
        """Delete pipes whose users were gone at the last look already, and those that have expired; return them.

        Those that somebody takes from are left alone. To be called in a turn.
        """
        doubtful, self._doubtful = self._doubtful, set()
        found = []
        for book in books:
            for pipe in [pipe for pipe in book.pipes.values() if not pipe.takers]:
                is_gone = self._users.get(pipe.record.user) is None
                has_expired = self._expires > 0 and pipe.used <= book.now() - self._expires
                if has_expired or (is_gone and pipe.name in doubtful):
                    found.append(pipe)
                elif is_gone:
                    self._doubtful.add(pipe.name)
        return [pipe for pipe in found if self._discard(pipe)]

    def _discard(self, pipe: PipeState) -> bool:
        is_done = discard_pipe(pipe)
        if not is_done:
            self._doubtful.add(pipe.name)
        return is_done
