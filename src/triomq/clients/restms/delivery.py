"""A message as its reader gets it."""

from collections.abc import Callable

from triomq.protocols import BasicProperties


class RestMSDelivery:
    """One message of a pipe. It stays there until it, or a newer one of its pipe, is accepted.

    Made by ``RestMSPipe``.
    """

    __slots__ = ("_accept", "address", "body", "number", "properties", "redelivered", "uri")

    def __init__(
        self,
        accept: Callable[["RestMSDelivery"], None],
        *,
        number: int,
        uri: str,
        address: str,
        properties: BasicProperties,
        body: bytes,
        redelivered: bool,
    ) -> None:
        self._accept = accept
        self.number = number
        """Which one of its pipe it is, as this program has got them."""
        self.uri = uri
        self.address = address
        """What it was routed by."""
        self.properties = properties
        """What its publisher gave it."""
        self.body = body
        self.redelivered = redelivered
        """Whether somebody may have seen it before."""

    def __repr__(self) -> str:
        return f"<RestMSDelivery {self.address!r} {len(self.body)} bytes>"

    def accept(self) -> None:
        """Accept it and all older ones of its pipe: their work is done, and the broker deletes them.

        This never waits. What was accepted together goes in one request, soon; ``RestMSPipe.flush`` waits for it.
        """
        self._accept(self)
