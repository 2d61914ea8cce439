"""Requests about domains, feeds (RestMS's word), pipes and joins: what has documents that are made and changed."""

from triomq.endpoints import feeds
from triomq.endpoints.feeds import DEFAULT, FeedView, find_feed
from triomq.endpoints.restms.calls import Refusal, RestMSCall, require
from triomq.endpoints.restms.listing import DomainListing
from triomq.endpoints.restms.pipes import ServedPipe
from triomq.endpoints.restms.views import feed_uri, view_feed, view_join, view_pipe
from triomq.protocols import restms

# Domains


def get_root(call: RestMSCall) -> None:
    """List the domains."""
    call.choose()
    endpoint = call.connection.endpoint_of_restms
    found = [
        restms.DomainElement(name=name, title=name, href=call.links.domain(name))
        for name in endpoint.resources.domains
        if endpoint.context.users.access(call.user, name).may_enter
    ]
    call.show(restms.Document(domains=tuple(found)), 0.0)


def get_description(call: RestMSCall) -> None:
    """Say what can be asked for, to programs."""
    call.answer(200, restms.openapi(), {"content-type": "application/json"})


def get_domain(call: RestMSCall) -> None:
    """Show a domain with its public feeds."""
    call.choose()
    _ = call.client  # who may not enter sees nothing
    DomainListing(call).go_on()


def post_to_domain(call: RestMSCall) -> None:
    """Make a feed or a pipe."""

    def take(document: restms.Document) -> None:
        resource = require(restms.posted(document, on="domain"))
        if isinstance(resource, restms.FeedElement):
            _make_feed(call, resource)
        elif isinstance(resource, restms.PipeElement):
            _make_pipe(call, resource)

    _ = call.client  # who may not enter makes nothing, and does not hear what is there
    call.read_document(take)


def _make_feed(call: RestMSCall, wanted: restms.FeedElement) -> None:
    feed, is_new = feeds.make_feed(
        call.client,
        call.domain.book,
        wanted.name or "",
        wanted.type or "",
        title=wanted.title or "",
        license_=wanted.license or "",
    )
    _show_feed(call, feed, is_new=is_new)


def _show_feed(call: RestMSCall, feed: FeedView, *, is_new: bool) -> None:
    location = feed_uri(call.domain.book, feed.name, call.links)
    document = restms.Document(feeds=(view_feed(call.domain, feed, call.links),))
    call.made(document, feed.modified, location, is_new=is_new)


def _make_pipe(call: RestMSCall, wanted: restms.PipeElement) -> None:
    client = call.client
    pipe = call.domain.serve(feeds.make_pipe(client, call.domain.book, wanted.type or "", title=wanted.title or ""))
    client.wake(pipe)
    document = restms.Document(pipes=(view_pipe(pipe, call.links),))
    call.made(document, pipe.modified, call.links.resource(pipe.name), is_new=True)


# Feeds


def _feed_of(call: RestMSCall) -> FeedView:
    assert call.target.feed is not None
    return call.target.feed


def get_feed(call: RestMSCall) -> None:
    """Show a feed."""
    call.choose()
    _ = call.client
    feed = _feed_of(call)
    call.show(restms.Document(feeds=(view_feed(call.domain, feed, call.links),)), feed.modified)


def put_feed(call: RestMSCall) -> None:
    """Give a feed another title or license."""
    if not call.request.length and call.request.length is not None:
        call.answer(204)
        return

    def take(document: restms.Document) -> None:
        feed, client = _feed_of(call), call.client
        view = view_feed(call.domain, feed, call.links)
        changes = require(restms.changed(document, view))
        call.require_unchanged(lambda: restms.Document(feeds=(view,)), feed.modified)
        title = feed.title if changes.title is None else changes.title
        license_ = feed.license if changes.license is None else changes.license
        feeds.change_feed(client, call.domain.book, feed, title, license_)
        call.connection.hold_until_safe(call.domain)
        changed = find_feed(call.domain.book, feed.name)
        assert changed is not None
        call.show(restms.Document(feeds=(view_feed(call.domain, changed, call.links),)), changed.modified)

    call.read_document(take)


def delete_feed(call: RestMSCall) -> None:
    """Delete a feed with all joins to it."""
    feed, client = _feed_of(call), call.client
    call.require_unchanged(lambda: restms.Document(feeds=(view_feed(call.domain, feed, call.links),)), feed.modified)
    feeds.delete_feed(client, call.domain.book, feed)
    call.connection.hold_until_safe(call.domain)
    call.done()


# Pipes


def pipe_of(call: RestMSCall) -> ServedPipe:
    """Return the pipe that is asked for."""
    assert call.target.pipe is not None
    return call.target.pipe


def put_pipe(call: RestMSCall) -> None:
    """Give a pipe another title (C6)."""
    if not call.request.length and call.request.length is not None:
        call.answer(204)
        return

    def take(document: restms.Document) -> None:
        pipe = pipe_of(call)
        call.wake(pipe)
        view = view_pipe(pipe, call.links)
        changes = require(restms.changed(document, view))
        call.require_unchanged(lambda: restms.Document(pipes=(view,)), pipe.modified)
        if changes.title is not None:
            feeds.change_pipe(call.client, pipe.state, changes.title)
            call.connection.hold_until_safe(call.domain)
        call.show(restms.Document(pipes=(view_pipe(pipe, call.links),)), pipe.modified)

    call.read_document(take)


def delete_pipe(call: RestMSCall) -> None:
    """Delete a pipe with what it has."""
    pipe, client = pipe_of(call), call.client
    call.require_unchanged(lambda: restms.Document(pipes=(view_pipe(pipe, call.links),)), pipe.modified)
    feeds.delete_pipe(client, pipe.state)
    call.connection.hold_until_safe(call.domain)
    call.done()


# Joins


def post_to_pipe(call: RestMSCall) -> None:
    """Join a pipe to a feed, or find that it is."""

    def take(document: restms.Document) -> None:
        join = require(restms.posted(document, on="pipe"))
        assert isinstance(join, restms.JoinElement)
        _make_join(call, join)

    call.read_document(take)


def _make_join(call: RestMSCall, wanted: restms.JoinElement) -> None:
    pipe, feed = pipe_of(call), _feed_to_join(call, wanted)
    address = "*" if wanted.address is None else wanted.address
    headers = tuple((header.name or "", header.value or "") for header in wanted.headers)
    call.wake(pipe)
    join, is_new = feeds.make_join(call.client, pipe.state, feed, address, headers, type_=wanted.type or "")
    document = restms.Document(joins=(view_join(join, call.links),))
    call.made(document, join.record.modified, call.links.resource(join.hash), is_new=is_new)


def _feed_to_join(call: RestMSCall, wanted: restms.JoinElement) -> FeedView:
    assert wanted.feed is not None  # ``posted`` wants it
    route = require(restms.route(wanted.feed))
    name = route.name
    if route.kind == "feed":
        is_here = (route.domain or "default") == call.domain.name
    else:
        is_here = route.kind == "resource" and name in call.domain.book.feeds
    feed = find_feed(call.domain.book, name) if is_here else None
    if feed is None:
        raise Refusal(restms.no_feed(wanted.feed))
    return feed


def get_join(call: RestMSCall) -> None:
    """Show a join."""
    call.choose()
    join = call.target.join
    if join is None:
        pipe = pipe_of(call)
        default = call.links.feed(DEFAULT, call.domain.name)
        view, modified = restms.JoinElement(type="", address=pipe.name, feed=default), pipe.state.record.modified
    else:
        view, modified = view_join(join, call.links), join.record.modified
    call.show(restms.Document(joins=(view,)), modified)


def delete_join(call: RestMSCall) -> None:
    """Delete a join."""
    join = call.target.join
    assert join is not None
    call.require_unchanged(lambda: restms.Document(joins=(view_join(join, call.links),)), join.record.modified)
    feeds.delete_join(call.client, join)
    call.connection.hold_until_safe(call.domain)
    call.done()
