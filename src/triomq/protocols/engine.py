"""What every wire protocol's engine looks like from outside: bytes in, typed events and bytes out."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

Event_co = TypeVar("Event_co", covariant=True)


class Engine(Protocol[Event_co]):
    """One side of one conversation, without a socket, a task or a clock.

    Whoever owns the connection creates the engine and drives it: feed what was read to ``receive_data``, act on
    ``events()``, write what ``data_to_send()`` gives, and call ``handle_timer`` when ``next_timer()`` is due. An engine
    never raises on what a peer sends: it reports the failure as an event and queues the goodbye. Commands that the
    state does not allow raise ``LocalProtocolError``. The engine ends with its connection and is never reused.
    """

    def receive_data(self, data: bytes, /) -> None:
        """Take octets from the peer; ``b""`` says that the peer will send no more."""
        ...

    def events(self) -> Sequence[Event_co]:
        """Give what happened since the last call, in the order of the wire."""
        ...

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        """Give what is to be written since the last call, in order."""
        ...

    def next_timer(self) -> float | None:
        """Say when ``handle_timer`` wants to be called, on the clock that ``now`` comes from; ``None`` is never."""
        ...

    def handle_timer(self, now: float, /) -> None:
        """Do what is due at ``now``; called early or late it does no harm."""
        ...
