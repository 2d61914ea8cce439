"""A content as its reader gets it, and how it is settled."""

from collections.abc import Callable

from triomq.clients.settling import ClientDelivery, Settling
from triomq.protocols import BasicProperties
from triomq.protocols.mtl import ContentProperties, MTLDataClient, decode_content


class ReaderConfirms(Settling):
    """What is to be settled of one connection of a reader's flow; made by ``MTLReader``.

    Args:
        engine: Where it is told.
        flush_soon: Has sent soon what the engine has to say.
    """

    __slots__ = ("_engine", "_tell")

    def __init__(self, engine: MTLDataClient, flush_soon: Callable[[], None]) -> None:
        super().__init__()
        self._engine = engine
        self._tell = flush_soon

    def _flush_soon(self) -> None:
        self._tell()

    def _send_accepted(self, tag: int, *, multiple: bool) -> None:
        self._engine.confirm(tag, multiple=multiple)

    def _send_refused(self, tag: int, *, multiple: bool, requeue: bool) -> None:
        self._engine.reject(tag, multiple=multiple, recycle=requeue)
        self._tell()


class MTLDelivery(ClientDelivery):
    """One content of a reader; see ``ClientDelivery`` for how it is settled.

    Args:
        acks: Where it is settled; None if there is nothing to settle.
        tag: Its sequence.
        resource: Where it comes from.
        table: Its properties, as they came.
        body: Its body.
    """

    __slots__ = ("_table", "body", "resource")

    def __init__(self, acks: Settling | None, tag: int, resource: str, table: bytes, body: bytes) -> None:
        self._acks = acks  # as ``ClientDelivery`` has it; its call would cost a tenth of a delivery
        self._settled = acks is None
        self.tag = tag
        self.resource = resource
        """The resource that it comes from."""
        self._table = table
        self.body = body

    def __repr__(self) -> str:
        """Show where it came from and how large it is."""
        return f"<MTLDelivery {self.resource!r} {len(self.body)} bytes>"

    @property
    def content(self) -> ContentProperties:
        """All that its table says; decoded anew each time."""
        return decode_content(self._table)

    @property
    def properties(self) -> BasicProperties:
        """The properties that its publisher gave it; decoded anew each time."""
        return self.content.basic

    @property
    def address(self) -> str:
        """What it was routed by."""
        return self.content.address or ""

    @property
    def redelivered(self) -> bool:
        """Whether a reader may have seen it before."""
        return self.content.redelivered
