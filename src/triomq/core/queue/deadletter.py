"""Dead letters: what happens to a message that its queue will not deliver any more.

It is published again, to the sink and with the key that the queue's options name, in the same turn and in the queue's
own name. Its headers carry its history in the form that RabbitMQ's clients know: ``x-death`` lists, newest first, which
queue gave it up, why and how often; ``x-first-death-…`` hold how it began. Where the queue names no key, the further
keys of the header ``CC`` count again; where it does, that header is removed.

Dead letters count against the budget of the turn, by what they are: finding the way of one through a sink with many
filters may take as long as placing a thousand. Who gives up many does as many as there is room for, one at least, and
the rest in further turns.

Queues may dead-letter into each other. A message that comes back to a queue by expiry alone would go round for ever, so
it is dropped there. With a rejection in the circle a consumer has decided each time, and the message may go on.
"""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, cast

from triomq.core.codecs import Codecs
from triomq.core.message import Head, QueueMessage, Stretch, traits_of
from triomq.core.queue.moved import MovedFrom, publish_of, where_from
from triomq.errors import NotFound
from triomq.properties import HeaderValue, Properties

if TYPE_CHECKING:
    from triomq.core.queue.queue_state import QueueState
    from triomq.core.topology.domain import Domain

MOST_DEAD_LETTERS = 150
"""Dead letters that one turn makes of what expires or gives way, if its budget is not used up before: 3 ms."""

_COST = 12
"""What a dead letter counts against the turn's budget, in queue pushes: it takes some 20 µs; more with long headers."""

_PER_PUSH = 16
"""Octets of properties that are read and written again in the time of a queue push, if there are very many values."""

MOST_DROPPED = 100_000
"""Messages that one turn drops without dead letters, each about 0.1 µs with its memory."""

PORTION_COST = 20
"""What it takes to drop neighbours that have the same traits and deadline, besides the messages, in messages."""

_log = logging.getLogger("triomq.core")

History = list[dict[str, HeaderValue]]

_FURTHER_KEYS = ("CC",)  # the header; BCC is taken off before a message is queued

_MOST = 1 << 31  # deaths that are counted: a history that a publisher made up may hold any number


class Reason(Enum):
    """Why a queue gave a message up."""

    REJECTED = "rejected"
    """A consumer will not have it."""
    EXPIRED = "expired"
    """Its time to live is over."""
    MAX_LENGTH = "maxlen"
    """The queue was full."""
    DELIVERY_LIMIT = "delivery_limit"
    """It came back too often."""


def dead_letter(state: "QueueState", stretch: Stretch, reason: Reason, ids: Sequence[int] = ()) -> tuple[int, int]:
    """Publish messages that a queue gives up to its dead-letter sink: as many as this turn has room for.

    Args:
        state: The queue's.
        stretch: The messages.
        reason: Why.
        ids: Their ids in the queue; none if they were never in it.

    Returns:
        How many messages are done with, one at least, and how many copies of them went to queues.
    """
    directory, sink = state.directory, state.options.dead_letter_sink
    if sink is None:
        return len(stretch.contents), 0
    traced = directory.tracer is not None and len(ids) > 0
    done = copies = 0
    for message in stretch.messages():
        if done and directory.is_exhausted():
            break
        moved_from = where_from(state, (ids[done],), reason.value) if traced else None
        directory.spend(_COST + message.head.properties_stop // _PER_PUSH)
        copies += _dead_letter_one(state, sink, message, reason, moved_from)
        done += 1
    if (observers := directory.message_observers) is not None:
        if reason is Reason.EXPIRED:
            observers.expired(state, stretch.up_to(done))
        observers.dead_lettered(state, stretch.up_to(done), reason, copies)
    return done, copies


class RefusedLetters:
    """A chore: publish the rest of a run that a full queue has refused, as dead letters.

    Args:
        state: The queue's.
        stretch: The messages.
    """

    def __init__(self, state: "QueueState", stretch: Stretch) -> None:
        self._state = state
        self._stretch = stretch

    def step(self, domain: "Domain") -> bool:
        """Publish some, as a chore."""
        return self.go_on()

    def go_on(self) -> bool:
        """Publish some; return whether there are more."""
        if self._state.gone:
            return False
        done, copies = dead_letter(self._state, self._stretch, Reason.MAX_LENGTH)
        self._state.dead_lettered += copies
        head, contents, heads = self._stretch
        self._stretch = Stretch(head, contents[done:], None if heads is None else heads[done:])
        return bool(self._stretch.contents)


def _dead_letter_one(
    state: "QueueState", sink: str, message: QueueMessage, reason: Reason, moved_from: MovedFrom | None = None
) -> int:
    directory, name = state.directory, _bytes_if_not_text(state.name)
    message, properties = _readable(directory.codecs, message)
    headers = dict(properties.headers or {})
    history = _merged(_history_of(headers.get("x-death")))
    routing_keys = [message.head.routing_key, *_further_keys(headers)]
    news = _continued(history, name, message.head, properties, reason, routing_keys)
    key = state.options.dead_letter_key
    keys, without = (routing_keys, ()) if key is None else ([key], _FURTHER_KEYS)
    changes = _first_death(headers, name, message.head, reason) | {"x-death": cast("HeaderValue", news)}
    try:
        route = directory.route_all(sink, keys, lambda: headers | changes, properties=lambda: properties, inside=True)
    except NotFound:
        return 0  # it may be declared again later; until then dead letters are dropped
    encoded, flags = directory.codecs.amend(message, changes, without=without)
    content = encoded + message.body
    head = _head_of(message.head, sink, keys[0], encoded, flags)
    publish = publish_of(head, content, moved_from)
    copies = 0
    for queue in route.queues:
        if reason is not Reason.REJECTED and _is_circle(news, _bytes_if_not_text(directory.name_of(queue))):
            _log.info("a dead letter of queue %r has come round to %s by itself and is dropped", state.name, queue.path)
            continue
        queue.tell_nowait(publish)
        copies += 1
    return copies


def _readable(codecs: Codecs, message: QueueMessage) -> tuple[QueueMessage, Properties]:
    """Decode the properties; a message whose properties cannot be decoded goes on without them."""
    properties = codecs.read(message)
    if properties is not None:
        return message, properties
    head = message.head
    plain = Head(
        exchange=head.exchange,
        routing_key=head.routing_key,
        traits=traits_of(publisher=head.traits.publisher, persistent=head.traits.persistent),
    )
    return QueueMessage(plain, message.body), Properties()


def _bytes_if_not_text(name: str) -> str | bytes:
    """Return a name as a header holds it: wires may name things with bytes that are no UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape")
    return name


def _head_of(head: Head, sink: str, key: str, encoded: bytes, flags: int) -> Head:
    """Return the head of a dead letter: the sink and the key are new, the expiration is gone."""
    start, traits = len(encoded), head.traits
    return Head(
        exchange=sink,
        routing_key=key,
        properties_stop=start,
        body_start=start,
        flags=flags,
        traits=traits_of(
            codec=traits.codec,
            publisher=traits.publisher,
            has_priority=traits.has_priority,
            persistent=traits.persistent,
        ),
    )


def _history_of(found: HeaderValue) -> History:
    """Read the history; what a publisher made up in its place is none."""
    if not isinstance(found, list):
        return []
    return [dict(entry) for entry in found if isinstance(entry, dict)]


def _merged(history: History) -> History:
    """Join deaths of one queue and reason, as RabbitMQ does: old brokers listed each one alone, without a count.

    Where the first of them has a count, that is taken for all; where it has none, they are counted.
    """
    if len(history) < 2:  # what is alone is left as it is
        return history
    merged: dict[tuple[str | bytes, str], dict[str, HeaderValue]] = {}
    counting: dict[tuple[str | bytes, str], int] = {}
    others: History = []  # which only the publisher understands
    for entry in history:
        queue, reason = entry.get("queue"), entry.get("reason")
        if not isinstance(queue, str | bytes) or not isinstance(reason, str):
            others.append(entry)
            continue
        key = (queue, reason)
        if key not in merged:
            merged[key] = entry
            if not isinstance(entry.get("count"), int):
                counting[key] = 1
        elif key in counting:
            counting[key] += 1
    for key, count in counting.items():
        merged[key] = merged[key] | {"count": count}
    return [*merged.values(), *others]


def _further_keys(headers: Mapping[str, HeaderValue]) -> list[str]:
    """Read the keys that a message names beside its own."""
    found = headers.get(_FURTHER_KEYS[0])
    return [key for key in found if isinstance(key, str)] if isinstance(found, list) else []


def _continued(
    history: History,
    queue: str | bytes,
    head: Head,
    properties: Properties,
    reason: Reason,
    routing_keys: Sequence[str],
) -> History:
    """Add this death to the history, or count it where the same has happened before; either way it comes first."""
    for entry in history:
        if entry.get("queue") == queue and entry.get("reason") == reason.value:
            count = entry.get("count")
            again = {**entry, "count": count + 1 if isinstance(count, int) and 0 <= count < _MOST else 1}
            return [again, *(other for other in history if other is not entry)]
    entry = {
        "count": 1,
        "reason": reason.value,
        "queue": queue,
        "time": datetime.now(UTC).replace(microsecond=0),
        "exchange": _bytes_if_not_text(head.exchange),
        "routing-keys": [_bytes_if_not_text(key) for key in routing_keys],
    }
    if properties.expiration is not None:
        entry["original-expiration"] = str(round(properties.expiration * 1000))
    return [entry, *history]


def _first_death(
    headers: Mapping[str, HeaderValue], queue: str | bytes, head: Head, reason: Reason
) -> dict[str, HeaderValue]:
    """Return the headers that hold how the history began; they are set once."""
    if "x-death" in headers:  # of any type: it is not the first death, or the publisher wants it to look so
        return {}
    return {
        "x-first-death-exchange": _bytes_if_not_text(head.exchange),
        "x-first-death-queue": queue,
        "x-first-death-reason": reason.value,
    }


def _is_circle(history: Sequence[Mapping[str, HeaderValue]], queue: str | bytes) -> bool:
    """Return whether the message was in this queue before, and no consumer has rejected it since."""
    for entry in history:
        if entry.get("reason") == Reason.REJECTED.value:
            return False
        if entry.get("queue") == queue:
            return True
    return False
