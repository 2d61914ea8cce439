"""The records in which a broker describes itself, as they stand in the JSON of an answer; jobs are in ``job_records``.

Octets are base64 there and Structs here. A newer broker may send more fields; a reader passes over those.
"""

from typing import Generic, Literal, TypeVar

import msgspec

T = TypeVar("T")

Cursor = str | int
"""Where a page ended: the ``after`` of the next request."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """As much of a list as fits into one answer.

    Args:
        items: Part of the list, in its order.
        next: The ``after`` of the following page; None when this was the last.
    """

    items: list[T]
    next: Cursor | None = None


class StreamSummary(msgspec.Struct, frozen=True, gc=False):
    """What only a stream has.

    Args:
        first: The lowest offset that can be read.
        next: The offset of the next record.
        last_time: When its last record was appended, in seconds since 1970; None if there was none.
        segments: Parts of it that retention removes as a whole.
        lags: By group, how many records it has not read; None if they do not fit into the answer.
    """

    first: int
    next: int
    last_time: float | None
    segments: int
    lags: dict[str, int] | None


class QueueRecord(msgspec.Struct, frozen=True, gc=False):
    """A queue.

    Args:
        name: Its name.
        state: Where its actor is in its life: running, backing_off, stopped and so on.
        restarts: How often its actor was started again after a crash.
        ready: Messages that no consumer has.
        ready_bytes: Octets of their bodies.
        unsettled: Messages that are out with consumers.
        feeds: Consumers.
        published: Messages stored since it was declared.
        delivered: Messages handed out since then; those handed out again count again.
        dropped: Messages that gave way or were refused because it was full, or that no consumer would take.
        delayed: Messages whose time has not come.
        expired: Messages whose time was over.
        dead_lettered: Copies of given up messages that went to other queues.
        durable: Whether it is there again after a restart.
        exclusive: Whether it belongs to one connection.
        auto_delete: Whether it goes with its last consumer.
        max_length: Most ready messages; None is no limit.
        max_bytes: Most octets of ready bodies; None is no limit.
        overflow: What it does when it is full.
        policy: The policy that it lives under; limits and overflow are those in force.
        origin: The peer that had it made; None if it was made here.
        rejected: Messages that a consumer rejected.
        exhausted: Messages that came back more often than its delivery limit allows.
        kind: ``stream`` if it keeps what was read, else ``queue``. All records of a stream are ready.
        stream: What only a stream has.
    """

    name: str
    state: str
    restarts: int
    ready: int
    ready_bytes: int
    unsettled: int
    feeds: int
    published: int
    delivered: int
    dropped: int
    delayed: int
    expired: int
    dead_lettered: int
    durable: bool
    exclusive: bool
    auto_delete: bool
    max_length: int | None
    max_bytes: int | None
    overflow: str
    policy: str | None = None
    origin: str | None = None
    rejected: int = 0
    exhausted: int = 0
    kind: str = "queue"
    stream: StreamSummary | None = None


class SinkRecord(msgspec.Struct, frozen=True, gc=False):
    """A sink, which AMQP calls an exchange.

    Args:
        name: Its name.
        kind: direct, fanout, topic, headers or x-consistent-hash.
        state: Where its actor is in its life.
        bindings: How many rules lead out of it.
        durable: Whether it is there again after a restart.
        auto_delete: Whether it goes with its last binding.
        internal: Whether only other sinks may publish into it.
        alternate: The sink that takes what no binding of it matches.
        policy: The policy that it lives under.
        origin: The peer that had it made; None if it was made here.
    """

    name: str
    kind: str
    state: str
    bindings: int
    durable: bool
    auto_delete: bool
    internal: bool
    alternate: str | None = None
    policy: str | None = None
    origin: str | None = None


class BindingRecord(msgspec.Struct, frozen=True):
    """A rule that leads from a sink to a queue or to another sink.

    Args:
        source: The sink.
        target: What it leads to.
        destination: The name of that.
        key: The routing key or pattern.
        arguments: Its arguments; None where they are too long for an answer.
        origin: The peer that had it made; None if it was made here.
    """

    source: str
    target: Literal["queue", "sink"]
    destination: str
    key: str
    arguments: dict[str, object] | None
    origin: str | None = None


class Forgotten(msgspec.Struct, frozen=True, gc=False):
    """What was deleted.

    Args:
        count: How many sinks, queues and bindings.
    """

    count: int


class ConnectionRecord(msgspec.Struct, frozen=True, gc=False):
    """A client that is connected.

    Args:
        peer: Its address.
        user: As whom it has logged in.
        virtual_host: Where it works.
        channels: Open channels.
        consumers: Open consumers.
        age: Seconds since it has connected.
        role: What it is to its protocol, such as worker; empty where all clients are alike.
        name: What it calls itself; empty if it has not said.
        silent: Seconds since something came from it; None where that is not counted.
    """

    peer: str
    user: str
    virtual_host: str
    channels: int
    consumers: int
    age: float
    role: str = ""
    name: str = ""
    silent: float | None = None


class MessageRecord(msgspec.Struct, frozen=True, gc=False):
    """A ready message, looked at and left where it is.

    Args:
        id: Its number, the same for as long as it is in its queue; order in the queue is order of numbers.
        exchange: Where it was published.
        routing_key: How.
        redelivered: Whether it has been with a consumer and come back.
        attempts: How often it has come back.
        size: Octets of its body.
        body: The body, or as much of its beginning as fits into an answer.
        properties: What its content header says (AMQP 0-9-1 section 4.2.6.1), flags first; None where that is too long.
    """

    id: int
    exchange: str
    routing_key: str
    redelivered: bool
    attempts: int
    size: int
    body: bytes
    properties: bytes | None


class ActorRecord(msgspec.Struct, frozen=True, gc=False):
    """An actor in the live tree.

    Args:
        path: Where in the tree it lives.
        kind: Its class.
        state: Where in its life it is.
        restarts: How often it was started again after a crash.
        handled: Messages that it has dealt with.
        waiting: Messages in its mailbox.
        children: How many actors live directly below it; a page may show fewer.
        about: What else is known of it, in a few words: whom it serves, what a worker has to do.
    """

    path: str
    kind: str
    state: str
    restarts: int
    handled: int
    waiting: int
    children: int
    about: str = ""


class Totals(msgspec.Struct, frozen=True, gc=False):
    """The broker as a whole, at one moment; counts of messages are those of the queues that exist now.

    Args:
        version: Its version.
        uptime: Seconds since it was opened.
        memory: Octets of memory that its process holds.
        connections: Clients.
        consumers: Their consumers.
        queues: Queues.
        sinks: Sinks.
        ready: Messages that no consumer has.
        unsettled: Messages that are out with consumers.
        published: Messages stored so far.
        delivered: Messages handed out so far.
        dropped: Messages that gave way or were refused so far.
    """

    version: str
    uptime: float
    memory: int
    connections: int
    consumers: int
    queues: int
    sinks: int
    ready: int
    unsettled: int
    published: int
    delivered: int
    dropped: int
