"""Gates: the reasons why nothing is read from a connection for now."""

from collections.abc import Collection

from triomq.protocols import Engine
from triomq.transports import Transport


class ReadGates:
    """The gates of one connection, by their names; made by the connection, ends with it.

    While one is closed nothing is read, and the client's silence is not held against it. Each opens without any input
    from the same connection.

    Args:
        transport: What is not read then.
        engine: What does not count the silence then.
    """

    __slots__ = ("_closed", "_engine", "_transport")

    def __init__(self, transport: Transport, engine: Engine[object]) -> None:
        self._transport = transport
        self._engine = engine
        self._closed: set[str] = set()

    @property
    def closed(self) -> Collection[str]:
        """The closed ones."""
        return self._closed

    def is_closed_beside(self, gate: str) -> bool:
        """Return whether another one is closed than this."""
        return bool(self._closed - {gate})

    def close(self, gate: str) -> None:
        """Read nothing until this gate, and all others, are open."""
        if not self._closed:
            self._transport.pause_reading()
            self._engine.reading_paused = True
        self._closed.add(gate)

    def open(self, gate: str) -> None:
        """Read again, if this was the last closed one; nothing if it was not closed."""
        if gate in self._closed:
            self._closed.discard(gate)
            if not self._closed:
                self._transport.resume_reading()
                self._engine.reading_paused = False
