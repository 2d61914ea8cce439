"""Messages of the control flow: an envelope, the name of a command or the code of a reply, and a JSON object.

    REQ              '' · Connection.Open · {…}
    REQ_CORRELATE    four octets · '' · Connection.Open · {…}
    proxies          identities · … · '' · Connection.Open · {…}
    DEALER           Connection.Open · {…}

The envelope is whatever stands before the message up to the first empty frame; a reply begins with the same one, or a
REQ would not see it. Exactly two frames have none. The identity that a ROUTER puts first is not part of any of this.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols.mtl.codes import STATUSES, FaultReason

Frames: TypeAlias = tuple[bytes, ...]

LONGEST_ENVELOPE: Final = 8
"""Frames before a message: more proxies than anybody has in a row."""

LONGEST_NAME: Final = 255

DEEPEST_JSON: Final = 32

_FIRST_DATA_TYPE, _LAST_DATA_TYPE = 1, 9

_decoder: Final = msgspec.json.Decoder(dict[str, Any])
_encode: Final = msgspec.json.Encoder().encode


class WireFault(RemoteProtocolError):
    """A message that is dropped; never leaves an engine."""

    def __init__(self, reason: FaultReason) -> None:
        self.reason = reason
        super().__init__(reason)


class MTLRequest(msgspec.Struct, frozen=True):
    """A control command.

    Args:
        envelope: What its reply has to begin with.
        command: Its name in lower case, as it is compared.
        arguments: What stands in the body.
    """

    envelope: Frames
    command: str
    arguments: dict[str, Any]


class MTLReply(msgspec.Struct, frozen=True):
    """The reply to a control command."""

    envelope: Frames
    code: int
    fields: dict[str, Any]


def is_data(frames: Sequence[bytes]) -> bool:
    """Return whether a message is of a data flow, where both flows share a socket.

    The names of control commands begin with a letter, and envelopes are followed by two frames more.
    """
    return len(frames) == 2 and _FIRST_DATA_TYPE <= (frames[0][0] if frames[0] else 0) <= _LAST_DATA_TYPE


def read_request(frames: Sequence[bytes], longest_body: int) -> MTLRequest:
    """Read a control command.

    Raises:
        WireFault: It is ill-formed.
    """
    envelope, name, body = _split(frames)
    if not 0 < len(name) <= LONGEST_NAME or not name.isascii():
        raise WireFault("name")
    return MTLRequest(envelope, name.decode("ascii").lower(), _read_object(body, longest_body))


def read_reply(frames: Sequence[bytes], longest_body: int) -> MTLReply:
    """Read the reply to a control command.

    Raises:
        WireFault: It is ill-formed.
    """
    envelope, code, body = _split(frames)
    if len(code) != 3 or not code.isdigit() or not b"2" <= code[:1] <= b"5":
        raise WireFault("code")
    return MTLReply(envelope, int(code), _read_object(body, longest_body))


def _split(frames: Sequence[bytes]) -> tuple[Frames, bytes, bytes]:
    if len(frames) == 2:
        return (), frames[0], frames[1]
    for place, frame in enumerate(frames[:LONGEST_ENVELOPE]):
        if not frame:
            if len(frames) != place + 3:
                raise WireFault("frames")
            return tuple(frames[: place + 1]), frames[place + 1], frames[place + 2]
    raise WireFault("envelope" if len(frames) > LONGEST_ENVELOPE else "frames")


def _read_object(body: bytes, longest: int) -> dict[str, Any]:
    if len(body) > longest:
        raise WireFault("too-long")
    try:
        found = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise WireFault("json") from None
    if not _is_shallow(found):
        raise WireFault("json")
    return found


def _is_shallow(value: object) -> bool:
    """Return whether a value nests no deeper than allowed."""
    level: list[object] = [value]
    for _ in range(DEEPEST_JSON + 1):
        inner = [each for each in level if isinstance(each, dict | list)]
        if not inner:
            return True
        level = [each for one in inner for each in (one.values() if isinstance(one, dict) else one)]
    return False


def request_frames(name: str, arguments: Mapping[str, object], envelope: Frames = ()) -> Frames:
    """Write a control command.

    Raises:
        LocalProtocolError: JSON has no form for one of the arguments, or the name cannot be sent.
    """
    if not 0 < len(name) <= LONGEST_NAME or not name.isascii():
        raise LocalProtocolError(f"a command has a name of 1 to {LONGEST_NAME} letters of ASCII, not {name[:40]!r}")
    return (*envelope, name.encode(), _write_object(arguments))


def reply_frames(code: int, fields: Mapping[str, object], envelope: Frames = ()) -> Frames:
    """Write a reply; the status, which every reply has, is added.

    Raises:
        LocalProtocolError: JSON has no form for one of the fields, or there is no such code.
    """
    status = STATUSES.get(code)
    if status is None:
        raise LocalProtocolError(f"{code} is no code of a reply; these are {', '.join(map(str, STATUSES))}")
    return (*envelope, b"%d" % code, _write_object({"status": status} | dict(fields) | {"status": status}))


def _write_object(fields: Mapping[str, object]) -> bytes:
    try:
        return _encode(fields)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"this is nothing that JSON can say: {error}") from None
