"""What an engine reports: frozen Structs, one for each message that means something to its owner.

Ids of messages are bytes that mean nothing but themselves, and are unique for one sender at best.
"""

from typing import Literal, TypeAlias

import msgspec

from triomq.protocols.emqp.codes import Code
from triomq.protocols.emqp.extension import NO_EXTENSION, Extension
from triomq.protocols.emqp.headers import Headers
from triomq.protocols.emqp.jobs import JobState
from triomq.protocols.emqp.queues import WeightedQueue
from triomq.protocols.emqp.states import Role

AdminCommand: TypeAlias = Literal["STATUS", "ROUTER_SHOW_WORKERS", "ROUTER_SHOW_SCHEDULERS", "HELLO"]

# What a broker hears


class Informed(msgspec.Struct, frozen=True, gc=False):
    """INFORM: what the peer is; answer with ``acknowledge``, or with ``refuse`` and ``close``.

    A peer that informs again begins anew: nothing is left of slots and subscriptions that it had.
    """

    msgid: bytes
    role: Role
    queues: tuple[WeightedQueue, ...]
    extension: Extension


class SlotsOffered(msgspec.Struct, frozen=True, gc=False):
    """READY: the worker has room for so many jobs more."""

    count: int


class Subscribed(msgspec.Struct, frozen=True, gc=False):
    """SUBSCRIBE, an extension: the client wants what is published to a topic."""

    msgid: bytes
    topic: str


class Unsubscribed(msgspec.Struct, frozen=True, gc=False):
    """UNSUBSCRIBE, an extension: the client wants no more of a topic."""

    msgid: bytes
    topic: str


class JobsReturned(msgspec.Struct, frozen=True, gc=False):
    """RETURN, an extension: the worker has not begun these jobs, and will not; others may have them as if new."""

    requests: tuple[bytes, ...]


class StatesAsked(msgspec.Struct, frozen=True, gc=False):
    """STATE, an extension: the client wants to know what has become of jobs.

    Answer each with ``report_state``, then ``acknowledge``. ``extension.follow``: report every change that comes, too;
    ``extension.result``: with the answers of those that have ended, where they are kept.
    """

    msgid: bytes
    requests: tuple[bytes, ...]
    extension: Extension


class AdminAsked(msgspec.Struct, frozen=True, gc=False):
    """A question of ``emq-cli``: answer all but HELLO with ``reply``, whose message is JSON."""

    msgid: bytes
    command: AdminCommand


# What both sides hear


class Requested(msgspec.Struct, frozen=True, gc=False):
    """REQUEST: a job for a queue; a broker hears it of clients and schedulers, a worker of its broker."""

    msgid: bytes
    queue: str
    headers: Headers
    message: bytes
    extension: Extension


class Replied(msgspec.Struct, frozen=True, gc=False):
    """REPLY: the answer to a request; a broker hears it of workers, a client of its broker."""

    request: bytes
    message: bytes
    extension: Extension


class Progressed(msgspec.Struct, frozen=True, gc=False):
    """PROGRESS, an extension: how far a job has come, or (``extension.item``) an item of its stream.

    A broker hears it of workers, and a client of its broker. ``extension.number`` counts the values of either kind from
    1. Of a client, and so at a worker, it is the reader's: it has taken so many items, and ``message`` is empty.
    """

    request: bytes
    message: bytes
    extension: Extension


class CancelAsked(msgspec.Struct, frozen=True, gc=False):
    """CANCEL, an extension: a job is to end; a broker hears it of clients, a worker of its broker.

    ``extension.grace`` is how many milliseconds it may take for that, ``extension.tree`` whether the jobs that it has
    sent are to end too. A broker answers with ``acknowledge`` or ``refuse``, a worker in time with REPLY.
    """

    msgid: bytes
    request: bytes
    extension: Extension


class TopicPublished(msgspec.Struct, frozen=True, gc=False):
    """PUBLISH: a message for a topic; a broker hears it of clients, a client that has subscribed of its broker."""

    msgid: bytes
    topic: str
    headers: Headers
    message: bytes
    extension: Extension


class ScheduleSet(msgspec.Struct, frozen=True, gc=False):
    """SCHEDULE: a job that is to run again and again; a broker hears it of clients, a scheduler of its broker.

    ``interval`` is in seconds; 0 where ``cron`` says when.
    """

    msgid: bytes
    queue: str
    headers: Headers
    interval: float
    message: bytes
    cron: str
    extension: Extension


class ScheduleRemoved(msgspec.Struct, frozen=True, gc=False):
    """UNSCHEDULE: the schedule of the same call (``schedule_key``) is to end; its queue does not matter.

    With a name in its extension frame all schedules of that name are to end, but those that stay.
    """

    msgid: bytes
    queue: str
    headers: Headers
    message: bytes
    extension: Extension = NO_EXTENSION


class DisconnectAsked(msgspec.Struct, frozen=True, gc=False):
    """DISCONNECT: the peer wants this side to stop; whether it may is its owner's decision, who calls ``leave``."""

    msgid: bytes


class PeerLeaving(msgspec.Struct, frozen=True, gc=False):
    """KBAI, or KBYE as released programs call it: send the peer no more; replies to what it has may still come."""


class MessageDropped(msgspec.Struct, frozen=True, gc=False):
    """A message that is none of the protocol's, or is out of place; it was answered with ERROR if the peer knows that.

    ``command`` and ``msgid`` are what stands in their place, cut to a length that fits into a log.
    """

    command: str
    msgid: bytes
    code: Code
    reason: str


class Silent(msgspec.Struct, frozen=True, gc=False):
    """Nothing has come for too long; the engine has ended."""


# What peers hear


class Opened(msgspec.Struct, frozen=True, gc=False):
    """The broker has acknowledged INFORM; or a client's was not answered, and the broker is one without extensions."""

    capabilities: tuple[str, ...]


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """ACK: the broker has taken what had that id; durable messages are on disk."""

    request: bytes
    extension: Extension


class Dispatched(msgspec.Struct, frozen=True, gc=False):
    """A released router's REPLY that names the request only: a worker has it. There will be no other answer."""

    request: bytes


class RefusalReceived(msgspec.Struct, frozen=True, gc=False):
    """ERROR, an extension: the broker does not take what had that id."""

    request: bytes
    code: str
    text: str


class StateReported(msgspec.Struct, frozen=True, gc=False):
    """STATE, an extension: what has become of a job; ``result`` is its answer, if it is there and was asked for."""

    request: bytes
    state: JobState
    result: bytes | None


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """The broker does not know this peer, as after a restart; INFORM was sent again, and ``Opened`` will come again."""


Event: TypeAlias = (
    Informed
    | SlotsOffered
    | Subscribed
    | Unsubscribed
    | JobsReturned
    | StatesAsked
    | AdminAsked
    | Requested
    | Replied
    | Progressed
    | CancelAsked
    | TopicPublished
    | ScheduleSet
    | ScheduleRemoved
    | DisconnectAsked
    | PeerLeaving
    | MessageDropped
    | Silent
    | Opened
    | Acknowledged
    | Dispatched
    | RefusalReceived
    | StateReported
    | Unknown
)
