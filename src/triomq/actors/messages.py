"""Messages between actors: frozen Structs, and requests that have the type of their answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

if TYPE_CHECKING:
    from triomq.actors.ref import Ref

R_co = TypeVar("R_co", covariant=True)


class Message(msgspec.Struct, frozen=True):
    """Base of all messages: a frozen Struct, told to an actor through its :class:`Ref`.

    Leaves that hold nothing but scalars, strings and bytes may say ``gc=False``. The base does not: the option is
    inherited silently, and a cycle through such a message is never collected.
    """

    def split(self) -> Sequence[Message]:
        """Return the parts that are tried again one by one after this message crashed its actor.

        A message that carries many things overrides this, so that one poisonous part does not take the others
        along. Only told messages are split; a request has one answer and stays whole.
        """
        return (self,)

    def abandoned(self, error: BaseException) -> None:
        """React to becoming a dead letter; called once.

        Args:
            error: Why it was not handled: the handler's exception, ``Refused``, ``ActorStopped``, ``MailboxFull``.
        """


class Request(Message, Generic[R_co], frozen=True):
    """A message that is answered with an ``R_co``.

    ``class Declare(Request[QueueInfo], frozen=True)`` makes ``await ref.ask(Declare("a"))`` a ``QueueInfo``.
    """


class Ping(Request[None], frozen=True):
    """Answered by every actor that runs; ``Ref.wait_running`` asks it."""


class Down(Message, frozen=True):
    """Tells a watcher that the watched actor has stopped for good.

    It comes in the ordinary order of arrival: a ``Down`` that overtook the last messages of the actor that it is about
    would leave state behind for an actor that is gone.
    """

    ref: Ref
    reason: BaseException | None
    """The last error, or ``None`` when it ended as it should."""
