"""Codes of refusals, and the error of a peer.

eMQP has no refusal: what a broker does not want it drops. ERROR is an extension, sent to peers that know it.
"""

from typing import Final, Literal, TypeAlias

from triomq.errors import RemoteProtocolError

Code: TypeAlias = Literal["malformed", "forbidden", "full", "alarm", "disk", "unknown", "too-old", "leaving", "inform"]

CODES: Final[dict[Code, str]] = {
    "malformed": "the message is none of the protocol's, or out of place",
    "forbidden": "the user may not do that",
    "full": "a queue, or the broker, has no room",
    "alarm": "the broker is low on memory",
    "disk": "the disk is full",
    "unknown": "there is nothing of that name",
    "too-old": "its deadline has passed",
    "leaving": "the broker has said KBAI",
    "inform": "the broker does not know the peer; begin with INFORM",
}
"""What each code means. A peer may send others, which stand for a refusal as well."""


class PeerError(RemoteProtocolError):
    """The peer broke a rule, and which answer that has; never leaves an engine."""

    def __init__(self, text: str, code: Code = "malformed") -> None:
        self.code = code
        self.text = text
        super().__init__(text)
