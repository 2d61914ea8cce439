"""What an engine reports beside the peer's messages, which are events as they are."""

from typing import TypeAlias

import msgspec

from triomq.protocols.tap.codes import CloseCode
from triomq.protocols.tap.messages import (
    Answer,
    ChallengeAnswered,
    LoginChallenged,
    LoginRequested,
    Request,
    ServerClosing,
    ServerGreeting,
    Welcomed,
)


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule; a server's CLOSE is queued, and the engine has ended."""

    code: CloseCode
    text: str


class EndOfStream(msgspec.Struct, frozen=True, gc=False):
    """The peer's bytes have ended; ``unfinished`` is how many had come of a frame that is not whole."""

    unfinished: int = 0


ServerEvent: TypeAlias = LoginRequested | ChallengeAnswered | Request | Failed | EndOfStream
ClientEvent: TypeAlias = ServerGreeting | LoginChallenged | Welcomed | Answer | ServerClosing | Failed | EndOfStream
