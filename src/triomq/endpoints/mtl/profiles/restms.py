"""The profile ``restms``: RestMS's feeds, pipes and joins, by the names that class 61501 of AMQP has for them.

Writers have resources ``feed/<name>``, readers ``pipe/<name>``. A pipe that was made here is the same over HTTP, and
the other way round; a user sees its own alone.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf
from typing import Final

import msgspec
import trio

from triomq.endpoints.base.context import BrokerContext
from triomq.endpoints.base.domain_work import DomainWork
from triomq.endpoints.feeds import (
    DEFAULT,
    AbandonedPipes,
    DefaultFeedJoin,
    FeedBook,
    FeedView,
    FixedFeed,
    JoinState,
    NoSuchFeed,
    NoSuchJoin,
    NoSuchPipe,
    PipeState,
    delete_feed,
    delete_join,
    delete_pipe,
    feed_book,
    feed_names,
    feed_to_join,
    find_feed,
    find_public,
    make_feed,
    make_join,
    make_pipe,
    require_post,
    require_read,
)
from triomq.endpoints.mtl.profile import BadRequest, ContentSource, ContentTarget, ResourceProfile, command, profile
from triomq.endpoints.mtl.profiles.names import ListArguments, page_of, require_name
from triomq.errors import NotFound
from triomq.protocols.control import sayable

FEED: Final = "feed/"
PIPE: Final = "pipe/"

_SHOWN_JOINS: Final = 1_000
"""Joins of a pipe in one answer."""


class CreateFeed(msgspec.Struct, frozen=True):
    """Of ``Feed.Create``.

    Args:
        name: The feed's name; without one it is private.
        type: One of RestMS's types; empty for the default one.
        title: For people.
        license: For people.
        private: Whether it gets a name that nobody can guess, whatever ``name`` is.
    """

    name: str = ""
    type: str = ""
    title: str = ""
    license: str = ""
    private: bool = False


class NamedFeed(msgspec.Struct, frozen=True):
    """Of a command about one feed.

    Args:
        name: The feed's name.
    """

    name: str


class CreatePipe(msgspec.Struct, frozen=True):
    """Of ``Pipe.Create``.

    Args:
        type: Empty, or ``ondemand`` for one that has one message at a time, of rotators and services.
        title: For people.
    """

    type: str = ""
    title: str = ""


class NamedPipe(msgspec.Struct, frozen=True):
    """Of a command about one pipe.

    Args:
        name: The pipe's name, as ``Pipe.Create`` has returned it.
    """

    name: str


class CreateJoin(msgspec.Struct, frozen=True):
    """Of ``Join.Create``.

    Args:
        pipe: The pipe's name.
        feed: The feed's name.
        address: What the feed compares with a message's address.
        headers: What a feed of the type ``headers`` compares with a message's headers.
    """

    pipe: str
    feed: str
    address: str = "*"
    headers: Mapping[str, str] = {}


class DeleteJoin(msgspec.Struct, frozen=True):
    """Of ``Join.Delete``: by its id, or by all that it was made with.

    Args:
        id: What ``Join.Create`` has returned.
        pipe: Without an id, the pipe's name.
        feed: The feed's name.
        address: The address.
        headers: The headers.
    """

    id: str = ""
    pipe: str = ""
    feed: str = ""
    address: str = "*"
    headers: Mapping[str, str] = {}


class ListJoins(msgspec.Struct, frozen=True):
    """Of ``Join.List``.

    Args:
        pipe: The pipe's name.
        after: The id behind which the list goes on.
    """

    pipe: str
    after: str = ""


_LOOK: Final = 60.0
"""Seconds between two looks for pipes whose users are gone, at least."""


@profile("restms")
class FeedsProfile(ResourceProfile):
    """Feeds to write to, pipes to read from, joins between them.

    Args:
        context: What the broker lends.
    """

    def __init__(self, context: BrokerContext) -> None:
        super().__init__(context)
        self._abandoned = AbandonedPipes(context.users)
        self._looked = -inf

    def prepare(self, work: DomainWork) -> None:
        """Delete pipes whose users are gone, now and then: nobody might serve RestMS over HTTP, which does the same."""
        now = trio.current_time()
        if now >= self._looked + _LOOK:
            self._looked = now
            self._abandoned.look([feed_book(self.context, domain) for domain in self.context.domains])

    @command("Feed.Create", CreateFeed)
    def create_feed(self, work: DomainWork, arguments: CreateFeed) -> dict[str, object]:
        """Make a feed, or find that there is one."""
        name = "" if arguments.private else arguments.name
        if name:
            require_name(name, "feed", FEED)
        feed, is_new = make_feed(
            work, self._book(work), name, arguments.type, title=arguments.title, license_=arguments.license
        )
        return {"name": feed.name, "type": feed.type, "created": is_new}

    @command("Feed.Delete", NamedFeed)
    def delete_feed(self, work: DomainWork, arguments: NamedFeed) -> dict[str, object]:
        """Delete a feed with its joins; nothing if there is none."""
        book = self._book(work)
        feed = find_feed(book, arguments.name)
        if feed is None:
            return {"deleted": False}
        user = self.context.users.get(work.user)
        if not feed.is_changed_by(work.user, is_administrator=user is not None and user.is_administrator):
            raise FixedFeed(feed.name)
        delete_feed(work, book, feed)
        return {"deleted": True}

    @command("Feed.Get", NamedFeed)
    def get_feed(self, work: DomainWork, arguments: NamedFeed) -> dict[str, object]:
        """Show a feed, and how many joins lead from it."""
        book = self._book(work)
        feed = find_feed(book, arguments.name)
        if feed is None:
            raise NoSuchFeed(arguments.name)
        sink = work.directory.sinks.get(feed.name)
        joins = book.shared_joins[feed.name] if feed.is_queue or sink is None else len(sink.bindings)
        return {**_shown_feed(feed), "license": sayable(feed.license), "joins": joins}

    @command("Feed.List", ListArguments)
    def list_feeds(self, work: DomainWork, arguments: ListArguments) -> dict[str, object]:
        """List the public feeds."""
        book = self._book(work)
        feeds: dict[str, FeedView] = {}

        def is_public(name: str) -> bool:
            feed = find_public(book, name)
            if feed is not None:
                feeds[name] = feed
            return feed is not None

        _, more = page_of(work, set(feed_names(book)), arguments, is_public)
        return {"feeds": [_shown_feed(feed) for feed in feeds.values()], **more}

    @command("Pipe.Create", CreatePipe)
    def create_pipe(self, work: DomainWork, arguments: CreatePipe) -> dict[str, object]:
        """Make a pipe, which is joined to the feed ``default`` by its name."""
        pipe = make_pipe(work, self._book(work), arguments.type, title=arguments.title)
        return {"name": pipe.name, "type": pipe.record.type, "created": True}

    @command("Pipe.Delete", NamedPipe)
    def delete_pipe(self, work: DomainWork, arguments: NamedPipe) -> dict[str, object]:
        """Delete a pipe with its joins and messages; nothing if there is none."""
        try:
            pipe = self._pipe(work, arguments.name)
        except NoSuchPipe:
            return {"deleted": False}
        delete_pipe(work, pipe)
        return {"deleted": True}

    @command("Pipe.Get", NamedPipe)
    def get_pipe(self, work: DomainWork, arguments: NamedPipe) -> dict[str, object]:
        """Show a pipe: how many messages wait in it, and its joins."""
        pipe = self._pipe(work, arguments.name)
        return {**_shown_pipe(pipe), **_joins_of(pipe, "")}

    @command("Pipe.List", ListArguments)
    def list_pipes(self, work: DomainWork, arguments: ListArguments) -> dict[str, object]:
        """List the pipes of the client's user."""
        pipes = {name: pipe for name, pipe in self._book(work).pipes.items() if pipe.record.user == work.user}
        names, more = page_of(work, pipes, arguments, lambda name: True)
        return {"pipes": [_shown_pipe(pipes[name]) for name in names], **more}

    @command("Join.Create", CreateJoin)
    def create_join(self, work: DomainWork, arguments: CreateJoin) -> dict[str, object]:
        """Join a pipe to a feed, or find that it is."""
        pipe = self._pipe(work, arguments.pipe)
        feed = feed_to_join(pipe.book, arguments.feed)
        join, is_new = make_join(work, pipe, feed, arguments.address, tuple(arguments.headers.items()))
        return {"id": join.hash, "created": is_new}

    @command("Join.Delete", DeleteJoin)
    def delete_join(self, work: DomainWork, arguments: DeleteJoin) -> dict[str, object]:
        """Delete a join; nothing if there is none."""
        join = self._join(work, arguments)
        if join is None:
            return {"deleted": False}
        delete_join(work, join)
        return {"deleted": True}

    @command("Join.List", ListJoins)
    def list_joins(self, work: DomainWork, arguments: ListJoins) -> dict[str, object]:
        """List the joins of a pipe, in the order in which they were made."""
        return _joins_of(self._pipe(work, arguments.pipe), arguments.after)

    # Resources

    def target(self, work: DomainWork, resource: str) -> ContentTarget:
        """Return the sink or the shared queue that a feed is."""
        name = resource.removeprefix(FEED)
        feed = find_feed(self._book(work), name) if resource.startswith(FEED) else None
        if feed is None:
            raise NoSuchFeed(name)
        require_post(work, feed)
        if feed.is_queue:
            return ContentTarget("", key=feed.name, queue=feed.name, address_as_id=True)
        return ContentTarget(feed.sink, by_address=True)

    def require_reader(self, work: DomainWork, resource: str) -> None:
        """See that a client may read a pipe."""
        self.source(work, resource)

    def source(self, work: DomainWork, resource: str) -> ContentSource:
        """Return the queues that a pipe takes from, as they come and go."""
        if not resource.startswith(PIPE):
            raise NoSuchPipe(resource)
        pipe = self._pipe(work, resource.removeprefix(PIPE))
        require_read(work, pipe.name)
        return ContentSource(queues=pipe, most=1 if pipe.is_ondemand else 0)

    def resources(self, work: DomainWork, *, reading: bool) -> Iterable[str]:
        """List the user's pipes, or the public feeds that it may write to."""
        book = self._book(work)
        if reading:
            pipes = (name for name, pipe in book.pipes.items() if pipe.record.user == work.user)
            return [PIPE + name for name in page_of(work, pipes, ListArguments(), lambda name: True)[0]]

        def may_write(name: str) -> bool:
            feed = find_public(book, name)
            return feed is not None and work.access.may_write(feed.written)

        return [FEED + name for name in page_of(work, set(feed_names(book)), ListArguments(), may_write)[0]]

    # What is asked for

    def _book(self, work: DomainWork) -> FeedBook:
        return feed_book(self.context, work.directory.name)

    def _pipe(self, work: DomainWork, name: str) -> PipeState:
        pipe = self._book(work).pipe_of(work.user, name)
        pipe.used = pipe.book.now()
        return pipe

    def _join(self, work: DomainWork, arguments: DeleteJoin) -> JoinState | None:
        """Find a join of the user's.

        Raises:
            DefaultFeedJoin: It is the pipe's own.
            BadRequest: It cannot be told which is meant.
        """
        if arguments.id:
            return self._join_of_id(work, arguments.id)
        if not arguments.pipe or not arguments.feed:
            raise BadRequest("Join.Delete takes the id of a join, or its pipe, feed and address")
        if arguments.feed == DEFAULT:
            raise DefaultFeedJoin
        try:
            pipe = self._pipe(work, arguments.pipe)
            feed = feed_to_join(pipe.book, arguments.feed)
        except NotFound:
            return None
        return pipe.find_join(feed, arguments.address, tuple(arguments.headers.items()))

    def _join_of_id(self, work: DomainWork, id_: str) -> JoinState | None:
        book = self._book(work)
        join = book.joins.get(id_)
        if join is not None:
            return join if join.pipe.record.user == work.user else None
        pipe = book.pipe_of_default_join(id_)
        if pipe is not None and pipe.record.user == work.user:
            raise DefaultFeedJoin
        return None


def _shown_feed(feed: FeedView) -> dict[str, object]:
    return {"name": feed.name, "type": feed.type, "title": sayable(feed.title)}


def _shown_pipe(pipe: PipeState) -> dict[str, object]:
    return {
        "name": pipe.name,
        "type": pipe.record.type,
        "title": sayable(pipe.record.title),
        "messages": pipe.waiting,
        "readers": len(pipe.takers),
    }


def _joins_of(pipe: PipeState, after: str) -> dict[str, object]:
    """Return some joins of a pipe, its own to the default feed first, and where the list goes on."""
    joins = pipe.present_joins()
    start = 0
    if after:
        places = [place for place, join in enumerate(joins, 1) if join.hash == after]
        if not places:
            raise NoSuchJoin(after)
        start = places[0]
    page = list(islice(joins, start, start + _SHOWN_JOINS))
    shown = [_shown_join(join) for join in page]
    if not after and pipe.default_join:
        shown.insert(0, {"id": pipe.default_join, "feed": DEFAULT, "address": pipe.name})
    more = {"after": page[-1].hash} if start + len(page) < len(joins) else {}
    return {"joins": shown, **more}


def _shown_join(join: JoinState) -> dict[str, object]:
    record = join.record
    shown: dict[str, object] = {
        "id": join.hash,
        "feed": sayable(record.feed),
        "address": sayable(record.address),
    }
    headers = {sayable(name): sayable(value) for name, value in record.headers}
    return {**shown, "headers": headers} if headers else shown
