"""One port, two protocols: the first eight octets decide (6/DMP, integration with AMQP)."""

from collections.abc import Callable

from triomq.transports import Driver, Transport


class Switch:
    """Who a transport works for until it is known what is spoken on it; made by a connection, which takes its place.

    It keeps back only what begins like the header of a direct connection: at most seven octets. Everything else is the
    usual protocol's business, wrong headers too, and so is a client that never makes up its mind.

    Args:
        transport: The transport.
        usual: Who it works for otherwise.
        header: What a direct connection begins with.
        direct: Called instead with the first octets, the header included, if a direct connection begins.
    """

    __slots__ = ("_direct", "_header", "_seen", "_transport", "_usual")

    def __init__(self, transport: Transport, usual: Driver, header: bytes, direct: Callable[[bytes], None]) -> None:
        self._transport = transport
        self._usual = usual
        self._header = header
        self._direct = direct
        self._seen = b""

    def received(self, data: bytes) -> None:
        """Take octets, and step aside when they say enough."""
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
        """Pass it on: to who says nothing the usual protocol says something, in the end."""
        self._usual.drained()
