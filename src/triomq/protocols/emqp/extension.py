"""The extension frame: what eMQP has no place for, as one JSON object behind the frames that released programs read.

It is sent only to a peer that has announced the capability ``jobs`` in its own, and read only from such peers. Nothing
of it stands in the headers: released workers look for their names anywhere in these, in values too.
"""

import msgspec

from triomq.protocols.emqp.codes import PeerError

LONGEST: int = 64 * 1024
"""Bytes of the frame: a traceback is the longest that it carries."""


class Extension(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="v", tag=1):
    """What an extension frame says; names that are not known here are passed over.

    Args:
        capabilities: INFORM, and ACK of it: what the sender knows; HEARTBEAT of a peer.
        name: INFORM: how a person calls the peer.
        running: INFORM of a worker: jobs that it still has, each with its attempt.
        duplicate_of: ACK of a REQUEST: the job that this one would repeat.
        priority: REQUEST and SCHEDULE, from 0 to 9.
        delay: milliseconds before the job may begin.
        deadline: milliseconds that are left for it, at sending.
        attempt: how often it was begun, this time included; in a REPLY, which of them it is of.
        parent: the job that has sent this one, and its attempt.
        unique: no two jobs of one such key are there at a time.
        key: jobs of one key run in order.
        limit: how many jobs of one key run at a time.
        rate: how many jobs of one key begin in a second.
        trace: a traceparent.
        keep: milliseconds for which the result is to be kept.
        stream: whether the job sends items.
        tie: whether the job is to be cancelled when its requester leaves.
        timezone: SCHEDULE: of the cron text, as in the IANA's data base.
        missed: SCHEDULE: what becomes of ticks that nobody was there for.
        state: REPLY: ok, failed, cancelled, timed-out, expired, lost.
        type: REPLY of a failure: its class.
        message: its text.
        traceback: where it came from.
        retry: whether it is worth another attempt.
    """

    capabilities: tuple[str, ...] = ()
    name: str = ""
    running: tuple[tuple[str, int], ...] = ()
    duplicate_of: str = ""
    priority: int | None = None
    delay: int = 0
    deadline: int | None = None
    attempt: int = 0
    parent: tuple[str, int] | None = None
    unique: str = ""
    key: str = ""
    limit: int = 0
    rate: float = 0.0
    trace: str = ""
    keep: int = 0
    stream: bool = False
    tie: bool = False
    timezone: str = ""
    missed: str = ""
    state: str = ""
    type: str = ""
    message: str = ""
    traceback: str = ""
    retry: bool | None = None


NO_EXTENSION = Extension()

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Extension)


def encode_extension(extension: Extension) -> bytes:
    """Write the frame."""
    return _encoder.encode(extension)


def decode_extension(frame: bytes) -> Extension:
    """Read the frame.

    Raises:
        RemoteProtocolError: it is none.
    """
    if len(frame) > LONGEST:
        raise PeerError(f"an extension frame of {len(frame)} bytes; at most {LONGEST} are allowed")
    try:
        return _decoder.decode(frame)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise PeerError(f"the extension frame cannot be read: {error}") from None
