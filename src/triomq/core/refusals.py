"""The core's refusals: each names what it is about, so that endpoints can word them as their people expect."""

from typing import TYPE_CHECKING

import trio

from triomq.actors import Ref
from triomq.errors import AccessRefused, LimitExceeded, NotFound, PreconditionFailed, Refused, ResourceLocked

if TYPE_CHECKING:
    from triomq.core.queue_store import QueueStore

__all__ = [
    "BeingDeleted",
    "Forbidden",
    "ForeignName",
    "ForeignResource",
    "InExclusiveUse",
    "Inequivalent",
    "LeaseInvalid",
    "NoSuchQueue",
    "NoSuchSink",
    "NotResident",
    "QueueFull",
    "QueueInUse",
    "QueueLocked",
    "QueueNotEmpty",
    "QueueStopped",
    "QueueUnreadable",
    "Restarting",
    "SinkBroken",
    "SinkInUse",
    "SinkInternal",
    "TooManyLeases",
    "UnknownDelivery",
]


class NoSuchSink(NotFound):
    """There is no sink of that name."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"no sink {name!r} here; declare it first")


class NoSuchQueue(NotFound):
    """There is no queue of that name."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"no queue {name!r} here; declare it first")


class QueueStopped(NotFound):
    """The queue crashed so often that its supervisor gave it up; its messages are kept."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(
            f"queue {name!r} process is stopped by supervisor; the log says why; delete it or restart the broker"
        )


class QueueLocked(ResourceLocked):
    """The queue belongs exclusively to another session, or its exclusiveness differs from what is asked for."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(
            f"queue {name!r} belongs exclusively to another session; use another name or wait until it ends"
        )


class InExclusiveUse(AccessRefused):
    """The queue has a feed that wants to be the only one, or the new one wants to be and is not."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"queue {name!r} is in exclusive use; close its other feeds first")


class Forbidden(AccessRefused):
    """The user may not publish there, or not consume from there.

    Args:
        kind: ``"sink"`` or ``"queue"``.
        name: Its name.
    """

    def __init__(self, kind: str, name: str) -> None:
        """Word the refusal."""
        self.kind = kind
        self.name = name
        what = "publish into" if kind == "sink" else "consume from"
        super().__init__(f"the user may not {what} {kind} {name!r}; an administrator can grant that")


class ForeignResource(AccessRefused):
    """Whoever had a sink, a queue or a binding made is not who wants it gone: another broker, or a client of ours.

    RestMS, profile 4/AMQP9: resources from another server are protected from clients of this one.

    Args:
        what: The thing, as texts call it.
        origin: Where it comes from; empty if it is our own.
        asker: Who wants it gone, in the same way.
    """

    def __init__(self, what: str, origin: str, asker: str) -> None:
        """Word the refusal."""
        self.origin = origin
        if origin:
            reason = f"{what} comes from {origin!r}; delete it there, or forget that origin here"
        else:
            reason = f"{what} was made here and not by {asker!r}; delete it here"
        super().__init__(reason)


class ForeignName(AccessRefused):
    """Another broker, or a client of ours, has a queue of the name already: two of one name would share messages.

    Args:
        name: The queue's name.
        origin: Where it comes from; empty if it is our own.
        asker: Who declares it, in the same way.
    """

    def __init__(self, name: str, origin: str, asker: str) -> None:
        """Word the refusal."""
        self.origin = origin
        if origin:
            reason = (
                f"queue {name!r} comes from {origin!r}, and its messages go there; declare another name, use it "
                "without declaring it, or have that origin forgotten here"
            )
        else:
            reason = f"queue {name!r} was made here and not by {asker!r}; delete it here, or tell of it by another name"
        super().__init__(reason)


class SinkInternal(AccessRefused):
    """Only other sinks may publish into the sink."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"sink {name!r} is internal; publish into a sink that is bound to it")


class SinkInUse(PreconditionFailed):
    """The sink has bindings and was to be deleted only without."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"sink {name!r} has bindings; unbind them first, or delete it with if_unused=False")


class QueueInUse(PreconditionFailed):
    """The queue has feeds and was to be deleted only without."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"queue {name!r} has feeds; close them first, or delete it with if_unused=False")


class QueueNotEmpty(PreconditionFailed):
    """The queue has messages and was to be deleted only without."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"queue {name!r} is not empty; purge it first, or delete it with if_empty=False")


class QueueFull(LimitExceeded):
    """The queue has no room for what is to be published, and refuses rather than let older messages give way."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"queue {name!r} is full; consume from it, or raise its max_length or max_bytes")


class LeaseInvalid(AccessRefused):
    """Nobody may use this lease: it was never given, or used, or is too old, or whoever asked for it is gone."""

    def __init__(self) -> None:
        """Word the refusal; why is nobody's business who guesses."""
        super().__init__("lease is not valid; ask for a new one")


class TooManyLeases(LimitExceeded):
    """The session has asked for many leases and used none of them."""

    def __init__(self, limit: int) -> None:
        """Word the refusal."""
        super().__init__(f"{limit} leases are unused; use them, or wait until they expire")


class UnknownDelivery(PreconditionFailed):
    """No unsettled delivery has this number."""

    def __init__(self, number: int) -> None:
        """Word the refusal."""
        self.number = number
        super().__init__(f"no unsettled delivery has the number {number}; settle each delivery once")


class Inequivalent(PreconditionFailed):
    """What exists was declared with another value.

    Args:
        name: The sink's or queue's name.
        option: The option's name in the core's words.
        received: What this declare says.
        current: What is in force.
    """

    def __init__(self, name: str, option: str, received: object, current: object) -> None:
        """Word the refusal."""
        self.name = name
        self.option = option
        self.received = received
        self.current = current
        super().__init__(
            f"{option} of {name!r} is {current!r}, not {received!r}; declare it the same, or delete it first"
        )


class Restarting(Refused):
    """An actor that must answer is being restarted; ask again when it runs.

    Args:
        ref: The actor.
    """

    def __init__(self, ref: Ref) -> None:
        """Word the refusal."""
        self.ref = ref
        super().__init__(f"{ref.path} is being restarted; ask again when it runs")

    async def wait_over(self) -> None:
        """Wait until it runs.

        Raises:
            ActorStopped: It will not run again.
        """
        await self.ref.wait_running()


class NotResident(Restarting):
    """The messages that the answer needs are being read from the store; ask again when they are in memory.

    Args:
        store: The queue's.
        done: How many messages the request has dealt with already; who asks again is told of the others alone.
    """

    def __init__(self, store: "QueueStore", done: int = 0) -> None:
        """Word the refusal."""
        super().__init__(store.ref)
        self.done = done
        self._store = store

    async def wait_over(self) -> None:
        """Wait until they are in memory, or the queue is gone."""
        if not self._store.backlog.is_reading:
            await trio.lowlevel.checkpoint()  # they have come meanwhile
            return
        arrived = trio.Event()
        self._store.wait_arrived(arrived.set)
        await arrived.wait()


class BeingDeleted(Restarting):
    """Something of that name was deleted, and what belonged to it is still on its way out of the store; ask again.

    Args:
        what: The thing, as texts call it.
        over: Set when it is gone.
    """

    def __init__(self, what: str, over: trio.Event) -> None:
        """Word the refusal."""
        self.over = over
        Refused.__init__(self, f"{what} is being deleted; ask again when that is over")

    async def wait_over(self) -> None:
        """Wait until it is gone."""
        await self.over.wait()


class QueueUnreadable(Refused):
    """The store cannot give back what it has of a queue."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"queue {name!r} cannot be read from disk; the log and `triomq store check` say why")


class SinkBroken(Refused):
    """The sink crashed over this very request, or so often before that it was stopped."""

    def __init__(self, name: str) -> None:
        """Word the refusal."""
        self.name = name
        super().__init__(f"sink {name!r} crashed; the log says why")
