"""Making and deleting feeds, pipes and joins, with the rules of RestMS and the rights of a user, for any wire.

All of it happens in a turn. What is refused has changed nothing; what raises ``Restarting`` may be tried again.
"""

from collections.abc import Callable

import msgspec
import trio

from triomq.core import (
    Bind,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    QueueOptions,
    Session,
    SinkOptions,
    Unbind,
)
from triomq.endpoints.base.domain_work import DomainWork
from triomq.endpoints.feeds.book import FeedBook
from triomq.endpoints.feeds.feed import FeedView, find_feed, sink_kind
from triomq.endpoints.feeds.pipe import JoinHeaders, JoinState, PipeState
from triomq.endpoints.feeds.records import FeedRecord, PipeRecord
from triomq.endpoints.feeds.refusals import (
    DefaultFeedJoin,
    MayNotPost,
    MayNotRead,
    NoSuchFeed,
    NotAFeed,
    OnlySharedFeeds,
    OtherType,
    TooManyJoins,
)
from triomq.endpoints.feeds.words import (
    DEFAULT,
    FEED_PREFIX,
    MOST_JOIN_HEADERS,
    MOST_JOINS,
    ONDEMAND,
    PIPE_MARK,
    PIPE_PREFIX,
    new_hash,
    require_address,
    require_client_name,
    require_feed_name,
    require_type,
)
from triomq.errors import ActorError, QueueInUse, Refused

# Feeds


def make_feed(
    work: DomainWork, book: FeedBook, name: str, type_: str, *, title: str = "", license_: str = ""
) -> tuple[FeedView, bool]:
    """Make a feed, or find that there is one.

    Args:
        work: Who makes it.
        book: Of the domain.
        name: Its name; empty for a private one.
        type_: Its type; empty for the default one.
        title: For people.
        license_: For people.

    Returns:
        The feed, and whether it is new. One that was configured may have another type.

    Raises:
        BadFeedName: No feed can have that name.
        UnknownType: The domain has none of that type.
        OtherType: There is one, of another type.
        ReservedName: Such names are the broker's own.
        NotAFeed: Something else has the name.
        Refused: As ``DomainWork.ask`` does.
    """
    require_feed_name(name)
    require_type("feed", type_, book.profiles)
    if name:
        if (found := find_feed(book, name)) is not None:
            if type_ and type_ != found.type and not found.is_configured:
                raise OtherType(name, type_, found.type)
            return found, False
        _require_free(book, name)
    name = name or FEED_PREFIX + new_hash()
    kind = sink_kind(type_)
    if kind is None:
        work.ask(work.domain, DeclareQueue(name, QueueOptions(), work.session))
    else:
        work.ask(work.domain, DeclareSink(name, SinkOptions(kind=kind), work.session))
    book.put_feed(name, FeedRecord(type_, work.user, title, license_, book.now()))
    made = find_feed(book, name)
    assert made is not None
    return made, True


def require_post(work: DomainWork, feed: FeedView) -> None:
    """Require that a user may post to a feed.

    Raises:
        MayNotPost: It may not.
    """
    if not work.access.may_write(feed.written):
        raise MayNotPost(feed.name, feed.written)


def _require_free(book: FeedBook, name: str) -> None:
    require_client_name(name)
    directory = book.directory
    if name in directory.queues or name in directory.sinks or name.startswith((FEED_PREFIX, PIPE_PREFIX)):
        raise NotAFeed(name)


def change_feed(work: DomainWork, book: FeedBook, feed: FeedView, title: str, license_: str) -> None:
    """Give a feed another title and license.

    Raises:
        AccessRefused: The user may not.
    """
    work.require(work.access.may_configure, feed.name)
    book.put_feed(feed.name, FeedRecord(feed.type, feed.user, title, license_, book.now()))


def delete_feed(work: DomainWork, book: FeedBook, feed: FeedView) -> None:
    """Delete a feed, with all joins to it.

    Raises:
        ForeignResource: Another broker has made it.
        Refused: As ``DomainWork.ask`` does.
    """
    request = DeleteQueue(feed.name, work.session) if feed.is_queue else DeleteSink(feed.name, session=work.session)
    work.ask(work.domain, request)
    book.forget_feed(feed.name)


# Pipes


def make_pipe(work: DomainWork, book: FeedBook, type_: str, *, title: str = "") -> PipeState:
    """Make a pipe, with its own queue unless it is an ondemand one.

    Raises:
        UnknownType: The domain has none of that type.
        AccessRefused: The user may not make it, or not read it, so that it would be of no use.
        UserLimitReached: The user has as many queues as it may have, ondemand pipes among them.
        Refused: As ``DomainWork.ask`` does.
    """
    require_type("pipe", type_, book.profiles)
    name, now = PIPE_PREFIX + new_hash(), book.now()
    # An ondemand one has no queue, which would ask for the same right.
    work.require(work.access.may_configure, name)
    require_read(work, name)
    if type_ == ONDEMAND:
        book.directory.quotas.require("create an ondemand pipe", work.user, "queues")
    else:
        limits = book.limits
        options = QueueOptions(
            max_length=limits.messages or None,
            max_bytes=limits.size or None,
            overflow=limits.overflow,
            remarks=PIPE_MARK,
            private=True,
        )
        work.ask(work.domain, DeclareQueue(name, options, work.session))
    pipe = PipeState(name, PipeRecord(type_, work.user, title, now), book, now)
    book.put_pipe(pipe, is_new=True)
    return pipe


def require_read(work: DomainWork, pipe: str) -> None:
    """Require that a user may read a pipe.

    Raises:
        MayNotRead: It may not.
    """
    if not work.access.may_read(pipe):
        raise MayNotRead("pipe", pipe)


def change_pipe(work: DomainWork, pipe: PipeState, title: str) -> None:
    """Give a pipe another title.

    Raises:
        AccessRefused: The user may not.
    """
    work.require(work.access.may_configure, pipe.name)
    now = pipe.book.now()
    pipe.record = msgspec.structs.replace(pipe.record, title=title, modified=now)
    pipe.book.put_pipe(pipe)
    pipe.changed(now)


def delete_pipe(work: DomainWork, pipe: PipeState) -> None:
    """Delete a pipe: what it has of shared queues goes back to them, marked, and its own messages end with it.

    Raises:
        AccessRefused: The user may not.
        Restarting: It cannot be done now; nothing takes from the pipe meanwhile.
    """
    work.require(work.access.may_configure, pipe.name)
    _delete_pipe(pipe, work.session, lambda request: work.ask_unguarded(work.domain, request))


def discard_pipe(pipe: PipeState) -> bool:
    """Delete a pipe as the broker itself, which needs no right to it; otherwise as ``delete_pipe``.

    Returns:
        Whether it is done; else its queue is being restarted, or was stopped, and it may be tried again later.
    """
    ref = pipe.book.ref
    try:
        _delete_pipe(pipe, Session(ref, pipe.book.directory), ref.ask_nowait)
    except (Refused, ActorError, trio.WouldBlock):
        return False
    return True


_Ask = Callable[[DeleteQueue], object]


def _delete_pipe(pipe: PipeState, session: Session, ask: _Ask) -> None:
    book = pipe.book
    pipe.end_taking("the pipe was deleted")
    joins = list(pipe.joins.values())
    if not pipe.is_ondemand and pipe.name in book.directory.queues:
        # Its bindings end with it, also those that the user might not undo. Where this has to be tried again, the pipe
        # is still there.
        ask(DeleteQueue(pipe.name, session))
    book.forget_pipe(pipe)
    for join in joins:
        _end_service(book, join, session, ask)


# Joins


def make_join(
    work: DomainWork,
    pipe: PipeState,
    feed: FeedView,
    address: str = "*",
    headers: JoinHeaders = (),
    *,
    type_: str = "",
) -> tuple[JoinState, bool]:
    """Join a pipe to a feed, or find that it is.

    Args:
        work: Who does it.
        pipe: The pipe.
        feed: The feed.
        address: What the feed compares with that of a message, if its type does.
        headers: What a feed of the type headers compares.
        type_: The type of the join; there is none but the empty one.

    Returns:
        The join, and whether it is new.

    Raises:
        BadAddress: No join can have such an address.
        UnknownType: There is no such type.
        DefaultFeedJoin: The feed is the default one.
        OnlySharedFeeds: The pipe is an ondemand one, and the feed a sink.
        TooManyJoins: The pipe has as many as it may, or the join too many headers.
        MayNotRead: The user may not take from the shared queue.
        Refused: As ``DomainWork.ask`` and ``DomainWork.subscribe`` do.
    """
    book = pipe.book
    require_address(address)
    require_type("join", type_, book.profiles)
    if feed.name == DEFAULT:
        raise DefaultFeedJoin
    if pipe.is_ondemand and not feed.is_queue:
        raise OnlySharedFeeds(feed.name)
    found = pipe.find_join(feed, address, headers)
    if found is not None and found.is_there:
        return found, False
    if found is not None:
        book.forget_join(found)  # what it led from was deleted, and another one made
    if len(pipe.joins) >= MOST_JOINS:
        raise TooManyJoins(f"pipe {pipe.name!r} has {len(pipe.joins):,} joins, and", MOST_JOINS)
    if len(headers) > MOST_JOIN_HEADERS:
        raise TooManyJoins(f"the join has {len(headers):,} headers, and", MOST_JOIN_HEADERS)
    join = JoinState(new_hash(), pipe, pipe.join_record(feed, address, headers))
    if not feed.is_queue:
        work.ask(work.domain, Bind(join.binding, work.session))
    elif not work.access.may_read(feed.name):
        raise MayNotRead("feed", feed.name)
    else:
        book.directory.quotas.require(f"join a pipe to {feed.name!r}", work.user, "bindings")
        pipe.open_queue(feed.name)
    book.put_join(join)
    pipe.changed(join.record.modified)
    return join, True


def feed_to_join(book: FeedBook, name: str) -> FeedView:
    """Return the feed of a name.

    Raises:
        NoSuchFeed: There is none.
    """
    feed = find_feed(book, name)
    if feed is None:
        raise NoSuchFeed(name)
    return feed


def delete_join(work: DomainWork, join: JoinState) -> None:
    """Delete a join; a service is deleted with its last one.

    Raises:
        Refused: As ``DomainWork.ask`` does.
    """
    pipe = join.pipe
    if not join.record.is_queue and join.is_there:
        work.ask(work.domain, Unbind(join.binding, work.session))
    pipe.book.forget_join(join)
    if join.record.is_queue:
        pipe.close_queue(join.record.feed)
    _end_service(pipe.book, join, work.session, lambda request: work.ask_unguarded(work.domain, request))
    pipe.changed(pipe.book.now())


def _end_service(book: FeedBook, join: JoinState, session: Session, ask: _Ask) -> None:
    """Delete a service whose last join has gone, unless it has consumers over other protocols."""
    name = join.record.feed
    record = book.feeds.get(name)
    if not join.record.is_queue or record is None or record.type != "service" or book.shared_joins[name]:
        return
    try:
        ask(DeleteQueue(name, session, if_unused=True))
    except QueueInUse:
        return
    book.forget_feed(name)
