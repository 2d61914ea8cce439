"""What an engine reports."""

from typing import TypeAlias

import msgspec

from triomq.protocols.zmtp.codes import FaultCode


class LoginRequested(msgspec.Struct, frozen=True, gc=False):
    """A client wants to be let in with a name and a password (PLAIN); answer by ``accept`` or ``refuse``."""

    user: str
    password: bytes

    def __repr__(self) -> str:
        return f"LoginRequested(user={self.user!r})"


class KeyShown(msgspec.Struct, frozen=True, gc=False):
    """A client has shown that it owns a public key, 32 octets (CURVE); answer by ``accept`` or ``refuse``."""

    key: bytes


class Opened(msgspec.Struct, frozen=True, gc=False):
    """The handshake is over: messages may come and go.

    Args:
        socket_type: What the peer is.
        identity: What it calls itself; empty if it has no name.
        version: Of the protocol, as it has announced it.
    """

    socket_type: str
    identity: bytes
    version: tuple[int, int]


class MessagesReceived(msgspec.Struct, frozen=True, gc=False):
    """Messages, each a list of frames, in the order of the wire: at least one."""

    messages: list[list[bytes]]


class TopicSubscribed(msgspec.Struct, frozen=True, gc=False):
    """A SUB wants what begins with a topic; ``keep`` it, or do nothing if it may not."""

    topic: bytes


class TopicCancelled(msgspec.Struct, frozen=True, gc=False):
    """A SUB wants a topic no more; ``drop`` it, which says whether it had asked for that no more often."""

    topic: bytes


class ErrorReceived(msgspec.Struct, frozen=True, gc=False):
    """The peer has ended the connection, and says why; a server that refuses a password sends ``400``."""

    reason: str


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule, or is silent: the engine has ended."""

    code: FaultCode
    text: str


class EndOfStream(msgspec.Struct, frozen=True, gc=False):
    """The peer's octets have ended; ``unfinished`` is how many had come of a message that is not whole."""

    unfinished: int = 0


Event: TypeAlias = (
    LoginRequested
    | KeyShown
    | Opened
    | MessagesReceived
    | TopicSubscribed
    | TopicCancelled
    | ErrorReceived
    | Failed
    | EndOfStream
)
