"""Observers: who wants to hear when something in a domain comes or goes.

An observer is an actor; it is told in the very turn, after the fact, and may read the directory for what else it wants
to know. Whose thing it is is told along, so that an observer that copies changes elsewhere can leave out what came
from there.
"""

from enum import Enum
from typing import TYPE_CHECKING

from triomq.actors import Message, Ref
from triomq.core.routing.bindings import Binding

if TYPE_CHECKING:
    from triomq.core.topology.session import Session


class Action(Enum):
    """What happened."""

    CREATED = "created"
    DELETED = "deleted"


class ChangeKind(Enum):
    """To what kind of thing."""

    SINK = "sink"
    QUEUE = "queue"
    BINDING = "binding"


class Changed(Message, frozen=True):
    """To an observer: something came or went.

    Args:
        action: Which of the two.
        kind: What kind of thing.
        name: Its name; of a binding, its source's.
        binding: The binding, if it is one.
        session: The session that did it; None for the broker itself, such as an expiry.
        origin: The peer whose thing it is; empty if it is this broker's own.
    """

    action: Action
    kind: ChangeKind
    name: str
    binding: Binding | None = None
    session: "Session | None" = None
    origin: str = ""


class Observers:
    """Who is told; part of a domain's directory, so that it outlives the domain's incarnations."""

    __slots__ = ("_refs",)

    def __init__(self) -> None:
        self._refs: dict[Ref, None] = {}

    def add(self, ref: Ref) -> None:
        """Tell an actor from now on; one that has stopped is left out by itself."""
        self._refs[ref] = None

    def remove(self, ref: Ref) -> None:
        """Tell it no longer."""
        self._refs.pop(ref, None)

    def notify(self, changed: Changed) -> None:
        """Tell all."""
        for ref in list(self._refs):
            if ref.state == "stopped":
                self.remove(ref)
            else:
                ref.tell_nowait(changed)
