"""Response codes, and the error of a peer (6/DMP, response codes)."""

from typing import Final

CODE_NAMES: Final[dict[int, str]] = {
    200: "OK",
    402: "BAD-LEASE",
    403: "NO-ACCESS",
    404: "NOT-FOUND",
    502: "SYNTAX-ERROR",
    503: "INVALID",
    530: "NOT-ALLOWED",
    540: "NOT-IMPLEMENTED",
    541: "INTERNAL-ERROR",
}
"""The word behind each code; there are no others."""

LATE: Final = "the lease was not there in time"
"""The text of a 402 that says nothing about the lease."""

_SHORT = 255  # octets of a short string


class PeerError(Exception):
    """The peer broke a rule; never leaves the engine."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code} {text}")


def response(code: int, text: str) -> bytes:
    """Write a server's response as a short string, its text cut where it would not fit."""
    octets = f"{code} {CODE_NAMES[code]} {text}".rstrip().encode("utf-8", "replace")[:_SHORT]
    return bytes((len(octets),)) + octets
