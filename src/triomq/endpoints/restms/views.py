"""What resources look like: from what is there now to documents, with absolute URIs."""

from typing import TYPE_CHECKING, Final

import msgspec

from triomq.core import QueueMessage
from triomq.endpoints.content import AMQP_CODEC, to_amqp
from triomq.endpoints.feeds import DEFAULT, FeedBook, FeedView, JoinState
from triomq.errors import ProtocolError
from triomq.protocols import BasicProperties, decode_properties, read_property, restms

if TYPE_CHECKING:
    from triomq.core import Codecs
    from triomq.endpoints.restms.pipes import PipeMessage, ServedPipe
    from triomq.endpoints.restms.resources import RestMSDomain

LARGEST_EMBEDDED: Final = 64 * 1024
"""Bytes of a body above which a message has the URI of its content: a document of a page of messages stays readable."""

LARGEST_PROPERTIES: Final = 2048
"""Bytes of properties above which the list of a pipe does not show what is in them, where that takes time."""

CONTENT: Final = "content-"
"""What the hash of a delivered content begins with; that of its message follows."""

_NOTHING: Final = BasicProperties()


def view_domain(domain: "RestMSDomain") -> restms.DomainElement:
    """Return a domain with its profiles, and without its feeds (RestMS's word), of which there may be very many."""
    return restms.DomainElement(
        name=domain.name,
        title=domain.name,
        profiles=tuple(map(_view_profile, domain.book.profiles)),
    )


def _view_profile(name: str) -> restms.ProfileElement:
    return restms.ProfileElement(name=name, title=f"RestMS profile {name}", href=f"http://www.restms.org/spec:{name}")


def view_feed(
    domain: "RestMSDomain", feed: FeedView, links: restms.Links, *, listed: bool = False
) -> restms.FeedElement:
    """Return a feed (RestMS's word), with its URI where it is listed."""
    return restms.FeedElement(
        name=feed.name,
        type=feed.type,
        title=feed.title,
        license=feed.license,
        href=links.feed(feed.name, domain.name) if listed else None,
    )


def feed_uri(book: FeedBook, name: str, links: restms.Links) -> str:
    """Return where a feed (RestMS's word) is: a private one by its hash."""
    return links.resource(name) if book.has_private(name) else links.feed(name, book.directory.name)


def view_pipe(pipe: "ServedPipe", links: restms.Links) -> restms.PipeElement:
    """Return a pipe with its joins, messages and asynclet; joins that lead from nothing any more are dropped."""
    domain, state = pipe.domain, pipe.state
    joins = []
    if state.default_join:
        default = links.feed(DEFAULT, domain.name)
        joins.append(
            restms.JoinElement(href=links.resource(state.default_join), type="", address=pipe.name, feed=default)
        )
    joins += [view_join(join, links, listed=True) for join in state.present_joins()]
    messages = [_listed(message, links) for message in pipe.messages.values()]
    asynclet = restms.MessageElement(href=links.resource(pipe.asynclet.hash), asynclet="1")
    record = state.record
    return restms.PipeElement(
        name=pipe.name,
        type=record.type,
        title=record.title,
        size=str(pipe.size),
        joins=tuple(joins),
        messages=(*messages, asynclet),
    )


def _listed(message: "PipeMessage", links: restms.Links) -> restms.MessageElement:
    """Return what a pipe's document has of a message."""
    return restms.MessageElement(
        href=links.resource(message.hash), address=_address(message), message_id=_message_id(message)
    )


def _message_id(message: "PipeMessage") -> str | None:
    found = message.message
    if found.head.traits.codec == AMQP_CODEC:
        return read_property(found.properties, "message_id") if found.properties else None
    # Of others all has to be decoded. What has so much is asked for by those who want it.
    is_small = len(found.properties) <= LARGEST_PROPERTIES
    return properties_of(found, message.pipe.domain.directory.codecs).message_id if is_small else None


def view_join(join: JoinState, links: restms.Links, *, listed: bool = False) -> restms.JoinElement:
    """Return a join, with its URI where it is listed."""
    record = join.record
    return restms.JoinElement(
        href=links.resource(join.hash) if listed else None,
        type="",
        address=record.address,
        feed=feed_uri(join.pipe.book, record.feed, links),
        headers=tuple(restms.HeaderElement(name, value) for name, value in record.headers),
    )


def view_message(message: "PipeMessage", links: restms.Links, *, listed: bool = False) -> restms.MessageElement:
    """Return a message as it was posted, its content embedded if it is not large; with its URI where it is listed."""
    found = message.message
    assert message.batch is not None
    properties = properties_of(found, message.pipe.domain.directory.codecs)
    body, content = found.body, None
    if not message.has_content:
        properties = msgspec.structs.replace(properties, content_type=None)
        body = b""
    elif len(body) > LARGEST_EMBEDDED:
        href = links.resource(CONTENT + message.hash)
        content, body = restms.ContentElement(href=href, type=properties.content_type), b""
    view = restms.message_of(
        properties,
        body,
        address="",
        redelivered=message.batch.redelivered,
        href=links.resource(message.hash) if listed else None,
    )
    contents = view.contents if content is None else (content,)
    return msgspec.structs.replace(view, address=_address(message), contents=contents)


def properties_of(message: QueueMessage, codecs: "Codecs") -> BasicProperties:
    """Return the properties of a message, whatever it came by; none if they cannot be read."""
    encoded = message.properties
    try:
        if message.head.traits.codec != AMQP_CODEC:
            found = codecs.read(message)
            encoded = b"" if found is None else to_amqp(found)
        return decode_properties(encoded) if encoded else _NOTHING
    except ProtocolError:
        return _NOTHING


def _address(message: "PipeMessage") -> str | None:
    """Return by what a message was routed; nothing where that was the name of a shared queue (4/AMQP9)."""
    head = message.message.head
    return head.routing_key if head.exchange or head.routing_key == message.pipe.name else None
