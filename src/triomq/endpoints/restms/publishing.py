"""Publishing what a document of messages has: all of it or nothing, and the answer when it is where it should be.

    document ── prepare each ──▶ guards for all ──▶ publish each ──▶ receipts ──▶ 200
                 400, 403, 404     403, 503, 507     nothing can fail any more

A queue that is full refuses its copy after all; then the answer is 503, and says of which messages.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from triomq.core import RoutedRun, SingleReceipt
from triomq.endpoints.content import InvalidProperties, UnframedShape, check_expiration, head_of
from triomq.endpoints.feeds import FeedView
from triomq.endpoints.restms.staged import StagedContent
from triomq.errors import LocalProtocolError
from triomq.protocols import encode_properties, restms

if TYPE_CHECKING:
    from triomq.endpoints.restms.client import RestMSClient
    from triomq.endpoints.restms.resources import RestMSDomain

_MOST: Final = 1_000
"""Messages of one document: some 20 ms of work."""

_PERSISTENT: Final = 2


class Posting:
    """The messages of one request, from when they are published until all queues have answered.

    Args:
        client: Who publishes.
        counts: To how many queues each of them went.
        done: Called, once, in a turn, with the places of those that a queue has refused, from 0.
    """

    __slots__ = ("_client", "_done", "_refused", "_waiting", "counts")

    def __init__(self, client: "RestMSClient", done: Callable[["Posting", list[int]], None]) -> None:
        self.counts: list[int] = []
        self._client = client
        self._done = done
        self._refused: list[int] = []
        self._waiting = 1  # for the publishing itself
        client.busy += 1

    def receipt(self) -> SingleReceipt:
        """Return what follows the next message, whose queues may answer at once."""
        self._waiting += 1
        place = len(self.counts)
        receipt = SingleReceipt(lambda: self._placed(receipt, place), self._client.directory.persistence)
        return receipt

    def published(self, count: int) -> None:
        """Record to how many queues that message went."""
        self.counts.append(count)
        if not count:
            self.finished()  # nobody will answer

    def _placed(self, receipt: SingleReceipt, place: int) -> None:
        """Hear of a queue, in one of its handlers or outside of any turn."""
        if receipt.refusals is not None:
            self._refused.append(place)
        self.finished()

    def finished(self) -> None:
        """Count one thing less that is waited for."""
        self._waiting -= 1
        if not self._waiting:
            self._client.busy -= 1
            self._client.ref.run_in_turn(self._done, self, self._refused)
            self._client.look_whether_done()


class PreparedMessage(msgspec.Struct, frozen=True):
    """A message that can be published.

    Args:
        run: The message.
        staged: The content that it uses up.
    """

    run: RoutedRun
    staged: StagedContent | None


def prepare(
    client: "RestMSClient", domain: "RestMSDomain", feed: FeedView, messages: Sequence[restms.MessageElement]
) -> list[PreparedMessage] | restms.Problem:
    """Look at all messages of a request."""
    if len(messages) > _MOST:
        return restms.Problem(
            "too-large", f"the document has {len(messages):,} messages, and may have {_MOST:,}; send several requests"
        )
    found: list[PreparedMessage] = []
    for message in messages:
        one = _prepare(client, domain, feed, message)
        if isinstance(one, restms.Problem):
            return one
        if one.staged is not None and any(other.staged is one.staged for other in found):
            return restms.no_content(one.staged.hash)  # a content is used once
        found.append(one)
    return found


def _prepare(
    client: "RestMSClient", domain: "RestMSDomain", feed: FeedView, message: restms.MessageElement
) -> PreparedMessage | restms.Problem:
    """Look at one message."""
    content = restms.content_body(message)
    if isinstance(content, restms.Problem):
        return content
    properties = restms.basic_properties(message)
    if isinstance(properties, restms.Problem):
        return properties
    if properties.user_id is not None and properties.user_id != client.user:
        text = f"user_id is {properties.user_id!r}, and you are {client.user!r}; leave it out, or give your own name"
        return restms.Problem("forbidden", text)
    staged: StagedContent | None = None
    body = b""
    if isinstance(content, str):
        found = _find_staged(domain, feed, client.user, content)
        if isinstance(found, restms.Problem):
            return found
        staged, body = found, found.body
        properties = msgspec.structs.replace(properties, content_type=staged.type)
    elif content is not None:
        body, type_ = content
        properties = msgspec.structs.replace(properties, content_type=type_)
    key = message.address or ""
    if feed.is_queue:
        # 4/AMQP9: the address travels as the message-id, unless that is given.
        if key and not properties.message_id:
            properties = msgspec.structs.replace(properties, message_id=key)
        key = feed.name
    try:
        check_expiration(properties.expiration)
        encoded = encode_properties(properties)
    except (InvalidProperties, LocalProtocolError) as error:
        return restms.Problem("bad-property", f"{error}; no message of this request was published")
    size = len(encoded)
    shape = UnframedShape(0, 0, size, size, 0, int.from_bytes(encoded[:2], "big"))
    persistent = properties.delivery_mode == _PERSISTENT
    head = head_of(feed.sink, key, shape, publisher=client.session.number, persistent=persistent)
    data = encoded + body
    return PreparedMessage(RoutedRun(client.route_to(feed, key), head, [data], len(data)), staged)


def _find_staged(domain: "RestMSDomain", feed: FeedView, user: str, href: str) -> StagedContent | restms.Problem:
    route = restms.route(href)
    if isinstance(route, restms.Problem):
        return route
    found = domain.resources.found.get(route.name) if route.kind == "resource" else None
    if not isinstance(found, StagedContent) or found.user != user or found.is_over:
        return restms.no_content(href)
    if found.feed != feed.name or found.domain is not domain:
        return restms.foreign_content(href)
    return found


def publish(
    client: "RestMSClient",
    feed: FeedView,
    prepared: Sequence[PreparedMessage],
    done: Callable[[Posting, list[int]], None],
) -> None:
    """Publish messages, all of them or none.

    Args:
        client: Who publishes.
        feed: Where to.
        prepared: The messages.
        done: Called, once, when each queue has answered, and the disk where it should, with the places of those that a
            queue has refused.

    Raises:
        PublishingPaused: Not now, and nothing was published.
        Refused: The user may not.
    """
    publisher = client.publisher.into_queue(feed.name) if feed.is_queue else client.publisher
    runs = publisher.admit([one.run for one in prepared])
    posting = Posting(client, done)
    for run in runs:
        posting.published(publisher.publish(*run, posting.receipt()))
    for one in prepared:
        if one.staged is not None:
            one.staged.end()
    posting.finished()
