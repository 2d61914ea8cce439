"""What every wire protocol's engine looks like from outside: bytes in, typed events and bytes out.

    socket ── receive_data ──> engine ── events ──> whoever owns the connection
    socket <── data_to_send ── engine <── commands ──┘            next_timer · handle_timer: the owner's clock

The part in the middle, commands such as ``send_method``, is each protocol's own. This is the part that is the same for
all of them, and all that a driver which reads, writes and turns timers has to know.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

Event_co = TypeVar("Event_co", covariant=True)


class Outgoing(Protocol):
    """What an engine has to be written, by numbers that a driver looks at several times a turn: no calls.

    Meant as plain attributes; properties fit as well.
    """

    @property
    def unsent(self) -> int:
        """How many bytes wait for ``data_to_send``."""
        ...

    @property
    def finished(self) -> bool:
        """Whether no event will follow; then write what is left to send, and close the connection."""
        ...


class Engine(Protocol[Event_co]):
    """One side of one conversation, without a socket, a task or a clock.

    Whoever owns the connection creates the engine and drives it: feed what was read to ``receive_data``, act on
    ``events()``, write what ``data_to_send()`` gives, and call ``handle_timer`` when ``next_timer()`` is due. An engine
    never raises on what a peer sends: it reports the failure as an event and queues the last words. Commands that the
    state does not allow raise ``LocalProtocolError``. The engine ends with its connection and is never reused.
    """

    reading_paused: bool
    """Whether the driver, which sets it, reads nothing at present, so that the peer's silence is not its fault."""

    @property
    def outbox(self) -> Outgoing:
        """What waits to be written; the same object as long as the engine lives."""
        ...

    @property
    def unfinished(self) -> int:
        """How many bytes have come of what is not whole, and so in no event yet."""
        ...

    def receive_data(self, data: bytes, /) -> None:
        """Parse bytes from the peer; ``b""`` is the end of its stream."""
        ...

    def events(self) -> Sequence[Event_co]:
        """Return what happened since the last call, in the order of the wire."""
        ...

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Return what is to be written since the last call, in order."""
        ...

    def next_timer(self) -> float | None:
        """Return when ``handle_timer`` wants to be called, on the clock that ``now`` comes from; ``None`` is never."""
        ...

    def handle_timer(self, now: float, /) -> None:
        """Do what is due at ``now``; called early or late it does no harm."""
        ...
