"""Messages in a row that are alike, read in one pass: REQUESTs of one shape, a worker's REPLYs and READYs, a broker's
ACKs and REPLYs.

What is heard most comes so. A client repeats queue, headers and extension, and only id and message differ; a worker
says REPLY and READY in turn. Here a message costs some comparisons, and one event stands for all of a run: a third of
what ``EMQPEngine.receive`` takes for each. What does not fit ends the run, and is for ``receive``, which says what is
wrong with it, if anything is.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from triomq.protocols.emqp.codes import PeerError
from triomq.protocols.emqp.extension import NO_EXTENSION, Extension, decode_extension
from triomq.protocols.emqp.frames import LONGEST_ID, VERSION, is_text
from triomq.protocols.emqp.headers import Headers, parse_headers
from triomq.protocols.emqp.queues import check_name
from triomq.protocols.emqp.reader import ReadingContext, read_count

_NO_FRAME: Final = b""


class RequestRun(msgspec.Struct, frozen=True):
    """REQUESTs in a row that differ in nothing but id and message; see ``Requested``."""

    queue: str
    headers: Headers
    extension: Extension
    msgids: Sequence[bytes]
    messages: Sequence[bytes]

    @property
    def count(self) -> int:
        """How many messages it were."""
        return len(self.msgids)


class ReplyRun(msgspec.Struct, frozen=True):
    """REPLYs and READYs of a worker in a row.

    Args:
        replies: the request, the message and the extension of each REPLY.
        slots: how many slots the READYs offer.
        count: how many messages it were.
    """

    replies: Sequence[tuple[bytes, bytes, Extension]]
    slots: int
    count: int


class AnswerRun(msgspec.Struct, frozen=True):
    """ACKs and REPLYs of a broker in a row.

    Args:
        acknowledged: the requests that it has accepted.
        replies: the request, the message and the extension of each REPLY; those that are in both were accepted first.
        count: how many messages it were.
    """

    acknowledged: Sequence[bytes]
    replies: Sequence[tuple[bytes, bytes, Extension]]
    count: int


def read_requests(messages: Sequence[Sequence[bytes]], start: int, reading: ReadingContext) -> RequestRun | None:
    """Read REQUESTs that are like the one at ``start``; none if that one needs a closer look."""
    first = messages[start]
    width = len(first)
    is_extended, longest = reading.is_extended, reading.max_message_size
    if width != 7 and not (width == 8 and is_extended):
        return None
    queue_frame, headers_frame, extension_frame = first[4], first[5], first[7] if width == 8 else _NO_FRAME
    try:
        queue, headers = check_name(queue_frame), parse_headers(headers_frame)
        extension = decode_extension(extension_frame, reading.longest_extension) if width == 8 else NO_EXTENSION
    except PeerError:
        return None
    msgids: list[bytes] = []
    payloads: list[bytes] = []
    added = _NO_FRAME
    for frames in islice(messages, start, None):
        if len(frames) != width:
            break
        if width == 7:
            empty, version, name, msgid, to, how, message = frames
        else:
            empty, version, name, msgid, to, how, message, added = frames
        if (
            name != b"REQUEST"
            or to != queue_frame
            or how != headers_frame
            or added != extension_frame
            or empty
            or version != VERSION
            or len(msgid) > LONGEST_ID
            or not msgid.isascii()
            or len(message) > longest
            or not (is_extended or message.isascii() or is_text(message))
        ):
            break
        msgids.append(msgid)
        payloads.append(message)
    return RequestRun(queue, headers, extension, msgids, payloads) if msgids else None


def read_replies(messages: Sequence[Sequence[bytes]], start: int, reading: ReadingContext) -> ReplyRun | None:
    """Read REPLYs and READYs from ``start`` on; none if the first needs a closer look."""
    replies: list[tuple[bytes, bytes, Extension]] = []
    slots = count = 0
    is_extended, longest = reading.is_extended, reading.max_message_size
    for frames in islice(messages, start, None):
        width = len(frames)
        if width < 4 or frames[0] or frames[1] != VERSION or len(frames[3]) > LONGEST_ID or not frames[3].isascii():
            break
        name = frames[2]
        if name == b"REPLY" and (width == 6 or (width == 7 and is_extended)):
            message, request = frames[4], frames[5]
            if (
                len(request) > LONGEST_ID
                or not request.isascii()
                or len(message) > longest
                or not (is_extended or message.isascii() or is_text(message))
            ):
                break
            try:
                extension = NO_EXTENSION if width == 6 else decode_extension(frames[6], reading.longest_extension)
            except PeerError:
                break
            replies.append((request, message, extension))
        elif name == b"READY" and width == 4:
            slots += 1
        elif name == b"READY" and width == 5 and is_extended and (offered := read_count(frames[4])):
            slots += offered
        else:
            break
        count += 1
    return ReplyRun(replies, slots, count) if count else None


def read_answers(
    messages: Sequence[Sequence[bytes]], start: int, reading: ReadingContext, inform_id: bytes
) -> AnswerRun | None:
    """Read ACKs without an extension, but for that of INFORM, and REPLYs with one from ``start`` on.

    None if the first needs a closer look.
    """
    acknowledged: list[bytes] = []
    replies: list[tuple[bytes, bytes, Extension]] = []
    longest, longest_extension = reading.max_message_size, reading.longest_extension
    for frames in islice(messages, start, None):
        width = len(frames)
        if width < 5 or frames[0] or frames[1] != VERSION or len(frames[3]) > LONGEST_ID or not frames[3].isascii():
            break
        name, request = frames[2], frames[4] if width == 5 else frames[5]
        if len(request) > LONGEST_ID or not request.isascii():
            break
        if name == b"ACK" and width == 5 and request != inform_id:
            acknowledged.append(request)
        elif name == b"REPLY" and width == 7 and len(frames[4]) <= longest:
            try:
                extension = decode_extension(frames[6], longest_extension)
            except PeerError:
                break
            replies.append((request, frames[4], extension))
        else:
            break
    count = len(acknowledged) + len(replies)
    return AnswerRun(acknowledged, replies, count) if count else None
