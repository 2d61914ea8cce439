"""Why a request is refused, why a connection is closed, and the error of a peer."""

from typing import Final, Literal, TypeAlias

RefusalCode: TypeAlias = Literal[
    "OUT_OF_RANGE",  # the offset is not in the stream any more; the bounds say what is
    "UNKNOWN_STREAM",  # there is no such stream, partition, or sink to write to
    "OTHER_STREAM",  # the stream was deleted and declared anew since its identity was learnt
    "UNKNOWN_STAGE",  # what was staged is gone, as after a restart: stage it again
    "FORBIDDEN",  # the user may not do that
    "REFUSED",  # anything else; the text says what
]
"""What an ERROR has; a peer takes one that it does not know for REFUSED."""

CloseCode: TypeAlias = Literal[
    "MALFORMED",  # the client broke a rule of the protocol
    "TOO_SLOW",  # what was begun was not finished in time
    "DENIED",  # the log-in is refused
    "CLOSED",  # the broker ends the connection for a reason of its own
]
"""What a CLOSE has."""

LONGEST_TEXT: Final = 1000
"""Characters of a reason: enough for any of ours, and a foreign name in it cannot make a frame of it."""


class PeerError(Exception):
    """The peer broke a rule; never leaves the engine."""

    def __init__(self, code: CloseCode, text: str) -> None:
        self.code: CloseCode = code
        self.text = text
        super().__init__(f"{code} {text}")
