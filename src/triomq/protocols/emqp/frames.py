"""Commands as messages of frames, without the identity that a ROUTER has before them.

An empty frame, ``eMQP/1.0``, the command, the message's id, and what the command is about. Every function here writes
one message; an engine has them called in the right state, and whoever sends many alike calls them himself. Where they
take an extension, that is its frame.
"""

from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, TypeAlias

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp.calls import with_timing
from triomq.protocols.emqp.headers import NO_HEADERS, Headers
from triomq.protocols.emqp.queues import LONGEST_NAME, WeightedQueue, encode_queues
from triomq.protocols.emqp.settings import Dialect

Frames: TypeAlias = tuple[bytes, ...]

VERSION: Final = b"eMQP/1.0"

LEAST_FRAMES: Final = 4
"""Of a message: an empty one, the version, a command and an id."""

USUAL_FRAMES: Final = {b"REQUEST": 7, b"REPLY": 6, b"ACK": 5, b"READY": 4, b"HEARTBEAT": 5}
"""How many frames the commands have that come most; without an extension frame."""

LONGEST_ID: Final = 255
"""Bytes of a message's id, as AMQP's message-id has."""


LONGEST_INTERVAL: Final = 100 * 366 * 24 * 3600
"""Seconds between two jobs of a schedule: a hundred years."""


def message_ids(prefix: bytes) -> Callable[[], bytes]:
    """Return a function that makes ids, unique if the prefix is: ``uuid4().hex`` once costs less than one a message."""
    return (b"%b-%d" % (prefix, number) for number in count(1)).__next__


def command(name: bytes, msgid: bytes, *frames: bytes, extension: bytes | None = None) -> Frames:
    """Write any command."""
    if extension is None:
        return (b"", VERSION, name, msgid, *frames)
    return (b"", VERSION, name, msgid, *frames, extension)


def is_text(frame: bytes) -> bool:
    """Return whether a frame is UTF-8; one that is not ends released programs."""
    if frame.isascii():
        return True
    try:
        frame.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_id(frame: bytes) -> bool:
    """Return whether a frame can be the id of a message."""
    return len(frame) <= LONGEST_ID and is_text(frame)


def name_frame(name: str) -> bytes:
    """Write the name of a queue or a topic.

    Raises:
        LocalProtocolError: it is too long.
    """
    frame = name.encode()
    if len(frame) > LONGEST_NAME:
        raise LocalProtocolError(f"the name has {len(frame)} bytes; at most {LONGEST_NAME} are allowed")
    return frame


def request_frames(
    msgid: bytes, queue: str, headers: Headers, message: bytes, extension: bytes | None = None
) -> Frames:
    """Write REQUEST."""
    return command(b"REQUEST", msgid, name_frame(queue), headers.frame, message, extension=extension)


def job_frames(msgid: bytes, queue: bytes, headers: bytes, message: bytes, extension: bytes | None = None) -> Frames:
    """Write REQUEST of frames that are written already, for those who give many jobs of one queue."""
    if extension is None:
        return (b"", VERSION, b"REQUEST", msgid, queue, headers, message)
    return (b"", VERSION, b"REQUEST", msgid, queue, headers, message, extension)


def reply_frames(
    msgid: bytes, request: bytes, message: bytes, extension: bytes | None = None, dialect: Dialect = "eventmq-0.3"
) -> Frames:
    """Write REPLY: the request's id is a sixth frame, or in the strict dialect the id of the reply."""
    if extension is None and dialect == "strict":
        return command(b"REPLY", request, message)
    return command(b"REPLY", msgid, message, request, extension=extension)


def publish_frames(
    msgid: bytes,
    topic: str,
    message: bytes,
    headers: Headers = NO_HEADERS,
    extension: bytes | None = None,
    dialect: Dialect = "eventmq-0.3",
) -> Frames:
    """Write PUBLISH: with headers as the specification's clients do, without as its publishers and released ones do."""
    if extension is None and dialect != "strict":
        return command(b"PUBLISH", msgid, name_frame(topic), message)
    return command(b"PUBLISH", msgid, name_frame(topic), headers.frame, message, extension=extension)


def schedule_frames(
    msgid: bytes,
    queue: str,
    headers: Headers,
    message: bytes,
    *,
    interval: float = 0.0,
    cron: str = "",
    ends: bool = False,
    extension: bytes | None = None,
    dialect: Dialect = "eventmq-0.3",
) -> Frames:
    """Write SCHEDULE, or UNSCHEDULE if it ends one.

    Args:
        msgid: the message's id.
        queue: where the jobs go.
        headers: of the schedule.
        message: the call.
        interval: whole seconds between jobs; 0 if ``cron`` says when.
        cron: five fields.
        ends: whether the schedule is to end; then neither of the two matters.
        extension: what a peer with extensions is told.
        dialect: the strict one has no place for interval and cron but in the message, which must be a call then.

    Raises:
        LocalProtocolError: it has neither an interval nor a cron text, or no place for it.
    """
    name = b"UNSCHEDULE" if ends else b"SCHEDULE"
    if not ends and not (cron and not interval) and not (1 <= interval <= LONGEST_INTERVAL and interval % 1 == 0):
        raise LocalProtocolError(
            f"interval is {interval}; a schedule takes whole seconds from 1 to {LONGEST_INTERVAL}, or a cron text"
        )
    if extension is None and dialect == "strict":
        timed = message if ends else with_timing(message, int(interval), cron)
        return command(name, msgid, name_frame(queue), headers.frame, timed)
    seconds = b"%d" % interval if interval and not ends else b"-1"
    text = b"" if ends or interval else cron.encode()
    return command(name, msgid, name_frame(queue), headers.frame, seconds, message, text, extension=extension)


def inform_frames(
    msgid: bytes,
    role: str,
    queues: tuple[WeightedQueue, ...] = (),
    extension: bytes | None = None,
    dialect: Dialect = "eventmq-0.3",
) -> Frames:
    """Write INFORM; the strict dialect has the pairs of queues without brackets around all of them."""
    frame = encode_queues(queues)
    if dialect == "strict" and queues:
        frame = frame[1:-1]
    return command(b"INFORM", msgid, frame, role.encode(), extension=extension)


def goodbye_frames(msgid: bytes, *, is_extended: bool, dialect: Dialect) -> Iterable[Frames]:
    """Write KBAI; KBYE before it where the peer may be a released one, which knows no KBAI."""
    if not is_extended and dialect != "strict":
        yield command(b"KBYE", msgid)
    yield command(b"KBAI", msgid)
