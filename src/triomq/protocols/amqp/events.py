"""What an engine reports: frozen Structs, in the order of the wire.

Publishes, deliveries and acks come as runs, because one event per message would cost more than the message.
"""

from itertools import groupby
from typing import TypeAlias

import msgspec

from triomq.protocols.amqp.content import Framing
from triomq.protocols.amqp.kinds import PublishKind
from triomq.protocols.amqp.methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, Method
from triomq.protocols.fields import FieldValue
from triomq.protocols.layouts import Layout

# The handshake, as a server sees it


class LoginRequested(msgspec.Struct, frozen=True):
    """The client wants to log in; answer with ``accept_login``, ``refuse_login`` or ``challenge``."""

    mechanism: str
    response: bytes
    locale: str
    client_properties: dict[str, FieldValue]

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return f"LoginRequested({self.mechanism!r}, …)"


class ChallengeAnswered(msgspec.Struct, frozen=True, gc=False):
    """The client answered a challenge; answer as to ``LoginRequested``."""

    response: bytes

    def __repr__(self) -> str:
        """Show no secret: representations end up in logs."""
        return "ChallengeAnswered(…)"


class OpenRequested(msgspec.Struct, frozen=True, gc=False):
    """The client asks for a virtual host; answer with ``open_connection`` or ``close``."""

    virtual_host: str


# The handshake, as a client sees it


class ServerStarted(msgspec.Struct, frozen=True):
    """The server has introduced itself; without ``Settings.login``, answer with ``log_in``."""

    server_properties: dict[str, FieldValue]
    mechanisms: tuple[str, ...]
    locales: tuple[str, ...]


class ChallengeReceived(msgspec.Struct, frozen=True, gc=False):
    """The server wants one more response; answer with ``answer_challenge``."""

    challenge: bytes


class Connected(msgspec.Struct, frozen=True):
    """The connection is open; these limits were agreed."""

    server_properties: dict[str, FieldValue]
    channel_max: int
    frame_max: int
    heartbeat: int


# Channels


class ChannelOpened(msgspec.Struct, frozen=True, gc=False):
    """A channel is there. A server answers with ``send_method(channel, ChannelOpenOk())``; at a client it is done.

    ``incarnation`` counts the channels that this connection has opened: a number that is used again has another one.
    """

    channel: int
    incarnation: int


class ChannelClosed(msgspec.Struct, frozen=True, gc=False):
    """A channel ends without a failure.

    With ``by_peer`` the peer has closed it and waits: answer with ``send_method(channel, ChannelCloseOk())``. Without,
    the peer has answered our own close and the number is free; code and text are ours, or, where the closes
    crossed and ours was 200, the peer's.
    """

    channel: int
    code: int
    text: str
    by_peer: bool


class ChannelFailed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule that ends the channel; channel.close is queued, ``ChannelClosed`` comes with close-ok."""

    channel: int
    code: int
    text: str
    class_id: int
    method_id: int


class Received(msgspec.Struct, frozen=True):
    """A method without content that is not the engine's own business; channel 0 is the connection."""

    channel: int
    method: Method


# Content


class PublishRun(msgspec.Struct, frozen=True):
    """Consecutive publishes of one channel with the same method frame and the same shape of content.

    The same method is the same object, and so is the same framing, for as long as the connection remembers them.
    ``size`` is the octets of all contents together; ``layout`` is that of their properties, None if that is
    not known.
    """

    channel: int
    method: BasicPublish
    framing: Framing
    contents: list[bytes]
    size: int
    layout: Layout | None = None

    def behind(self, count: int) -> "PublishRun":
        """Return what comes behind so many publishes."""
        contents = self.contents[count:]
        return PublishRun(self.channel, self.method, self.framing, contents, sum(map(len, contents)), self.layout)


class PublishMix(msgspec.Struct, frozen=True):
    """Consecutive publishes of one channel that differ in method or shape of content, but not in a method's bits.

    ``kinds`` stands beside ``contents``: the same method with the same shape is the same object, for as long as the
    connection remembers it. ``size`` is the octets of all contents together.
    """

    channel: int
    kinds: list[PublishKind]
    contents: list[bytes]
    size: int

    @property
    def method(self) -> BasicPublish:
        """The first one's."""
        return self.kinds[0].method

    def runs(self) -> list[PublishRun]:
        """Cut it where method or framing change."""
        runs: list[PublishRun] = []
        start = 0
        for _, group in groupby(self.kinds, key=lambda kind: (id(kind.method), id(kind.framing))):
            kinds = list(group)
            kind, stop = kinds[0], start + len(kinds)
            contents = self.contents[start:stop]
            layout = kind.layout if all(other is kind for other in kinds) else None
            runs.append(PublishRun(self.channel, kind.method, kind.framing, contents, sum(map(len, contents)), layout))
            start = stop
        return runs


class AckRun(msgspec.Struct, frozen=True):
    """Consecutive acks of single deliveries on one channel; at a client, confirms of single publishes."""

    channel: int
    tags: list[int]


class DeliverRun(msgspec.Struct, frozen=True):
    """Consecutive deliveries on one channel that differ in tag and content only; ``method`` is the first one's."""

    channel: int
    method: BasicDeliver
    tags: list[int]
    framing: Framing
    contents: list[bytes]
    size: int


class Returned(msgspec.Struct, frozen=True, gc=False):
    """A publish came back from the server."""

    channel: int
    method: BasicReturn
    framing: Framing
    content: bytes


class GetOk(msgspec.Struct, frozen=True, gc=False):
    """The answer to basic.get."""

    channel: int
    method: BasicGetOk
    framing: Framing
    content: bytes


# The end


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule that ends the connection; connection.close, where one can be sent, is queued."""

    code: int
    text: str
    class_id: int
    method_id: int


class HeartbeatLost(msgspec.Struct, frozen=True, gc=False):
    """Nothing came from the peer for two heartbeat intervals; the engine has ended, without a close."""


class Closed(msgspec.Struct, frozen=True, gc=False):
    """The connection was closed in order: by the peer, or by us and the peer's answer is here (or overdue).

    With ``by_peer`` a server answers, when it has answered what came before, with ``send_method(0,
    ConnectionCloseOk())``; a client's engine has done so itself.
    """

    code: int
    text: str
    by_peer: bool


class EndOfStream(msgspec.Struct, frozen=True, gc=False):
    """The peer's octets have ended without connection.close."""


Event: TypeAlias = (
    LoginRequested
    | ChallengeAnswered
    | OpenRequested
    | ServerStarted
    | ChallengeReceived
    | Connected
    | ChannelOpened
    | ChannelClosed
    | ChannelFailed
    | Received
    | PublishRun
    | PublishMix
    | AckRun
    | DeliverRun
    | Returned
    | GetOk
    | Failed
    | HeartbeatLost
    | Closed
    | EndOfStream
)
