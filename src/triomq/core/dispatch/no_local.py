"""No-local: feeds that do not want what their own session has published."""

from collections.abc import Callable

from triomq.core.batch import Batch
from triomq.core.dispatch.dispatch import Dispatch, PartOfReady, ReadyMessages
from triomq.core.dispatch.feed import Feed
from triomq.core.message import Head


class NoLocal:
    """A strategy around another one, which holds feeds back from the messages of their own session.

    Feeds that do not want the first message leave the ready list until another session's is first. A message that no
    feed wants would block the queue for ever, so it is discarded; a blocked feed counts as one that wants it.

    Args:
        inner: The strategy inside; must preserve a feed's place in the round while it is not in the ready list.
        discard: Takes the first ready message out of the backlog for good.
    """

    __slots__ = ("_discard", "_feeds", "_inner", "_sessions")

    def __init__(self, inner: Dispatch, discard: Callable[[], None]) -> None:
        self._inner = inner
        self._discard = discard
        self._feeds: dict[Feed, None] = {}
        self._sessions: dict[int, dict[Feed, None]] = {}  # those with a no_local, by it

    def join(self, feed: Feed) -> None:
        """Count a feed as open, whether it is in the ready list or not."""
        self._feeds[feed] = None
        if feed.no_local:
            self._sessions.setdefault(feed.no_local, {})[feed] = None

    def add(self, feed: Feed) -> None:
        """Add a feed."""
        self.join(feed)
        self._inner.add(feed)

    def remove(self, feed: Feed) -> None:
        """Remove a feed."""
        self._inner.remove(feed)
        self._feeds.pop(feed, None)
        unwilling = self._sessions.get(feed.no_local)
        if unwilling is not None:
            unwilling.pop(feed, None)
            if not unwilling:
                del self._sessions[feed.no_local]

    def dispatch(self, backlog: ReadyMessages) -> list[Batch]:
        """Dispatch as far as messages are of one session, again and again, without the feeds that do not want them."""
        if not self._sessions:
            return self._inner.dispatch(backlog)
        batches: list[Batch] = []
        while backlog.resident:
            session = self._session(backlog.next_head())
            unwilling = self._sessions.get(session, ())
            if len(unwilling) == len(self._feeds):
                self._discard()
                continue
            part = _OfSession(backlog, session, self._session)
            batches += self._deal(part, [feed for feed in unwilling if feed.listed])
            if part.resident:  # the feeds that want it have no room
                break
        return batches

    def _session(self, head: Head) -> int:
        """Return the message's session, if some feed does not want messages of that session; 0 otherwise."""
        return head.traits.publisher if head.traits.publisher in self._sessions else 0

    def _deal(self, part: ReadyMessages, sitting_out: list[Feed]) -> list[Batch]:
        for feed in sitting_out:
            self._inner.remove(feed)
        batches = self._inner.dispatch(part)
        for feed in sitting_out:
            self._inner.add(feed)
        return batches


class _OfSession(PartOfReady):
    """A backlog up to the first message of another session."""

    __slots__ = ("_session", "_session_of")

    def __init__(self, backlog: ReadyMessages, session: int, session_of: Callable[[Head], int]) -> None:
        super().__init__(backlog)
        self._session = session
        self._session_of = session_of

    @property
    def resident(self) -> int:
        """How many messages may be taken; none when the first is of another session."""
        backlog = self._backlog
        return backlog.resident if backlog.resident and self._session_of(backlog.next_head()) == self._session else 0
