"""The documents of RestMS: what resources look like, whichever of the two forms they are written in.

An element is a struct, its attributes are texts and its children tuples of structs. Nothing is converted: ``priority``
is the text that came, and what it means is asked where that matters. An attribute that is ``None`` is absent, which is
not the same as one that is empty.

    Document ─┬─ domains ──┬─ profiles          the root, <restms> or {"restms": …}
              │            └─ feeds
              ├─ feeds
              ├─ pipes ────┬─ joins ────── headers
              │            └─ messages ─┬─ headers
              ├─ joins                  └─ contents
              └─ messages

Elements and attributes that are not here are passed over, as 1/RestTL wants it: they are neither an error nor kept.
The names in both forms are singular, so the structs rename their fields. Attributes that no draft has, and that clients
of 2009 pass over: ``size``, ``content_encoding``, ``redelivered``, and ``href`` where more is listed than there was.
"""

from typing import Final, TypeAlias

import msgspec


class ProfileElement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A set of types that a domain has, such as 3/Defaults.

    Args:
        name: Short, such as ``4/AMQP9``.
        title: For people.
        href: Where its text can be read.
    """

    name: str | None = None
    title: str | None = None
    href: str | None = None


class HeaderElement(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A name and a value: of a message, or of a join that selects by them."""

    name: str | None = None
    value: str | None = None


class ContentElement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The body of a message, embedded, or elsewhere.

    Args:
        href: Where it is; then it has nothing else.
        type: Its MIME type.
        encoding: How the value stands for it: ``plain``, which no encoding means too, or ``base64``.
        value: In XML the text of the element. Empty and absent are the same.
    """

    href: str | None = None
    type: str | None = None
    encoding: str | None = None
    value: str = ""


class MessageElement(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={"asynclet": "async", "headers": "header", "contents": "content"},
):
    """A message as it was posted and is delivered; in a pipe's document little more than where it is.

    Args:
        address: What feeds route by.
        message_id: The application's own identifier.
        reply_to: Where answers should go: the name of a pipe, or of a queue.
        delivery_mode: 1 for transient, 2 for persistent.
        priority: 0 to 9, and up to 255 where AMQP's users have so many.
        correlation_id: Names the request that this answers.
        expiration: Milliseconds after which the message expires.
        timestamp: When the application made it, a date of HTTP.
        type: The application's name for this kind of message.
        user_id: The user who claims to have published it.
        app_id: The application that published it.
        sender_id: OpenAMQ's name for the sender.
        content_encoding: MIME encoding of the body, such as gzip; RestMS's own ``encoding`` is about the document.
        redelivered: ``1`` if the message was in another pipe before.
        count: How many joins it was routed to; in the answer to a POST (3/Defaults).
        href: Where it is.
        asynclet: ``1`` if it has not come yet: a GET of ``href`` waits for it.
        headers: The application's own values by name.
        contents: At most one, where AMQP is spoken.
    """

    href: str | None = None
    asynclet: str | None = None
    address: str | None = None
    message_id: str | None = None
    reply_to: str | None = None
    delivery_mode: str | None = None
    priority: str | None = None
    correlation_id: str | None = None
    expiration: str | None = None
    timestamp: str | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    sender_id: str | None = None
    content_encoding: str | None = None
    redelivered: str | None = None
    count: str | None = None
    headers: tuple[HeaderElement, ...] = ()
    contents: tuple[ContentElement, ...] = ()


class JoinElement(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, rename={"headers": "header"}
):
    """What a feed routes to a pipe.

    Args:
        href: Where it is.
        type: Empty; profiles to come may have others.
        address: What addresses of messages are compared with.
        feed: Where the feed is.
        headers: Which headers a message must have, at a feed of type headers.
    """

    href: str | None = None
    type: str | None = None
    address: str | None = None
    feed: str | None = None
    headers: tuple[HeaderElement, ...] = ()


class FeedElement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What messages are posted to.

    Args:
        name: Of a public one what its creator called it, of a private one a hash.
        type: How it routes.
        title: For people.
        license: Under which its messages may be used.
        href: Where it is.
    """

    name: str | None = None
    type: str | None = None
    title: str | None = None
    license: str | None = None
    href: str | None = None


class PipeElement(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={"joins": "join", "messages": "message"},
):
    """What messages are read from.

    Args:
        name: A hash, which is also where answers are sent.
        type: Empty or ``fifo``, which are the same, or ``ondemand``.
        title: For people.
        size: How many messages it has, of which the document may list the first ones alone.
        joins: The default join among them.
        messages: Oldest first; the last one is the asynclet.
    """

    name: str | None = None
    type: str | None = None
    title: str | None = None
    size: str | None = None
    joins: tuple[JoinElement, ...] = ()
    messages: tuple[MessageElement, ...] = ()


class DomainElement(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={"profiles": "profile", "feeds": "feed"},
):
    """What feeds and pipes are in.

    Args:
        name: As it was configured.
        title: For people.
        href: Where it is.
        profiles: All that it has.
        feeds: The public ones.
    """

    name: str | None = None
    title: str | None = None
    href: str | None = None
    profiles: tuple[ProfileElement, ...] = ()
    feeds: tuple[FeedElement, ...] = ()


class Document(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    rename={"domains": "domain", "feeds": "feed", "pipes": "pipe", "joins": "join", "messages": "message"},
):
    """The root: resources by class, in their order; most documents have one resource."""

    domains: tuple[DomainElement, ...] = ()
    feeds: tuple[FeedElement, ...] = ()
    pipes: tuple[PipeElement, ...] = ()
    joins: tuple[JoinElement, ...] = ()
    messages: tuple[MessageElement, ...] = ()


class JSONRoot(msgspec.Struct, frozen=True, gc=False):
    """A document in the object that JSON has around it."""

    restms: Document


ResourceElement: TypeAlias = DomainElement | FeedElement | PipeElement | JoinElement | MessageElement
Element: TypeAlias = ResourceElement | ProfileElement | HeaderElement | ContentElement | Document


KINDS: Final[dict[type[Element], dict[str, type[Element]]]] = {
    Document: {
        "domain": DomainElement,
        "feed": FeedElement,
        "pipe": PipeElement,
        "join": JoinElement,
        "message": MessageElement,
    },
    DomainElement: {"profile": ProfileElement, "feed": FeedElement},
    ProfileElement: {},
    FeedElement: {},
    PipeElement: {"join": JoinElement, "message": MessageElement},
    JoinElement: {"header": HeaderElement},
    MessageElement: {"header": HeaderElement, "content": ContentElement},
    HeaderElement: {},
    ContentElement: {},
}
"""Which children an element of each kind can have, by the names that both forms use."""

NAMES: Final[dict[type[Element], str]] = {kind: name for names in KINDS.values() for name, kind in names.items()} | {
    Document: "restms"
}
"""What elements are called, in both forms."""
