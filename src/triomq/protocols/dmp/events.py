"""What an engine of a direct connection reports: frozen Structs, in the order of the wire."""

from collections.abc import Iterable, Iterator
from itertools import groupby, repeat
from typing import TypeAlias

import msgspec

from triomq.protocols.dmp.envelope import Envelope


class LeasePresented(msgspec.Struct, frozen=True, gc=False):
    """The client shows its lease; answer with ``accept_sink``, ``accept_feed`` or ``refuse``."""

    lease: str

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return "LeasePresented(…)"


class Ready(msgspec.Struct, frozen=True, gc=False):
    """The server has accepted the lease; ``text`` is its word about it."""

    text: str


class MessageRun(msgspec.Struct, frozen=True):
    """Consecutive messages with the same flags and options; each content is a whole message, to be sent on as it is.

    The same envelope is the same object, as long as the engine remembers it.

    Args:
        envelope: the first one's.
        contents: each message from its size on.
        size: octets of all.
        envelopes: the envelope of each; None if they have the same one.
    """

    envelope: Envelope
    contents: list[bytes]
    size: int
    envelopes: list[Envelope] | None = None

    def messages(self) -> Iterable[tuple[Envelope, bytes]]:
        """Go through the messages, each with its envelope."""
        return zip(self.envelopes or repeat(self.envelope, len(self.contents)), self.contents, strict=True)

    def behind(self, count: int) -> "MessageRun":
        """Return what is left behind so many messages, of which there are more."""
        contents, envelopes = self.contents[count:], self.envelopes and self.envelopes[count:]
        return MessageRun(envelopes[0] if envelopes else self.envelope, contents, sum(map(len, contents)), envelopes)

    def alike(self) -> Iterator["MessageRun"]:
        """Cut the run where the envelope changes."""
        if self.envelopes is None:
            yield self
            return
        start = 0
        for envelope, neighbours in groupby(self.envelopes):
            contents = self.contents[start : start + len(list(neighbours))]
            start += len(contents)
            yield MessageRun(envelope, contents, sum(map(len, contents)))


class RefusalReceived(msgspec.Struct, frozen=True, gc=False):
    """The server's reason to close: an answer to the header, to the lease, or to what was sent into a sink."""

    code: int
    text: str


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule; the response, where one can be given, is queued, and the engine has ended."""

    code: int
    text: str


class Silent(msgspec.Struct, frozen=True, gc=False):
    """Nothing came on a feed for three intervals, not even a null message; the engine has ended."""


class EndOfStream(msgspec.Struct, frozen=True, gc=False):
    """The peer's octets have ended; ``unfinished`` is how many of a message had come that is not whole."""

    unfinished: int = 0


Event: TypeAlias = LeasePresented | Ready | MessageRun | RefusalReceived | Failed | Silent | EndOfStream
