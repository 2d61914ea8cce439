"""All that has a URI of its own in RestMS, beside what the directories of the domains have; outlives endpoints.

    RestMSResources ── found: hash ──▶ PipeMessage, StagedContent
        └─ RestMSDomain, one for each domain that is shown
              ├─ book: feeds, pipes and joins, whatever wire they were made over
              └─ pipes that were asked for, and who has them awake: RestMSClient

Several endpoints of one broker, with TLS and without, show the same resources.
"""

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from triomq.core import Directory, Overflow, Window
from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.feeds import (
    FeedBook,
    JoinState,
    PipeLimits,
    PipeState,
    feed_book,
)
from triomq.endpoints.restms.pipes import PipeMessage, ServedPipe, make_pipe_window
from triomq.endpoints.restms.staged import StagedAccount, StagedContent

if TYPE_CHECKING:
    from triomq.endpoints.restms.client import RestMSClient
    from triomq.endpoints.restms.config import RestMS


class PrivateFeed(msgspec.Struct, frozen=True, eq=False):
    """What the hash of a private feed (RestMS's word) stands for."""

    domain: "RestMSDomain"
    name: str


HashedResource: TypeAlias = ServedPipe | PipeMessage | JoinState | StagedContent | PrivateFeed
"""Whatever has a hash."""


class RestMSDomain:
    """One domain as RestMS shows it.

    Args:
        resources: Of the broker.
        book: Of the domain.
        config: Limits of pipes, as the endpoint that came first has them.
    """

    def __init__(self, resources: "RestMSResources", book: FeedBook, config: "RestMS") -> None:
        self.resources = resources
        self.book = book
        self.directory: Directory = book.directory
        self.config = config
        self.pipes: dict[str, ServedPipe] = {}
        """Those that were asked for."""
        self.clients: dict[str, RestMSClient] = {}
        """By their users."""
        self._version = -1
        self._since = 0.0
        book.has_types = self.name not in config.defaults_only
        book.limits = PipeLimits(config.pipe_messages, config.pipe_bytes, Overflow(config.overflow))

    @property
    def name(self) -> str:
        """The domain's name."""
        return self.directory.name

    def looked(self) -> float:
        """Return since when its directory is as it is now, as far as anybody has looked; in Unix time."""
        if self._version != self.directory.version:
            self._version, self._since = self.directory.version, self.now()
        return self._since

    def now(self) -> float:
        """Return the time, in Unix time."""
        return self.book.now()

    def make_window(self, *, ondemand: bool) -> Window:
        """Return the window of a new pipe."""
        return make_pipe_window(self.config.window, self.config.window_bytes, ondemand=ondemand)

    def serve(self, pipe: PipeState) -> ServedPipe:
        """Return a pipe as it is served."""
        served = self.pipes.get(pipe.name)
        if served is None:
            served = self.pipes[pipe.name] = ServedPipe(pipe, self)
        return served

    def is_waited_for(self, pipe: PipeState) -> bool:
        """Return whether requests wait for something of a pipe, or somebody takes from it over another wire."""
        served = self.pipes.get(pipe.name)
        if served is not None and served.is_waited_for:
            return True
        return any(taker is not served for taker in pipe.takers)

    def find(self, hash_: str) -> "HashedResource | None":
        """Return what a hash stands for here, but for messages and contents."""
        pipe = self.book.pipes.get(hash_)
        if pipe is not None:
            return self.serve(pipe)
        return PrivateFeed(self, hash_) if self.book.has_private(hash_) else self.book.joins.get(hash_)


class RestMSResources:
    """What the RestMS endpoints of a broker share; made by the first one, lasts as long as the broker.

    Args:
        context: What the broker lends.
    """

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.found: dict[str, PipeMessage | StagedContent] = {}
        """Messages and contents, by their hashes; books know the rest."""
        self.domains: dict[str, RestMSDomain] = {}
        self.contents: dict[StagedContent, None] = {}
        """Those that are staged."""
        self.staged = StagedAccount()

    def show(self, config: "RestMS") -> None:
        """Show the domains of an endpoint, unless another one shows them already."""
        for name in config.domains:
            if name in self.context.domains and name not in self.domains:
                self.domains[name] = RestMSDomain(self, feed_book(self.context, name), config)

    def add_content(self, content: StagedContent) -> None:
        """Let a content be found that is staged."""
        self.found[content.hash] = content
        self.contents[content] = None

    def find(self, hash_: str) -> HashedResource | None:
        """Return what a hash stands for."""
        found: HashedResource | None = self.found.get(hash_)
        domains = iter(self.domains.values())
        while found is None and (domain := next(domains, None)) is not None:
            found = domain.find(hash_)
        return found

    def serve(self, pipe: PipeState) -> ServedPipe:
        """Return a pipe as it is served."""
        return self.domains[pipe.book.directory.name].serve(pipe)

    def find_pipe_of_default_join(self, hash_: str) -> ServedPipe | None:
        """Return the pipe whose default join has a hash."""
        for domain in self.domains.values():
            if (pipe := domain.book.pipe_of_default_join(hash_)) is not None:
                return domain.serve(pipe)
        return None


def restms_resources(context: BrokerContext) -> RestMSResources:
    """Return what the RestMS endpoints of a broker share."""
    found = context.lasting.get("RestMS")
    if found is None:
        found = context.lasting["RestMS"] = RestMSResources(context)
    assert isinstance(found, RestMSResources)
    return found
