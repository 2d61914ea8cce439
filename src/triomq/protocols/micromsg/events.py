"""What an engine reports: frozen Structs, in the order of the wire.

Messages are numbered 1, 2, … on each connection and in each direction; these numbers have no end, and are not the
sequence numbers of the wire.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, repeat
from typing import TypeAlias

import msgspec

from triomq.protocols.micromsg.extensions import HandshakeExtension
from triomq.protocols.micromsg.filters import FilterCondition
from triomq.protocols.micromsg.properties import PropertyValue


class HandshakeCompleted(msgspec.Struct, frozen=True):
    """The handshake is over. Unless ``x-sasl`` was agreed, everything may be sent; else the client is to log in.

    Args:
        identity: what the peer calls itself; it proves nothing.
        version: major and minor version that are spoken.
        extensions: what was agreed, in the order of its numbers, with what the peer says about each.
        window: messages that this side may leave unacknowledged; 0 if nothing is acknowledged.
    """

    identity: str
    version: tuple[int, int]
    extensions: tuple[HandshakeExtension, ...]
    window: int


class SASLStarted(msgspec.Struct, frozen=True, gc=False):
    """A client logs in; answer with ``challenge``, ``welcome`` or ``fail``."""

    mechanism: str
    response: bytes

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"SASLStarted({self.mechanism!r}, …)"


class SASLResponded(msgspec.Struct, frozen=True, gc=False):
    """A client answers a challenge; answer as ``SASLStarted``."""

    response: bytes

    def __repr__(self) -> str:
        """Show no secret."""
        return "SASLResponded(…)"


class SASLChallenged(msgspec.Struct, frozen=True, gc=False):
    """The server wants one more response; answer with ``respond``."""

    challenge: bytes


class SASLAccepted(msgspec.Struct, frozen=True, gc=False):
    """The server has let this client in; ``data`` is what its mechanism says last."""

    data: bytes


class MicroMessageShape(msgspec.Struct, frozen=True, eq=False):
    """What messages of one shape have in common; offsets are from the first octet of a content.

    Args:
        destination: where they go, or come from.
        properties: their octets, without their length.
        values: the same, read.
        properties_stop: where a content's properties end; they begin at 2.
        body_start: where its body begins.
    """

    destination: str
    properties: bytes
    values: Mapping[str, PropertyValue]
    properties_stop: int
    body_start: int

    def body(self, content: bytes) -> bytes:
        """Cut the body out of a message of this shape."""
        return content[self.body_start :]


class MicroMessageRun(msgspec.Struct, frozen=True):
    """Messages in a row with one destination.

    The same shape is the same object, as long as the engine remembers it.

    Args:
        first: the number of the first message; those of the others follow.
        shape: the first one's.
        contents: of each message all behind the destination: length and octets of properties, length and octets of the
            body. To be sent on as it is.
        size: octets of all.
        shapes: the shape of each; None if they have the same one.
    """

    first: int
    shape: MicroMessageShape
    contents: list[bytes]
    size: int
    shapes: list[MicroMessageShape] | None = None

    @property
    def last(self) -> int:
        """The number of the last message."""
        return self.first + len(self.contents) - 1

    def messages(self) -> Iterable[tuple[MicroMessageShape, bytes]]:
        """Go through the messages, each with its shape."""
        return zip(self.shapes or repeat(self.shape, len(self.contents)), self.contents, strict=True)

    def alike(self) -> Iterator["MicroMessageRun"]:
        """Cut the run where the shape changes."""
        if self.shapes is None:
            yield self
            return
        start = 0
        for shape, neighbours in groupby(self.shapes):
            contents = self.contents[start : start + len(list(neighbours))]
            yield MicroMessageRun(self.first + start, shape, contents, sum(map(len, contents)))
            start += len(contents)

    def behind(self, count: int) -> "MicroMessageRun":
        """Return what is left behind so many messages, of which there are more."""
        contents, shapes = self.contents[count:], self.shapes and self.shapes[count:]
        shape = shapes[0] if shapes else self.shape
        return MicroMessageRun(self.first + count, shape, contents, sum(map(len, contents)), shapes)


class MessagesAcked(msgspec.Struct, frozen=True, gc=False):
    """The peer has acknowledged messages that were sent: so many, the last of them with the number ``up_to``."""

    up_to: int
    count: int


class SubscribeAsked(msgspec.Struct, frozen=True):
    """A client subscribes; answer with ``answer_command``.

    Args:
        number: of the command on this connection, for the answer.
        destination: a topic or a queue.
        conditions: what messages must be like; none for all.
        subscription_id: the client's name for it; may be empty.
        options: what else the command says, which the engine does not know.
    """

    number: int
    destination: str
    conditions: tuple[FilterCondition, ...] = ()
    subscription_id: str = ""
    options: Mapping[str, str] = {}


class UnsubscribeAsked(msgspec.Struct, frozen=True, gc=False):
    """A client ends subscriptions, by destination or by id, of which it gives at least one; answer likewise."""

    number: int
    destination: str = ""
    subscription_id: str = ""


class CommandAnswered(msgspec.Struct, frozen=True, gc=False):
    """The server's answer to a command, with ``x-reply``: 200 if it was done."""

    number: int
    code: int
    text: str


class ExtensionReceived(msgspec.Struct, frozen=True, gc=False):
    """A frame of an extension that the engine does not know: the owner's own."""

    name: str
    payload: bytes


class ErrorReceived(msgspec.Struct, frozen=True, gc=False):
    """The peer ends the connection; the code is 0 where it gives none. The engine has ended."""

    code: int
    text: str


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule; an ERROR is queued where it could read one, and the engine has ended."""

    code: int
    text: str


class Silent(msgspec.Struct, frozen=True, gc=False):
    """Nothing came for three intervals, not even a heartbeat; the engine has ended."""


class EndOfStream(msgspec.Struct, frozen=True, gc=False):
    """The peer's octets have ended; ``unfinished`` is how many of a message had come that is not whole."""

    unfinished: int = 0


Event: TypeAlias = (
    HandshakeCompleted
    | SASLStarted
    | SASLResponded
    | SASLChallenged
    | SASLAccepted
    | MicroMessageRun
    | MessagesAcked
    | SubscribeAsked
    | UnsubscribeAsked
    | CommandAnswered
    | ExtensionReceived
    | ErrorReceived
    | Failed
    | Silent
    | EndOfStream
)
