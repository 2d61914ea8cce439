"""The extension frame: what eMQP has no place for, as one JSON object behind the frames that released programs read.

It is sent only to a peer that has announced the capability ``jobs`` in its own, and read only from such peers. Nothing
of it stands in the headers: released workers look for their names anywhere in these, in values too.
"""

from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.codes import PeerError

LONGEST: Final = 64 * 1024
"""Bytes of a peer's frame: a traceback is the longest that it carries."""

LONGEST_PASSED_ON: Final = LONGEST + 1024
"""The same of a broker's: it passes on what it was sent, with an attempt and a deadline."""

MOST_RUNNING: Final = 10_000
"""Jobs that a worker can say it still has: so many slots are the most that it may have."""

LONGEST_INFORM: Final = 3 * 1024 * 1024
"""Bytes of the frame of INFORM: so many jobs whose ids are as long as they may be."""

LONGEST_TIME: Final = 100 * 366 * 24 * 3600 * 1000
"""Milliseconds: a hundred years, which added to any clock are still a number."""

Milliseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LONGEST_TIME)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=255)]
"""A key: as long as other names here, in characters."""


class Extension(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="v", tag=1, gc=False):
    """What an extension frame says; names that are not known here are passed over, and a wrong value spoils all.

    Args:
        capabilities: INFORM, and ACK of it: what the sender knows; HEARTBEAT of a peer.
        name: INFORM: how a person calls the peer; SCHEDULE and UNSCHEDULE: whose schedule it is.
        identity: INFORM: under which identity the peer has come before, if its present connection has another one.
        running: INFORM of a worker: jobs that it still has, each with its attempt.
        duplicate_of: ACK of a REQUEST: the job that this one would repeat.
        priority: REQUEST and SCHEDULE, from 0 to 9.
        delay: milliseconds before the job may begin.
        deadline: milliseconds that are left for it, at sending.
        timeout: milliseconds that an attempt may take; 0 leaves that to the headers, which know whole seconds.
        retries: how often it is tried again when it fails; 0 leaves that to the headers.
        backoff: milliseconds before the first of these, which double with each, and the most of them.
        attempt: how often it was begun, this time included; in a REPLY or PROGRESS, which of them it is of.
        parent: the job that has sent this one, and its attempt.
        unique: no two jobs of a user with one such key are there at a time.
        key: jobs of a user with one key are counted together.
        shared: both are those of all users that say so, and not the user's own.
        limit: how many jobs of one key run at a time.
        rate: how many jobs of one key begin in a second.
        trace: a traceparent.
        keep: milliseconds for which the result is to be kept.
        stream: whether somebody reads the items that the job sends.
        tie: whether the job is to be cancelled when its requester leaves.
        timezone: SCHEDULE: of the cron text, as in the IANA's data base.
        staying: UNSCHEDULE with a name: all schedules of that name end but these, told by their ``schedule_key``.
        missed: SCHEDULE: what becomes of ticks that nobody was there for.
        state: REPLY: ok, failed, cancelled, timed-out, expired, lost.
        type: REPLY of a failure: its class.
        message: its text.
        traceback: where it came from.
        retry: whether it is worth another attempt.
        number: PROGRESS: which value it is, or which item, from 1; of a reader, how many items it has taken. REPLY: how
            many items there were.
        item: PROGRESS: whether it is an item of a stream.
        grace: CANCEL: milliseconds that the job has to end by itself; without it is the worker's to say.
        tree: CANCEL: whether the jobs that it has sent end too.
        follow: STATE: whether changes are to be reported as they come. PROGRESS of a reader: whether the items that
            it has not taken are to be sent again.
        result: STATE: whether answers are to be reported with it.
    """

    capabilities: tuple[str, ...] = ()
    name: str = ""
    identity: Name = ""
    running: tuple[tuple[str, Count], ...] = ()
    duplicate_of: str = ""
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)] | None = None
    delay: Milliseconds = 0
    deadline: Milliseconds | None = None
    timeout: Milliseconds = 0
    retries: Count = 0
    backoff: tuple[Milliseconds, Milliseconds] | None = None
    attempt: Count = 0
    parent: tuple[str, Count] | None = None
    unique: Name = ""
    key: Name = ""
    limit: Count = 0
    rate: Annotated[float, msgspec.Meta(ge=0.0, le=1e6)] = 0.0
    shared: bool = False
    trace: Name = ""
    keep: Milliseconds = 0
    stream: bool = False
    tie: bool = False
    staying: tuple[str, ...] = ()
    timezone: str = ""
    missed: str = ""
    state: str = ""
    type: str = ""
    message: str = ""
    traceback: str = ""
    retry: bool | None = None
    number: Count = 0
    item: bool = False
    grace: Milliseconds | None = None
    tree: bool = False
    follow: bool = False
    result: bool = False


NO_EXTENSION = Extension()

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Extension)

_REMEMBERED: Final = 40
"""Bytes of a frame that is worth remembering: most jobs have the same, of an attempt and how it ended."""

_remembered = lru_cache(maxsize=256)(_decoder.decode)


def encode_extension(extension: Extension) -> bytes:
    """Write the frame."""
    return _encoder.encode(extension)


def check_written(frame: bytes, longest: int = LONGEST) -> None:
    """Refuse a frame that the other side would not read.

    Raises:
        LocalProtocolError: it is too long.
    """
    if len(frame) > longest:
        raise LocalProtocolError(f"an extension frame of {len(frame)} bytes; at most {longest} are allowed")


def decode_extension(frame: bytes, longest: int = LONGEST_PASSED_ON) -> Extension:
    """Read the frame.

    Raises:
        RemoteProtocolError: it is none.
    """
    if len(frame) > longest:
        raise PeerError(f"an extension frame of {len(frame)} bytes; at most {longest} are allowed")
    try:
        return _remembered(frame) if len(frame) <= _REMEMBERED else _decoder.decode(frame)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise PeerError(f"the extension frame cannot be read: {error}") from None
