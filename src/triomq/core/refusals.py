"""Refusals of the core that only endpoints meet; those that a program meets are in ``triomq.errors``.

Each has what it is about in attributes, so that an endpoint can word it as its protocol does.
"""

from typing import TYPE_CHECKING

import trio

from triomq.actors import Ref
from triomq.errors import AccessRefused, LimitExceeded, PreconditionFailed, Refused

if TYPE_CHECKING:
    from triomq.core.queue.queue_state import QueueState


class Forbidden(AccessRefused):
    """The user may not publish there, or not consume from there.

    Args:
        kind: ``"sink"`` or ``"queue"``; ``"queue or stream"`` where it is published into.
        name: Its name.
    """

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        what = "consume from" if kind == "queue" else "publish into"
        super().__init__(f"the user may not {what} {kind} {name!r}; an administrator can grant that")


class ForeignName(AccessRefused):
    """Another broker, or a client of this one, has a queue of the name already: two of one name would share messages.

    Args:
        name: The queue's name.
        origin: Where it comes from; empty if it is this broker's own.
        asker: The peer that declares it, in the same way.
    """

    def __init__(self, name: str, origin: str, asker: str) -> None:
        self.origin = origin
        if origin:
            reason = (
                f"queue {name!r} comes from {origin!r}, and its messages go there; declare another name, use it "
                "without declaring it, or have that origin forgotten here"
            )
        else:
            reason = f"queue {name!r} was made here and not by {asker!r}; delete it here, or tell of it by another name"
        super().__init__(reason)


class LeaseInvalid(AccessRefused):
    """The lease is not valid: never given, or used, or too old, or the session that asked for it has ended."""

    def __init__(self) -> None:
        super().__init__("lease is not valid; ask for a new one")


class TooManyLeases(LimitExceeded):
    """The session has asked for many leases and used none of them."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} leases are unused; use them, or wait until they expire")


class UnknownDelivery(PreconditionFailed):
    """No unsettled delivery has this number."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"no unsettled delivery has the number {number}; settle each delivery once")


class Restarting(Refused):
    """An actor that must answer is being restarted; ask again when it runs.

    Args:
        ref: The actor.
    """

    def __init__(self, ref: Ref) -> None:
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
        queue: The queue.
        done: How many messages the request has removed already; asking again counts the others alone.
    """

    def __init__(self, queue: "QueueState", done: int = 0) -> None:
        super().__init__(queue.ref)
        self.done = done
        self._queue = queue

    async def wait_over(self) -> None:
        """Wait until they are in memory, or the queue is deleted."""
        if not self._queue.backlog.is_reading:
            await trio.lowlevel.checkpoint()  # they have come meanwhile
            return
        arrived = trio.Event()
        self._queue.when_arrived(arrived.set)
        await arrived.wait()


class BeingDeleted(Restarting):
    """Something of that name was deleted, and the store still has some of it; ask again.

    Args:
        what: The thing, as texts call it.
        over: Set when it is gone.
    """

    def __init__(self, what: str, over: trio.Event) -> None:
        self.over = over
        Refused.__init__(self, f"{what} is being deleted; ask again when that is over")

    async def wait_over(self) -> None:
        """Wait until it is gone."""
        await self.over.wait()


class TooManyKeys(PreconditionFailed):
    """Finding the route of a message by all its routing keys would hold up every other client.

    Args:
        sink: The name of the sink that it was published into.
        count: How many keys it has.
    """

    def __init__(self, sink: str, count: int) -> None:
        text = f"{count} routing keys are too many for the patterns that sink '{sink}' leads through"
        super().__init__(f"{text}; publish the message with fewer keys at a time, or unbind patterns")


class TooManySteps(PreconditionFailed):
    """Finding the route of a message through several sinks would hold up every other client.

    Args:
        sink: The name of the sink that it was published into.
    """

    def __init__(self, sink: str) -> None:
        super().__init__(
            f"the sinks that sink '{sink}' leads through have too many patterns, arguments and conditions for one "
            "message; unbind some of them, or bind fewer sinks to each other"
        )
