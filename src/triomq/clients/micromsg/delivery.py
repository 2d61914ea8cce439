"""A message as its subscriber gets it, and how it is accepted."""

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from triomq.protocols.micromsg import MicroMessageShape, PropertyValue

if TYPE_CHECKING:
    from triomq.clients.micromsg.subscription import Unaccepted


class MicroMsgDelivery:
    """One message of a subscription.

    ``with delivery:`` accepts it when the block ends well. MicroMsg2 knows no refusal: what is not accepted goes back
    to its queue when the subscription or the connection ends, and until then it takes a place in the window.

    Args:
        book: Where it is accepted; None if there are no acks.
        number: Its number on its connection.
        shape: What it has in common with others.
        content: Its octets.
    """

    __slots__ = ("_book", "_content", "_number", "_shape")

    def __init__(self, book: "Unaccepted | None", number: int, shape: MicroMessageShape, content: bytes) -> None:
        self._book = book
        self._number = number
        self._shape = shape
        self._content = content

    def __repr__(self) -> str:
        """Show where it came from and how large it is."""
        return f"<MicroMsgDelivery {self.destination!r} {len(self._content) - self._shape.body_start} bytes>"

    @property
    def destination(self) -> str:
        """The topic or the queue that it comes from."""
        return self._shape.destination

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        """The properties that its publisher gave it, and ``redelivered``, by lower-case names."""
        return self._shape.values

    @property
    def body(self) -> bytes:
        """Its body; cut out anew each time."""
        return self._shape.body(self._content)

    @property
    def redelivered(self) -> bool:
        """Whether a subscriber may have seen it before."""
        return self._shape.values.get("redelivered") == 1

    @property
    def accepted(self) -> bool:
        """Whether there is nothing left to accept."""
        return self._book is None

    def accept(self) -> None:
        """Accept it: its work is done, and the queue deletes it.

        This never waits; what is accepted together goes in one ack, once everything before it is accepted too. A second
        call does nothing, nor does one that comes after the connection was lost: then the broker delivers it again.
        """
        book = self._book
        if book is not None:
            self._book = None
            book.accept(self._number)

    def __enter__(self) -> Self:
        """Work on it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Accept it, unless there was an error."""
        if kind is None:
            self.accept()
