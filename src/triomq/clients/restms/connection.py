"""A client of a RestMS broker as its users see it.

    RestMSConnection ── feed, create_feed ──▶ RestMSFeed      POST
         │            ── open_pipe ─────────▶ RestMSPipe      a connection of its own while it is read
         ▼
      Requests ── HTTPLine …                                  as many connections as tasks that ask at one moment

HTTP has no connection to lose: each request may take another one. What is lost with a broker that has no store are
feeds, pipes and joins; those that this program has made are made again, when they are found to be gone.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio

from triomq.clients.amqp.connecting import Reconnect
from triomq.clients.restms.feed import RestMSFeed, location_of
from triomq.clients.restms.pipe import RestMSPipe
from triomq.clients.restms.requests import Requests, RestMSStatistics, document_of
from triomq.clients.restms.url import RestMSUrl
from triomq.errors import RemoteProtocolError, TriomqError
from triomq.protocols.restms import Document, DomainElement, FeedElement, Links, PipeElement

_PROFILE: Final = "3/Defaults"

_CLOSE: Final = 2.0
"""Seconds that a pipe gets to be deleted when its block ends; a broker that is away has it expire."""


class RestMSConnection:
    """Made by ``open_restms``, ends with its block.

    Args:
        url: Where to, and as whom.
        ssl_context: Whom to trust and who we are; None trusts what the system trusts.
        policy: Whether and when to try again.
    """

    def __init__(self, url: RestMSUrl, ssl_context: ssl.SSLContext | None, policy: Reconnect | None) -> None:
        self.requests = Requests(url, ssl_context, policy)
        self.domain_path = Links("").domain(url.domain)
        self._nursery: trio.Nursery | None = None
        self._followed: set[RestMSPipe] = set()
        self._made: set[RestMSFeed] = set()

    async def start(self, nursery: trio.Nursery) -> None:
        """Ask for the domain, so that what is wrong with the URL is known at once; raises as ``open_restms`` does."""
        self._nursery = nursery
        policy, self.requests.policy = self.requests.policy, None
        domain = await self.domain()
        # 3/Defaults: clients SHOULD check that it is listed.
        if not any(profile.name == _PROFILE for profile in domain.profiles):
            names = ", ".join(profile.name or "" for profile in domain.profiles) or "none"
            text = (
                f"the domain has the profiles {names}, and not {_PROFILE}; its pipes are not those that are known here"
            )
            raise RemoteProtocolError(text)
        self.requests.policy = policy

    async def close(self) -> None:
        """Close all connections."""
        await self.requests.close_idle()

    def statistics(self) -> RestMSStatistics:
        """Return what goes on."""
        return self.requests.statistics()

    async def domain(self) -> DomainElement:
        """Return what the domain has: its profiles, and the public feeds.

        Raises:
            NotFound: There is no such domain.
            AccessRefused: The user may not see it.
        """
        document = document_of(await self.requests.ask("GET", self.domain_path))
        if len(document.domains) != 1:
            raise RemoteProtocolError(f"{self.domain_path} is answered, but not by a domain; is it RestMS?")
        return document.domains[0]

    # Feeds

    def feed(self, name: str = "default") -> RestMSFeed:
        """Return a public feed that is there; nothing is asked of the broker."""
        return RestMSFeed(self, Links("").feed(name, self.requests.url.domain))

    async def create_feed(self, name: str = "", type: str = "", *, title: str = "", license: str = "") -> RestMSFeed:
        """Create a feed; a public one that is there already is that.

        Args:
            name: Of a public one; without a name it is private, and who knows its URI may use it.
            type: How it routes: ``fanout``, ``direct``, ``topic``, ``headers``, ``rotator``, ``service``, or empty.
            title: For people.
            license: Under which its messages may be used.

        Raises:
            AccessRefused: The user may not.
            Refused: It is there with another type; or the domain has no such type.
        """
        definition = FeedElement(name=name or None, type=type, title=title or None, license=license or None)
        feed = RestMSFeed(self, "", definition)
        await self._create(feed, definition)
        self._made.add(feed)
        return feed

    async def _create(self, feed: RestMSFeed, definition: FeedElement) -> None:
        document = Document(feeds=(definition,))
        reply = await self.requests.ask("POST", self.domain_path, document, again=definition.name is not None)
        feed.uri = location_of(reply.headers)

    async def restore(self, feed: RestMSFeed) -> bool:
        """Create a feed again that this program has made; return whether it was done."""
        if self.requests.policy is None or feed not in self._made or feed.definition is None:
            return False
        await self._create(feed, feed.definition)
        return True

    def forget(self, feed: RestMSFeed) -> None:
        """Never create a feed again."""
        self._made.discard(feed)

    # Pipes

    @asynccontextmanager
    async def open_pipe(self, type: str = "", *, title: str = "") -> AsyncIterator[RestMSPipe]:
        """Make a pipe that lives as long as a block; what it has then, unaccepted, is deleted with it.

        Args:
            type: Empty, or ``ondemand`` for workers at a rotator or a service: one message at a time.
            title: For people.

        Raises:
            AccessRefused: The user may not.
        """
        pipe = RestMSPipe(self, PipeElement(type=type, title=title or None))
        await pipe.make()
        try:
            yield pipe
            await pipe.close()
        except BaseException:  # whatever has ended the block, also when it was cancelled: the pipe goes with it
            pipe.stop()
            with trio.move_on_after(_CLOSE, shield=True), suppress(TriomqError):
                await pipe.delete()
            raise
        pipe.stop()
        with trio.move_on_after(_CLOSE):
            await pipe.delete()

    @asynccontextmanager
    async def resume_pipe(self, name: str) -> AsyncIterator[RestMSPipe]:
        """Read a pipe that is there, by its name, and leave it there at the end of the block.

        Raises:
            NotFound: It is gone, or another user's.
        """
        pipe = RestMSPipe(self, PipeElement())
        await pipe.find(name)
        try:
            yield pipe
            await pipe.close()
        finally:
            pipe.stop()

    def follow(self, pipe: RestMSPipe) -> None:
        """Have a pipe read, if it is not read already."""
        if pipe not in self._followed:
            assert self._nursery is not None  # it was started
            self._followed.add(pipe)
            self._nursery.start_soon(pipe.run)
