"""Headers of data commands: an octet for the command, and its fields (11/MTL, field encodings).

    Lease      01  sequence  lease                    Confirm   06  sequence  multiple
    Response   02  sequence                           Reject    07  sequence  multiple  recycle
    Summon     03  sequence  resource                 Ping      08
    Dismiss    04  sequence  resource                 Pong      09
    Content    05  sequence  resource  properties

A sequence has eight octets, a lease and a resource are a length octet and a text, a boolean is one octet. The second
frame is the body; where a command has no use for it, it is empty, and not looked at.
"""

import re
import struct
from typing import Final

from triomq.errors import LocalProtocolError
from triomq.protocols.fields import encode_short_string
from triomq.protocols.mtl.requests import Frames, WireFault

LEASE, RESPONSE, SUMMON, DISMISS, CONTENT, CONFIRM, REJECT, PING, PONG = range(1, 10)

COMMAND_NAMES: Final = {
    LEASE: "Lease",
    RESPONSE: "Response",
    SUMMON: "Summon",
    DISMISS: "Dismiss",
    CONTENT: "Content",
    CONFIRM: "Confirm",
    REJECT: "Reject",
    PING: "Ping",
    PONG: "Pong",
}
"""What the tables of states call each type."""

LONGEST_TEXT: Final = 255

LARGEST_SEQUENCE: Final = (1 << 64) - 1

BEHIND_SEQUENCE: Final = 9
"""Where the fields behind a sequence begin."""

PING_FRAMES: Final[Frames] = (bytes((PING,)), b"")
PONG_FRAMES: Final[Frames] = (bytes((PONG,)), b"")

_NUMBERED: Final = struct.Struct(">BQ")
pack_numbered: Final = _NUMBERED.pack
"""Write a type and a sequence."""

_SEQUENCE: Final = struct.Struct(">Q")

_UNPRINTABLE: Final = re.compile(rb"[\x00-\x1f\x7f]")

_CONFIRM: Final = struct.Struct(">BQB")
_REJECT: Final = struct.Struct(">BQBB")


def is_printable(octets: bytes) -> bool:
    """Return whether octets have no control character of ASCII in them."""
    return _UNPRINTABLE.search(octets) is None


def read_sequence(header: bytes) -> int:
    """Read the sequence.

    Raises:
        WireFault: The header is too short.
    """
    if len(header) < BEHIND_SEQUENCE:
        raise WireFault("header")
    number: int = _SEQUENCE.unpack_from(header, 1)[0]
    return number


def read_text(header: bytes, position: int) -> tuple[str, int]:
    """Read a short string; return it and where it ends.

    Raises:
        WireFault: The header is too short, or the string has octets that it may not have.
    """
    start = position + 1
    stop = start + (header[position] if position < len(header) else len(header))
    octets = header[start:stop]
    if stop > len(header):
        raise WireFault("header")
    if not is_printable(octets):
        raise WireFault("text")
    try:
        return octets.decode(), stop
    except UnicodeDecodeError:
        raise WireFault("text") from None


def read_numbered_text(header: bytes) -> tuple[int, str]:
    """Read the fields of Lease, Summon and Dismiss.

    Raises:
        WireFault: They are none.
    """
    sequence = read_sequence(header)
    text, stop = read_text(header, BEHIND_SEQUENCE)
    if stop != len(header):
        raise WireFault("header")
    return sequence, text


def read_settlement(header: bytes) -> tuple[int, bool, bool]:
    """Read the fields of Confirm and Reject: sequence, multiple, recycle.

    Raises:
        WireFault: They are none.
    """
    form = _CONFIRM if header[0] == CONFIRM else _REJECT
    if len(header) != form.size:
        raise WireFault("header")
    flags = header[BEHIND_SEQUENCE:]
    if max(flags) > 1:
        raise WireFault("boolean")
    return read_sequence(header), flags[0] == 1, flags[-1] == 1 and len(flags) > 1


def read_code(body: bytes) -> int:
    """Read the body of Response.

    Raises:
        WireFault: It is none.
    """
    if len(body) != 3 or not body.isdigit():
        raise WireFault("code")
    return int(body)


def require_sequence(sequence: int, least: int = 0) -> int:
    """Return a sequence that can be sent.

    Raises:
        LocalProtocolError: It cannot.
    """
    if not least <= sequence <= LARGEST_SEQUENCE:
        raise LocalProtocolError(f"the sequence is {sequence}; it takes a number from {least} to 2**64 - 1")
    return sequence


def text_field(text: str) -> bytes:
    """Write a short string.

    Raises:
        LocalProtocolError: It cannot be one.
    """
    field = encode_short_string(text)
    if not is_printable(field[1:]) or not _is_utf8(field):
        raise LocalProtocolError(f"{text[:40]!r} cannot be sent: control characters and surrogates have no place there")
    return field


def _is_utf8(field: bytes) -> bool:
    try:
        field[1:].decode()
    except UnicodeDecodeError:
        return False
    return True


def numbered_text_frames(kind: int, sequence: int, text: str) -> Frames:
    """Write Lease, Summon or Dismiss."""
    return (pack_numbered(kind, require_sequence(sequence)) + text_field(text), b"")


def response_frames(sequence: int, code: int) -> Frames:
    """Write Response."""
    return (pack_numbered(RESPONSE, sequence), b"%03d" % code)


def confirm_frames(sequence: int, multiple: bool) -> Frames:
    """Write Confirm."""
    return (_CONFIRM.pack(CONFIRM, require_sequence(sequence), multiple), b"")


def reject_frames(sequence: int, multiple: bool, recycle: bool) -> Frames:
    """Write Reject."""
    return (_REJECT.pack(REJECT, require_sequence(sequence), multiple, recycle), b"")
