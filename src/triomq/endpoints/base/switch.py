"""One port, two protocols: the first eight bytes decide (6/DMP, integration with AMQP)."""

from collections.abc import Callable

from triomq.transports import Driver, Transport


class Switch:
    """The driver of a transport until it is known what is spoken on it; made by a connection, which takes its place.

    It holds only what begins like the header of a direct connection: at most seven bytes. Everything else is the
    usual protocol's business, wrong headers too, and so is a client that never makes up its mind.

    Args:
        transport: The transport.
        usual: The driver that it has otherwise.
        header: What a direct connection begins with.
        direct: Called instead with the first bytes, the header included, if a direct connection begins.
    """

    __slots__ = ("_direct", "_header", "_seen", "_transport", "_usual")

    def __init__(self, transport: Transport, usual: Driver, header: bytes, direct: Callable[[bytes], None]) -> None:
        self._transport = transport
        self._usual = usual
        self._header = header
        self._direct = direct
        self._seen = b""

    def received(self, data: bytes) -> None:
        """Look at bytes, and step aside when they are enough."""
        self._seen += data
        if self._seen.startswith(self._header):
            self._direct(self._seen)
        elif not data or not self._header.startswith(self._seen):
            self._transport.start(self._usual)
            if self._seen:
                self._usual.received(self._seen)
            if not data:
                self._usual.received(b"")

    def drained(self) -> None:
        """Pass it on: a client that sends nothing is sent something by the usual protocol, in the end."""
        self._usual.drained()
