"""What actors say to each other: frozen Structs, and requests that know the type of their answer."""

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
        """Give the parts that are tried again one by one after this message crashed its actor.

        A message that carries many things overrides this, so that one poisonous part does not take the others
        along. Only told messages are split; a request has one answer and stays whole.
        """
        return (self,)

    def abandoned(self, error: BaseException) -> None:
        """Hear that this message went to the dead letters; called once.

        Args:
            error: Why nobody will handle it: the handler's exception, ``Refused``, ``ActorStopped``, ``MailboxFull``.
        """


class Request(Message, Generic[R_co], frozen=True):
    """A message that wants an answer of type ``R_co``.

    ``class Declare(Request[QueueInfo], frozen=True)`` makes ``await ref.ask(Declare("a"))`` a ``QueueInfo``.
    """


class Ping(Request[None], frozen=True):
    """Asks any actor whether it runs; every actor has a handler for it. ``Ref.wait_running`` asks it."""


class Down(Message, frozen=True):
    """Tells a watcher that the watched actor has stopped for good.

    It comes in the ordinary order of arrival: a ``Down`` that overtook the last words of the one that it
    is about would leave things behind for the dead.
    """

    ref: Ref
    reason: BaseException | None
    """The last error, or ``None`` when it ended as it should."""
