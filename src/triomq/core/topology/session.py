"""A session: the identity of a client, and the owner of what must not outlive it.

It owns exclusive queues and open feeds, and lives until its last connection ends. Its number is the publisher's
identity, which messages carry (``Head.publisher``); its origin is the peer in whose name it makes things. A feed
belongs to a session and not to a channel: consumer and channel are two things.
"""

from collections import deque
from typing import TYPE_CHECKING

from triomq.actors import Ref
from triomq.core.delivery import CloseFeed, MoveFeed, OpenFeed
from triomq.core.dispatch.feed import Feed
from triomq.core.streams.start import Place
from triomq.core.topology.requests import SessionEnded

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory


class Session:
    """The owner of what must not outlive a client; created by the endpoint with a client's first connection.

    Args:
        domain: The domain in which it lives.
        directory: The domain's directory.
        user: The authenticated user's name.
        origin: The peer's name, if it is one: whatever it makes as such is that peer's; empty for this program.
    """

    __slots__ = ("_connections", "_feeds", "domain", "ended", "number", "origin", "queues", "user")

    def __init__(self, domain: Ref, directory: "Directory", *, user: str = "", origin: str = "") -> None:
        self.domain = domain
        self.number = directory.number_session(user)
        self.user = user
        self.origin = origin
        self.queues: dict[str, None] = {}
        self.ended = False
        self._connections = 0
        self._feeds: dict[Feed, None] = {}

    def attach(self) -> None:
        """Count one more connection."""
        self._connections += 1

    def detach(self) -> None:
        """Count one connection less; with the last one the session ends."""
        self._connections -= 1
        if not self._connections:
            self.end()

    def open_feed(self, feed: Feed, start: Place | None = None) -> None:
        """Open a feed and own it.

        Args:
            feed: The feed.
            start: Where in a stream it begins.

        Raises:
            InExclusiveUse: Its queue is in exclusive use.
            trio.WouldBlock: The queue is being restarted.
        """
        feed.queue.ask_nowait(OpenFeed(feed, start))
        self._feeds[feed] = None

    def close_feed(self, feed: Feed) -> None:
        """Close a feed, if it is this session's; what it has not settled stays with its consumer."""
        if feed in self._feeds:
            del self._feeds[feed]
            feed.queue.tell_nowait(CloseFeed(feed))

    def move_feed(self, feed: Feed, successor: Feed) -> None:
        """Replace a feed by another one of the same queue, if it is this session's."""
        if feed in self._feeds:
            del self._feeds[feed]
            self._feeds[successor] = None
            feed.queue.tell_nowait(MoveFeed(feed, successor))

    def feeds_to(self, consumer: Ref) -> list[Feed]:
        """List the feeds that deliver to an actor."""
        return [feed for feed in self._feeds if feed.consumer is consumer]

    def forget_feed(self, feed: Feed) -> None:
        """Drop a feed that its queue has closed."""
        self._feeds.pop(feed, None)

    def end(self) -> None:
        """Close all feeds and delete the exclusive queues, bit by bit; a second call does nothing."""
        if not self.ended:
            self.ended = True
            self.domain.tell_nowait(SessionEnded(self))

    @property
    def feeds(self) -> deque[Feed]:
        """The open feeds."""
        return deque(self._feeds)
