"""Greetings, and what is in commands (RFC 37; PLAIN in RFC 24)."""

import struct
from collections.abc import Mapping
from typing import Final

import msgspec

from triomq.protocols.zmtp.codes import PeerError
from triomq.protocols.zmtp.settings import LONGEST_IDENTITY

VERSION: Final = (3, 1)
"""What this package speaks: since 3.1 subscriptions are commands, and PING and PONG are there."""

SIGNATURE_SIZE: Final = 10
GREETING_SIZE: Final = 64

_REST: Final = struct.Struct("!BB20sB31x")  # version, mechanism, as-server, filler

_VALUE: Final = struct.Struct("!I")

SIGNATURE: Final = b"\xff" + (1).to_bytes(8, "big") + b"\x7f"
"""The padding is what a peer of ZMTP 1.0 takes for the length of an identity's frame, as libzmq writes it."""

LONGEST_CONTEXT: Final = 16
"""Octets of a PING that are sent back; libzmq cuts there too."""

REFUSED: Final = b"400"
"""What ERROR says of a password: libzmq's client knows this word, from ZAP, and does not come again."""


_ERROR_OF_LIBZMQ: Final = b"^RROR"
"""How libzmq 4.3 begins ERROR with PLAIN: it writes ``"\\x5ERROR"``, which C takes for the octet 0x5E and ``RROR``."""


def rest_of_greeting(mechanism: str, *, is_server: bool) -> bytes:
    """Write what follows the signature in a greeting of our version."""
    as_server = is_server and mechanism != "NULL"
    return _REST.pack(*VERSION, mechanism.encode(), as_server)


class Greeting(msgspec.Struct, frozen=True, gc=False):
    """What a peer's greeting says."""

    version: tuple[int, int]
    mechanism: str


def read_greeting(rest: bytes) -> Greeting:
    """Read what is behind the signature."""
    major, minor, mechanism, _ = _REST.unpack(rest)
    return Greeting((major, minor), mechanism.rstrip(b"\0").decode("ascii", "replace"))


def split(command: bytes) -> tuple[bytes, bytes]:
    """Return the name of a command and its data.

    Raises:
        PeerError: There is no name.
    """
    if command.startswith(_ERROR_OF_LIBZMQ):
        return b"ERROR", command[len(_ERROR_OF_LIBZMQ) :]
    end = 1 + command[0] if command else 0
    if end < 2 or end > len(command):
        raise PeerError("MALFORMED", "a command has no name")
    return command[1:end], command[end:]


def encode_properties(properties: Mapping[str, bytes]) -> bytes:
    """Write the properties of READY and INITIATE."""
    return b"".join(
        bytes((len(name),)) + name.encode() + _VALUE.pack(len(value)) + value for name, value in properties.items()
    )


def read_properties(data: bytes) -> dict[bytes, bytes]:
    """Read properties; their names, which may be in any case, become lower case.

    Raises:
        PeerError: They end before they should.
    """
    properties: dict[bytes, bytes] = {}
    place, end = 0, len(data)
    while place < end:
        name_end = place + 1 + data[place]
        if name_end == place + 1 or name_end + 4 > end:
            raise PeerError("MALFORMED", "a property has no name or no value")
        (size,) = _VALUE.unpack_from(data, name_end)
        value_end = name_end + 4 + size
        if value_end > end:
            raise PeerError("MALFORMED", "a property is longer than its command")
        properties[data[place + 1 : name_end].lower()] = data[name_end + 4 : value_end]
        place = value_end
    return properties


def identity_of(properties: Mapping[bytes, bytes]) -> bytes:
    """Return what a peer calls itself; empty if it has no name.

    Raises:
        PeerError: The name is too long.
    """
    identity = properties.get(b"identity", b"")
    if len(identity) > LONGEST_IDENTITY:
        raise PeerError("MALFORMED", f"an identity has {len(identity)} octets; at most {LONGEST_IDENTITY} are allowed")
    return identity


def encode_hello(user: str, password: str) -> bytes:
    """Write the data of PLAIN's HELLO."""
    texts = (user.encode(), password.encode())
    return b"".join(bytes((len(text),)) + text for text in texts)


def read_hello(data: bytes) -> tuple[str, bytes]:
    """Return the user and the password in PLAIN's HELLO.

    Raises:
        PeerError: They are not there, something follows them, or the name is no text.
    """
    user, rest = _read_short(data)
    password, rest = _read_short(rest)
    if rest:
        raise PeerError("MALFORMED", "HELLO has more than a name and a password")
    try:
        return user.decode(), password
    except UnicodeDecodeError:
        raise PeerError("MALFORMED", "the name in HELLO is not UTF-8") from None


def encode_error(reason: bytes) -> bytes:
    """Write the data of ERROR."""
    return bytes((len(reason),)) + reason


def read_error(data: bytes) -> str:
    """Return the reason in ERROR.

    Raises:
        PeerError: There is none.
    """
    reason, _ = _read_short(data)
    return reason.decode("utf-8", "replace")


def _read_short(data: bytes) -> tuple[bytes, bytes]:
    """Return a text behind a length of one octet, and what follows."""
    end = 1 + data[0] if data else 0
    if not end or end > len(data):
        raise PeerError("MALFORMED", "a command ends before it should")
    return data[1:end], data[end:]


def encode_ping(seconds: float, context: bytes = b"") -> bytes:
    """Write the data of PING: for how long without a word our side is to be taken for gone, in tenths of a second."""
    return min(round(seconds * 10), 0xFFFF).to_bytes(2, "big") + context


def read_ping(data: bytes) -> tuple[float, bytes]:
    """Return the time in seconds, and what is to be sent back.

    Raises:
        PeerError: There is no time.
    """
    if len(data) < 2:
        raise PeerError("MALFORMED", "PING has no time to live")
    return int.from_bytes(data[:2], "big") / 10, data[2 : 2 + LONGEST_CONTEXT]
