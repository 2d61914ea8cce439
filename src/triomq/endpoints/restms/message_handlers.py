"""Requests about what is in pipes: reading, waiting, deleting; and about messages and contents on their way in."""

from triomq.core import Pressure, PublishingPaused
from triomq.endpoints.feeds import new_hash, require_post
from triomq.endpoints.restms.calls import Refusal, RestMSCall, require
from triomq.endpoints.restms.pipes import PipeMessage
from triomq.endpoints.restms.polls import AsyncletPoll, BatchPoll, ChangePoll, PipeEventStream
from triomq.endpoints.restms.publishing import Posting, prepare, publish
from triomq.endpoints.restms.resource_handlers import pipe_of
from triomq.endpoints.restms.staged import StagedContent
from triomq.endpoints.restms.views import properties_of, view_message, view_pipe
from triomq.protocols import restms
from triomq.protocols.http1 import field_value

_MOST_MESSAGES = 1_000
"""Messages of one answer; a pipe's window may be less."""

_SHOWN_PLACES = 20
"""Refused messages whose places in the document are told: a line that can be read."""

# Pipes


def get_pipe(call: RestMSCall) -> None:
    """Show a pipe, some of its messages, or its messages as they come."""
    pipe = pipe_of(call)
    call.choose(events=True)
    call.wake(pipe)
    if call.media == restms.EVENTS:
        PipeEventStream(call, pipe).begin()
    elif "messages" in call.route.query:
        BatchPoll(call, pipe, _number(call.route.query["messages"])).begin()
    elif "when-none-match" in call.request.headers or "when-modified-after" in call.request.headers:
        ChangePoll(call, pipe).begin()
    else:
        call.show(restms.Document(pipes=(view_pipe(pipe, call.links),)), pipe.modified)


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= _MOST_MESSAGES:
        return int(text)
    problem = f"messages={text[:40]!r} in the query; it takes 1 to {_MOST_MESSAGES:,}; send one of these"
    raise Refusal(restms.Problem("bad-request", problem))


# Messages


def _message_of(call: RestMSCall) -> PipeMessage:
    assert call.target.message is not None
    return call.target.message


def get_message(call: RestMSCall) -> None:
    """Show a message."""
    call.choose()
    message = _message_of(call)
    call.wake(message.pipe)
    show_message(call, message)


def show_message(call: RestMSCall, message: PipeMessage) -> None:
    """Answer by a message."""
    call.show(restms.Document(messages=(view_message(message, call.links),)), message.modified)


def get_asynclet(call: RestMSCall) -> None:
    """Wait for the message that will be here."""
    call.choose()
    message = _message_of(call)
    if call.request.method == "HEAD":  # C46
        raise Refusal(restms.no_resource(call.request.path))
    call.wake(message.pipe)
    AsyncletPoll(call, message).begin()


def delete_message(call: RestMSCall) -> None:
    """Settle a message and all older ones."""
    message, client = _message_of(call), call.client
    call.require_unchanged(lambda: restms.Document(messages=(view_message(message, call.links),)), message.modified)
    if client.accept(message):
        # In the body of a turn: the queues have heard of it already, and so has the store's open batch.
        call.connection.hold_until_safe(call.domain)
    call.done()


# Contents


def get_content(call: RestMSCall) -> None:
    """Send a content as it is."""
    staged, message = call.target.content, call.target.message
    body: bytes | memoryview
    if staged is not None:
        body, type_ = staged.body, staged.type
    else:
        assert message is not None
        found = message.message
        # Not a copy for each that reads it, of whom there may be many that read slowly.
        head, content = found.head, memoryview(found.content)
        body = content[head.body_start : len(content) - head.body_trailer]
        type_ = properties_of(found, call.domain.directory.codecs).content_type or "application/octet-stream"
    call.answer(200, body, {"content-type": field_value(type_), "cache-control": "no-cache"})


def delete_content(call: RestMSCall) -> None:
    """Delete a content alone; what is left of a message stays."""
    staged, message = call.target.content, call.target.message
    if staged is not None:
        staged.end()
    elif message is not None:
        message.has_content = False
    call.done()


# On their way in


def post_to_feed(call: RestMSCall) -> None:
    """Publish messages, or stage a content, as the type of the body wants it."""
    content_type = call.request.headers.get("content-type")
    media = require(restms.message_type(content_type))
    feed = call.target.feed
    assert feed is not None
    require_post(call.client, feed)
    if media is None:
        _stage(call, (content_type or "").strip() or "application/octet-stream")
    else:
        call.read_as(media, lambda document: _publish(call, document))


def _publish(call: RestMSCall, document: restms.Document) -> None:
    feed, client = call.target.feed, call.client
    assert feed is not None
    messages = require(restms.published(document))
    prepared = require(prepare(client, call.domain, feed, messages))
    counts = not call.domain.book.has_types or restms.Preferences.of(call.request.headers).representation

    def done(posting: Posting, refused: list[int]) -> None:
        if refused:
            call.refuse(_refused_by_queues(refused, len(posting.counts)))
        elif counts:
            found = tuple(restms.MessageElement(count=str(count)) for count in posting.counts)
            body = restms.render(restms.Document(messages=found), call.media)
            call.answer(200, body, {"content-type": call.media.name})
        else:
            call.answer(200)

    publish(client, feed, prepared, done)


def _refused_by_queues(refused: list[int], count: int) -> restms.Problem:
    if len(refused) == count:
        text = f"a queue had no room for {'any message' if count > 1 else 'the message'}; try again when it has"
    else:
        places = ", ".join(str(place + 1) for place in sorted(refused)[:_SHOWN_PLACES])
        more = f" and {len(refused) - _SHOWN_PLACES} more" if len(refused) > _SHOWN_PLACES else ""
        text = f"of {count} messages a queue had no room for {places}{more}; the others are published; post those again"
    return restms.Problem("overloaded", text, restms.retry_after(1.0))


def _stage(call: RestMSCall, content_type: str) -> None:
    """Read a content, some at a time, as far as its user has room."""
    call.require_plain()
    feed, domain = call.target.feed, call.domain
    assert feed is not None
    config = domain.config
    if (call.request.length or 0) > config.max_content:
        text = f"the content has {call.request.length:,} bytes; {config.max_content:,} are allowed; send it in parts"
        raise Refusal(restms.Problem("too-large", text))
    if (call.request.length or 0) > domain.resources.staged.room(call.user, domain):
        raise Refusal(_no_room(call))
    if domain.directory.memory.on:
        raise PublishingPaused(Pressure.MEMORY)
    staged = StagedContent(new_hash(), domain, feed.name, call.user, content_type)
    call.connection.staging = staged

    def take(piece: bytes, ended: bool) -> None:
        if not staged.take(piece):
            staged.end()
            call.connection.staging = None
            call.refuse(_no_room(call))
        elif ended:
            call.look_again()
            call.connection.staging = None
            domain.resources.add_content(staged)
            call.connection.endpoint_of_restms.end_staged_after(staged, config.staged_seconds)
            # 2/RestMS: the reply MUST have no Content-Type, and its Content-Length is 0.
            call.answer(201, b"", {"location": call.links.resource(staged.hash)})

    call.connection.read_for(call, config.max_content, take, pieces=True)


def _no_room(call: RestMSCall) -> restms.Problem:
    staged, most = call.domain.resources.staged, call.domain.config.staged_bytes
    used = f"you have {staged.users.get(call.user, 0):,} bytes staged, of {most:,}, and all users {staged.total:,}"
    text = f"{used}; there is no room for more; post the messages that use them, or DELETE some, and try again"
    return restms.Problem("overloaded", text, restms.retry_after(1.0))
