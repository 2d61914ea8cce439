"""Why a connection is ended, and the error of a peer."""

from typing import Literal, TypeAlias

FaultCode: TypeAlias = Literal[
    "MALFORMED",  # the peer broke a rule of the protocol
    "UNFIT",  # it speaks another mechanism, or is a kind of socket that does not talk to ours
    "TOO_LARGE",  # a frame, a message, or what may come before the log-in
    "TOO_MANY",  # subscriptions
    "TOO_SLOW",  # what was begun was not finished in time
    "SILENT",  # it answers no PING any more
]
"""What is wrong with a peer; none of these words goes over the wire, where the connection just ends."""


class PeerError(Exception):
    """The peer broke a rule; never leaves the engine."""

    def __init__(self, code: FaultCode, text: str) -> None:
        self.code: FaultCode = code
        self.text = text
        super().__init__(f"{code} {text}")
