"""Codes of errors, flags of frames, and the error of a peer."""

import re
from typing import Final

from triomq.errors import RemoteProtocolError

MAJOR: Final = 1
MINOR: Final = 0

COMMAND: Final = 1
EXTENSION: Final = 2
ERROR: Final = 4
LARGE: Final = 8
CONTINUED: Final = 16
KINDS: Final = COMMAND | EXTENSION | ERROR
"""A frame without any of these is a MESSAGE, whichever side sends it."""
KNOWN_FLAGS: Final = KINDS | LARGE | CONTINUED

LONGEST_ERROR: Final = 255
"""Octets of an ERROR's text that we send: SharpMessaging writes a length of one octet and cannot read another."""

LONGEST_REPORT: Final = 1024
"""Octets of a peer's ERROR that are reported: more than a line of a log is of no use."""


_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


def printable(octets: bytes) -> str:
    """Return a peer's words for a log, with escapes for what is no text or would begin a line."""
    text = octets.decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class PeerError(RemoteProtocolError):
    """The peer broke a rule; no engine lets it out.

    Args:
        code: what the ERROR frame begins with.
        text: why, for the peer and for the log.
        is_told: whether the peer gets an ERROR frame; one that speaks another protocol, or nothing, does not.
    """

    def __init__(self, code: int, text: str, *, is_told: bool = True) -> None:
        self.code = code
        self.text = text
        self.is_told = is_told
        super().__init__(f"{code} {text}")
