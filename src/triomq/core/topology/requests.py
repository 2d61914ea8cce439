"""The requests and messages of a domain: declare, bind, delete; it answers in place, in the asker's turn.

Whatever makes or deletes something may name an origin: the peer whose thing it is. What a peer made, only that peer can
delete; without an origin a request is about things of this broker's own.
"""

from typing import TYPE_CHECKING

from triomq.actors import Message, Request
from triomq.core.queue.queue_state import QueueState, QueueStatistics
from triomq.core.routing.bindings import Binding
from triomq.core.topology.options import QueueOptions, SinkOptions
from triomq.core.topology.policy import Policy, PolicyChange

if TYPE_CHECKING:
    from triomq.core.topology.session import Session


class DeclareSink(Request[bool], frozen=True):
    """To a domain: declare a sink. Answers whether it is new.

    Raises (in the asker):
        Inequivalent: It exists and differs.
    """

    name: str
    options: SinkOptions
    session: "Session | None" = None
    origin: str = ""


class DeleteSink(Request[bool], frozen=True):
    """To a domain: delete a sink. Answers whether it was there.

    Raises (in the asker):
        ForeignResource: It is another one's.
        SinkInUse: ``if_unused`` is set and the sink has bindings.
    """

    name: str
    if_unused: bool = False
    session: "Session | None" = None
    origin: str = ""


class DeclareQueue(Request[QueueState], frozen=True):
    """To a domain: declare a queue. Answers its state.

    Raises (in the asker):
        Inequivalent: It exists and differs.
        QueueLocked: It is another user's, or another session's alone, or this one's and is now declared shared.
    """

    name: str
    options: QueueOptions
    session: "Session"
    origin: str = ""


class DeleteQueue(Request[QueueStatistics | None], frozen=True):
    """To a domain: delete a queue. Answers what was in it, None if there was none that is not another user's.

    Raises (in the asker):
        QueueLocked: It belongs exclusively to another session.
        ForeignResource: It is another one's.
        QueueInUse: ``if_unused`` is set and it has feeds.
        QueueNotEmpty: ``if_empty`` is set and it has ready messages.
    """

    name: str
    session: "Session"
    if_unused: bool = False
    if_empty: bool = False
    origin: str = ""


class Bind(Request[bool], frozen=True):
    """To a domain: add a binding. Answers whether it is new.

    Raises (in the asker):
        NoSuchSink, NoSuchQueue: The sink or the destination does not exist.
        QueueLocked: The queue belongs exclusively to another session.
        PreconditionFailed: The arguments mean nothing to this kind of sink.
    """

    binding: Binding
    session: "Session"
    origin: str = ""


class Unbind(Request[bool], frozen=True):
    """To a domain: remove a binding. Answers whether it was there.

    Raises (in the asker):
        QueueLocked: The queue belongs exclusively to another session.
        ForeignResource: It is another one's.
    """

    binding: Binding
    session: "Session"
    origin: str = ""


class ForgetOrigin(Request[int], frozen=True):
    """To a domain: delete all that a peer made, for it will not come back. Answers how many things those are."""

    origin: str


class SetPolicies(Request[PolicyChange], frozen=True):
    """To a domain: these are the policies from now on. Answers what knows how much that changes, once that is known."""

    policies: tuple[Policy, ...]


class SessionEnded(Message, frozen=True):
    """To a domain: the last connection of a session has ended; what belongs to it is to go."""

    session: "Session"


class QueueUnused(Message, frozen=True):
    """To a domain: the last feed of an auto-delete queue has closed."""

    name: str


class QueueExpired(Message, frozen=True):
    """To a domain: a queue was unused for as long as it lives without."""

    name: str


class SinkUnused(Message, frozen=True):
    """To a domain: the last binding of an auto-delete sink is gone."""

    name: str
