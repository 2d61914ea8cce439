"""What peers with our extensions say about several jobs at once, and about the state of one.

RETURN ["id", …]                   a worker has not begun these
STATE  ["id", …]                   a client asks
STATE  id {"state": …} answer      its broker answers, one message for each
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.codes import PeerError
from triomq.protocols.emqp.frames import LONGEST_ID, is_id

MOST_IDS: Final = 1000
"""Ids in one list: what a broker does about one message it does in one turn, and this is a millisecond of it."""

_LONGEST_LIST: Final = MOST_IDS * (6 * LONGEST_ID + 4)  # JSON may write one byte in six

_LONGEST_STATE: Final = 128 * 1024  # twice what an extension frame may have, of which its traceback comes


ITEM_WINDOW: Final = 100
"""Items that a worker may be ahead of the reader of its stream: enough to hide the way, few enough to be kept."""

ENDED: Final = frozenset(("ok", "failed", "cancelled", "timed-out", "expired", "lost", "unknown"))
"""States after which no other one comes."""


class JobState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has become of a job; names that are not known here are passed over.

    Args:
        state: ``waiting``, ``delayed``, ``parked`` (it waits for others of its key), ``running``; of one that has
            ended as in an extension frame; or ``unknown``: there is none, or it is forgotten.
        queue: where it is, or was.
        attempt: how often it was begun.
        since: when it came into that state, in Unix's milliseconds; 0 if that is not known.
        type: of a failure, as in an extension frame.
        message: as there.
        traceback: as there.
    """

    state: str
    queue: str = ""
    attempt: int = 0
    since: int = 0
    type: str = ""
    message: str = ""
    traceback: str = ""


_encoder = msgspec.json.Encoder()
_list_decoder = msgspec.json.Decoder(tuple[str, ...])
_state_decoder = msgspec.json.Decoder(JobState)


def id_lists(ids: Sequence[bytes]) -> Iterator[bytes]:
    """Write ids as lists, as many as are needed.

    Raises:
        LocalProtocolError: one of them is none.
    """
    for wrong in (each for each in ids if not is_id(each)):
        raise LocalProtocolError(f"id {wrong[:40]!r}; it has at most {LONGEST_ID} bytes, of UTF-8")
    for first in range(0, len(ids), MOST_IDS):
        yield _encoder.encode([each.decode() for each in ids[first : first + MOST_IDS]])


def parse_ids(frame: bytes) -> tuple[bytes, ...]:
    """Read a list of ids.

    Raises:
        PeerError: it is none, or too long.
    """
    try:
        ids = _list_decoder.decode(frame) if len(frame) <= _LONGEST_LIST else ()
        found = tuple(each.encode() for each in ids)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise PeerError(f"the list of ids cannot be read: {error}") from None
    if not 0 < len(found) <= MOST_IDS or not all(len(each) <= LONGEST_ID for each in found):
        raise PeerError(f"a list of ids in {len(frame)} bytes; it takes 1 to {MOST_IDS} of at most {LONGEST_ID} each")
    return found


def encode_state(state: JobState) -> bytes:
    """Write the state of a job."""
    return _encoder.encode(state)


def parse_state(frame: bytes) -> JobState:
    """Read the state of a job.

    Raises:
        PeerError: it is none.
    """
    if len(frame) > _LONGEST_STATE:
        raise PeerError(f"a state in {len(frame)} bytes; at most {_LONGEST_STATE} are allowed")
    try:
        return _state_decoder.decode(frame)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise PeerError(f"the state of a job cannot be read: {error}") from None
