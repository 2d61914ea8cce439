"""Messages of frames as commands: what each has to have, and what is made of it.

All ways in which programs have written a command are read, whatever the dialect. Frames behind those that are known
are not looked at, except for the extension frame of a peer that has announced it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, cast

from triomq.protocols.emqp.calls import read_timing
from triomq.protocols.emqp.codes import PeerError
from triomq.protocols.emqp.events import (
    Acknowledged,
    AdminAsked,
    AdminCommand,
    CancelAsked,
    DisconnectAsked,
    Event,
    Informed,
    JobsReturned,
    PeerLeaving,
    Progressed,
    RefusalReceived,
    Replied,
    Requested,
    ScheduleRemoved,
    ScheduleSet,
    SlotsOffered,
    StateReported,
    StatesAsked,
    Subscribed,
    TopicPublished,
    Unsubscribed,
)
from triomq.protocols.emqp.extension import LONGEST_INFORM, NO_EXTENSION, Extension, decode_extension
from triomq.protocols.emqp.frames import LONGEST_ID, VERSION, is_text
from triomq.protocols.emqp.headers import parse_headers
from triomq.protocols.emqp.jobs import parse_ids, parse_state
from triomq.protocols.emqp.queues import check_name, parse_queues
from triomq.protocols.emqp.states import Role

MOST_FRAMES: Final = 32
"""Frames of a message: three times as many as any command has."""

LONGEST_CRON: Final = 1024
"""Bytes of a cron text: five lists of all their numbers are shorter."""

LONGEST_INTERVAL: Final = 1 << 31
"""Seconds between two jobs of a schedule: sixty-eight years."""

MOST_SLOTS: Final = 1_000_000
"""Jobs that one READY can ask for: no worker has so many, and the sum of many READYs stays a small number."""


class ReadingContext(NamedTuple):
    """What a reader has to know of the conversation."""

    is_broker: bool
    is_extended: bool
    max_message_size: int
    longest_extension: int


@lru_cache(maxsize=16)
def reading_context(
    is_broker: bool, is_extended: bool, max_message_size: int, longest_extension: int
) -> ReadingContext:
    """Return what a reader has to know, the same object for all conversations that are alike."""
    return ReadingContext(is_broker, is_extended, max_message_size, longest_extension)


Read: TypeAlias = Callable[[Sequence[bytes], ReadingContext], Event | None]


class CommandRow(NamedTuple):
    """One command: the event of the state table, how many frames it has at least, and what reads it."""

    received: str
    least: int
    read: Read


def find_row(frames: Sequence[bytes]) -> CommandRow:
    """Return the row of a message's command.

    Raises:
        PeerError: it is none, or too short.
    """
    count = len(frames)
    if count < 4 or frames[0] or frames[1] != VERSION:
        raise PeerError(f"a message begins with an empty frame and {VERSION.decode()}, a command and an id")
    row = COMMANDS.get(frames[2])
    if row is None:
        raise PeerError(f"command {shown(frames[2])} is unknown")
    if not row.least <= count <= MOST_FRAMES:
        raise PeerError(f"{shown(frames[2])} has {count} frames; it takes {row.least} to {MOST_FRAMES}")
    msgid = frames[3]
    if len(msgid) > LONGEST_ID or not (msgid.isascii() or is_text(msgid)):
        _id(msgid)
    return row


def shown(frame: bytes) -> str:
    """Return so much of a frame as fits into a log."""
    return frame[:40].decode("utf-8", "backslashreplace")


def _extension(frames: Sequence[bytes], position: int, reading: ReadingContext) -> Extension:
    """Return what the extension frame says, if the peer has announced that it sends one."""
    if not reading.is_extended or len(frames) <= position:
        return NO_EXTENSION
    return decode_extension(frames[position], reading.longest_extension)


def _check_extended(frames: Sequence[bytes], reading: ReadingContext) -> None:
    """Refuse a command of our own by a peer that has not said that it knows them."""
    if not reading.is_extended:
        raise PeerError(f"{shown(frames[2])} is for peers that have announced the capability jobs")


def _announcement(frames: Sequence[bytes], position: int) -> Extension:
    """Return what the first extension frame says; another program's frame there is none of ours."""
    try:
        return decode_extension(frames[position], LONGEST_INFORM) if len(frames) > position else NO_EXTENSION
    except PeerError:
        return NO_EXTENSION


def _message(frame: bytes, reading: ReadingContext) -> bytes:
    """Return a message; those of released programs are text, and what is not would end them."""
    if len(frame) > reading.max_message_size:
        raise PeerError(f"a message of {len(frame)} bytes; at most {reading.max_message_size} are allowed")
    if not (reading.is_extended or frame.isascii() or is_text(frame)):
        raise PeerError("the message is not UTF-8, which peers without extensions have to send")
    return frame


def _id(frame: bytes) -> bytes:
    if len(frame) > LONGEST_ID or not (frame.isascii() or is_text(frame)):
        raise PeerError(f"id {shown(frame)}; it has at most {LONGEST_ID} bytes, of UTF-8")
    return frame


def _read_inform(frames: Sequence[bytes], reading: ReadingContext) -> Informed:
    role = frames[5]
    if role not in (b"client", b"worker", b"scheduler"):
        raise PeerError(f"{shown(role)} is no role; there are client, worker and scheduler")
    queues = parse_queues(frames[4]) if role == b"worker" else ()
    return Informed(frames[3], cast(Role, role.decode()), queues, _announcement(frames, 6))


def _read_ack(frames: Sequence[bytes], reading: ReadingContext) -> Acknowledged:
    return Acknowledged(_id(frames[4]), NO_EXTENSION if len(frames) == 5 else _announcement(frames, 5))


def _read_ready(frames: Sequence[bytes], reading: ReadingContext) -> SlotsOffered:
    """Read READY; only our own workers count."""
    if not reading.is_extended or len(frames) < 5:
        return SlotsOffered(1)
    count = read_count(frames[4])
    if not count:
        raise PeerError(f"READY for {shown(frames[4])} jobs; it takes 1 to {MOST_SLOTS}")
    return SlotsOffered(count)


def read_count(digits: bytes) -> int:
    """Return how many slots a READY offers; 0 if it says none, or too many."""
    return number if digits.isdigit() and len(digits) <= 7 and (number := int(digits)) <= MOST_SLOTS else 0


def _read_request(frames: Sequence[bytes], reading: ReadingContext) -> Requested:
    return Requested(
        frames[3],
        check_name(frames[4]),
        parse_headers(frames[5]),
        _message(frames[6], reading),
        _extension(frames, 7, reading),
    )


def _read_reply(frames: Sequence[bytes], reading: ReadingContext) -> Replied:
    """Read REPLY: of released workers with the request's id, of others under that id."""
    request = _id(frames[5]) if len(frames) > 5 else frames[3]
    return Replied(request, _message(frames[4], reading), _extension(frames, 6, reading))


def _read_publish(frames: Sequence[bytes], reading: ReadingContext) -> TopicPublished:
    """Read PUBLISH: of clients with headers, of publishers and released ones without."""
    topic = check_name(frames[4], "topic")
    if len(frames) == 6:
        return TopicPublished(frames[3], topic, parse_headers(b""), _message(frames[5], reading), NO_EXTENSION)
    message, extension = _message(frames[6], reading), _extension(frames, 7, reading)
    return TopicPublished(frames[3], topic, parse_headers(frames[5]), message, extension)


def _read_schedule(frames: Sequence[bytes], reading: ReadingContext) -> ScheduleSet:
    """Read SCHEDULE: as released ones write it with its times in frames, as the specification has it without."""
    queue, headers = check_name(frames[4]), parse_headers(frames[5])
    if len(frames) == 7:
        message = _message(frames[6], reading)
        interval, cron = read_timing(message)
        interval = interval or headers.interval
    elif len(frames) == 8:
        raise PeerError("SCHEDULE has 8 frames; it takes 7, or 9 with its interval and its cron text")
    else:
        message, cron = _message(frames[7], reading), _cron(frames[8])
        interval = _interval(frames[6])
    if 0 < interval < LONGEST_INTERVAL:
        cron = ""
    elif interval > 0 or not cron:
        raise PeerError(f"SCHEDULE has neither an interval from 0 to {LONGEST_INTERVAL} s nor a cron text")
    return ScheduleSet(frames[3], queue, headers, max(0.0, interval), message, cron, _extension(frames, 9, reading))


def _cron(frame: bytes) -> str:
    if len(frame) > LONGEST_CRON or not is_text(frame):
        raise PeerError(f"a cron text has at most {LONGEST_CRON} bytes, of UTF-8")
    return frame.decode().strip()


def _interval(frame: bytes) -> float:
    try:
        seconds = float(frame) if len(frame) <= 20 else -2.0
    except ValueError:
        seconds = -2.0
    if seconds != -1 and not 0 < seconds < LONGEST_INTERVAL:
        raise PeerError(f"interval {shown(frame)}; it takes seconds, or -1 where a cron text follows")
    return seconds


def _read_unschedule(frames: Sequence[bytes], reading: ReadingContext) -> ScheduleRemoved:
    message = _message(frames[6 if len(frames) == 7 else 7], reading)
    extension = _extension(frames, 9, reading)
    return ScheduleRemoved(frames[3], check_name(frames[4]), parse_headers(frames[5]), message, extension)


def _read_subscribe(frames: Sequence[bytes], reading: ReadingContext) -> Subscribed:
    return Subscribed(frames[3], check_name(frames[4], "topic"))


def _read_unsubscribe(frames: Sequence[bytes], reading: ReadingContext) -> Unsubscribed:
    return Unsubscribed(frames[3], check_name(frames[4], "topic"))


def _read_error(frames: Sequence[bytes], reading: ReadingContext) -> RefusalReceived:
    code, text = frames[5][:40], frames[6][:1000]
    return RefusalReceived(_id(frames[4]), code.decode("utf-8", "replace"), text.decode("utf-8", "replace"))


def _read_progress(frames: Sequence[bytes], reading: ReadingContext) -> Progressed:
    _check_extended(frames, reading)
    return Progressed(_id(frames[4]), _message(frames[5], reading), _extension(frames, 6, reading))


def _read_cancel(frames: Sequence[bytes], reading: ReadingContext) -> CancelAsked:
    _check_extended(frames, reading)
    return CancelAsked(frames[3], _id(frames[4]), _extension(frames, 6, reading))


def _read_return(frames: Sequence[bytes], reading: ReadingContext) -> JobsReturned:
    _check_extended(frames, reading)
    return JobsReturned(parse_ids(frames[4]))


def _read_state(frames: Sequence[bytes], reading: ReadingContext) -> StatesAsked | StateReported:
    """Read STATE: of a client a question, of its broker an answer."""
    _check_extended(frames, reading)
    if reading.is_broker:
        return StatesAsked(frames[3], parse_ids(frames[4]), _extension(frames, 6, reading))
    result = _message(frames[6], reading) if len(frames) > 6 else None
    return StateReported(_id(frames[4]), parse_state(frames[5]), result)


def _read_admin(frames: Sequence[bytes], reading: ReadingContext) -> AdminAsked:
    return AdminAsked(frames[3], cast(AdminCommand, frames[2].decode()))


def _read_disconnect(frames: Sequence[bytes], reading: ReadingContext) -> DisconnectAsked:
    return DisconnectAsked(frames[3])


def _read_goodbye(frames: Sequence[bytes], reading: ReadingContext) -> PeerLeaving:
    return PeerLeaving()


def _read_heartbeat(frames: Sequence[bytes], reading: ReadingContext) -> None:
    """Pass over the time: one program in Go writes it as a letter."""


COMMANDS: Final[Mapping[bytes, CommandRow]] = {
    b"INFORM": CommandRow("received INFORM", 6, _read_inform),
    b"ACK": CommandRow("received ACK", 5, _read_ack),
    b"READY": CommandRow("received READY", 4, _read_ready),
    b"REQUEST": CommandRow("received REQUEST", 7, _read_request),
    b"REPLY": CommandRow("received REPLY", 5, _read_reply),
    b"PUBLISH": CommandRow("received PUBLISH", 6, _read_publish),
    b"SCHEDULE": CommandRow("received SCHEDULE", 7, _read_schedule),
    b"UNSCHEDULE": CommandRow("received UNSCHEDULE", 7, _read_unschedule),
    b"HEARTBEAT": CommandRow("received HEARTBEAT", 4, _read_heartbeat),
    b"SUBSCRIBE": CommandRow("received SUBSCRIBE", 5, _read_subscribe),
    b"UNSUBSCRIBE": CommandRow("received UNSUBSCRIBE", 5, _read_unsubscribe),
    b"ERROR": CommandRow("received ERROR", 7, _read_error),
    b"PROGRESS": CommandRow("received PROGRESS", 6, _read_progress),
    b"CANCEL": CommandRow("received CANCEL", 5, _read_cancel),
    b"RETURN": CommandRow("received RETURN", 5, _read_return),
    b"STATE": CommandRow("received STATE", 6, _read_state),
    b"STATUS": CommandRow("received STATUS", 4, _read_admin),
    b"ROUTER_SHOW_WORKERS": CommandRow("received ROUTER_SHOW_WORKERS", 4, _read_admin),
    b"ROUTER_SHOW_SCHEDULERS": CommandRow("received ROUTER_SHOW_SCHEDULERS", 4, _read_admin),
    b"HELLO": CommandRow("received HELLO", 4, _read_admin),
    b"DISCONNECT": CommandRow("received DISCONNECT", 4, _read_disconnect),
    b"KBAI": CommandRow("received KBAI", 4, _read_goodbye),
    b"KBYE": CommandRow("received KBAI", 4, _read_goodbye),
}
"""What is understood; KBYE is what released programs call KBAI."""
