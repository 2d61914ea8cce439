"""Single active: one feed gets everything, the others stand by."""

from triomq.core.batch import Batch
from triomq.core.dispatch.dispatch import Dispatch, ReadyMessages
from triomq.core.dispatch.feed import Feed


class SingleActive:
    """A strategy around another one, which never sees more than one feed.

    When the active feed is closed, the one with the highest priority follows, among equals the one that was opened
    first; but not before everything that the former one has unsettled is settled or back, so that the order of messages
    holds from one to the next. While the active feed is blocked no feed gets anything. A feed that is opened later does
    not replace the active one, whatever its priority.

    Args:
        inner: The strategy that deals to the active feed.
    """

    __slots__ = ("_active", "_feeds", "_former", "_inner")

    def __init__(self, inner: Dispatch) -> None:
        self._inner = inner
        self._feeds: dict[Feed, None] = {}
        self._active: Feed | None = None
        self._former: Feed | None = None  # closed, with messages out

    @property
    def active(self) -> Feed | None:
        """The feed that gets everything; None while there is none, or a former one has messages out."""
        self._succeed()
        return self._active

    def add(self, feed: Feed) -> None:
        """Add a feed as a stand-by; the active one goes to the ready list."""
        if self._active is feed:
            self._inner.add(feed)
        elif feed not in self._feeds:
            self._succeed()
            self._feeds[feed] = None
            self._succeed()

    def remove(self, feed: Feed) -> None:
        """Remove a feed; if it was the active one, the next follows."""
        self._feeds.pop(feed, None)
        if self._active is feed:
            self._inner.remove(feed)
            self._active, self._former = None, feed
            self._succeed()

    def dispatch(self, backlog: ReadyMessages) -> list[Batch]:
        """Dispatch to the active feed."""
        self._succeed()
        return self._inner.dispatch(backlog)

    def _succeed(self) -> None:
        """Make a feed the active one, if there is none and the former has nothing unsettled."""
        if self._active is not None:
            return
        if self._former is not None and self._former.unsettled:
            return
        self._former = None
        if self._feeds:
            self._active = max(self._feeds, key=_priority)
            self._inner.add(self._active)


def _priority(feed: Feed) -> int:
    return feed.priority
