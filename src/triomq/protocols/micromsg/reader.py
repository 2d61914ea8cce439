"""A stream of frames after the handshakes: messages in runs, and all other frames one by one.

    flags seq  destination  properties    body
    00    0001 05 queue     0006 a:N10;   02 hi            MESSAGE, COMMAND, EXTENSION, ERROR: by the lowest three flags
    08    0002 05 queue     0006 a:N10;   00000100 …       LARGE: the last length has four octets
    18    0003 …                                           CONTINUED: more of this body comes in further frames

There are four ways to read a message, from the cheapest; 0.2, 0.35, 0.8 and 4 µs for 100 octets with a property:

- Messages that are alike in all but sequence number and body, the length of the body included: a comparison and a
  slice for each. Flags and sequence numbers stand at the same offsets of each, so that three slices with a step check
  them for all.
- Messages alike in destination and properties: the same, with the length looked up and the number compared.
- Messages whose shapes are remembered: three lengths, and a look-up by the octets of destination and properties.
- Any message: its lengths are walked, and its shape is looked up, or made.

Rules:

- All but the last take what has the octets of a message that was walked, and the sequence number that is due. They
  never judge: at anything else they stop, and the next message is walked.
- A length is judged before anything behind it is stored.
- A sequence number is that of a whole message: all frames of one message have the same. A number that is not due is a
  repetition if it is one of the last window's: it is dropped. Else the sender counts in another way: it is taken.
"""

from typing import Final, NamedTuple

from triomq.protocols.micromsg.codes import (
    COMMAND,
    CONTINUED,
    ERROR,
    EXTENSION,
    KINDS,
    KNOWN_FLAGS,
    LARGE,
    LONGEST_REPORT,
    PeerError,
)
from triomq.protocols.micromsg.events import MicroMessageRun, MicroMessageShape
from triomq.protocols.micromsg.outbox import columns_of
from triomq.protocols.micromsg.settings import LONGEST_COMMAND, Settings
from triomq.protocols.micromsg.shapes import ReadShape, ShapeTable
from triomq.protocols.micromsg.windows import SEQUENCES, ReceivingWindow

_LARGE_FRAME: Final = 16 * 1024
"""Octets from which a frame is worth the trouble of not being copied once more."""

_FIRST_LOOK: Final = 8
"""Messages that are taken for alike at first: what is found wrong among them was looked at in vain."""

_VARIED: Final = 64
"""Messages of different lengths after which it is worth a look whether they are alike by now."""

_LONG: Final = 16
"""A run of so many messages with one shape stays one: then another one costs little."""


class WireFrame(NamedTuple):
    """A frame that is no message: COMMAND, EXTENSION or ERROR, the extension's number, and what it carries."""

    kind: int
    extension: int
    payload: bytes


class MicroMsgReader:
    """Cuts a stream into runs of messages and other frames; owned by one engine.

    It holds the octets of an unfinished frame, and never copies them more than twice.

    Args:
        settings: limits.
        window: which sequence number is due, and how many messages may come.
        shapes: of the messages.
    """

    __slots__ = (
        "_body",
        "_contents",
        "_data",
        "_later",
        "_max_message",
        "_max_payload",
        "_needed",
        "_pending",
        "_position",
        "_series",
        "_shape",
        "_shapes",
        "_window",
        "allows_messages",
        "consumed",
        "jumps",
        "repeats",
        "runs",
        "shapes",
    )

    def __init__(self, settings: Settings, window: ReceivingWindow, shapes: ShapeTable) -> None:
        self.runs: list[MicroMessageRun] = []
        self.consumed = 0
        """Octets of whole frames: what differs for each frame that is under way."""
        self.allows_messages = False
        """Whether messages are in order by now."""
        self.jumps = 0
        self.repeats = 0
        self.shapes = shapes
        self._max_payload = settings.max_payload
        self._max_message = settings.max_message
        self._window = window
        self._data = b""
        self._position = 0
        self._later: tuple[bytes, int] | None = None  # what follows ``_data``, and from where
        self._pending = bytearray()  # of a frame that is not whole
        self._needed = 0  # octets of it without which nothing more can be told
        self._shape: ReadShape | None = None  # of the last message
        self._contents: list[bytes] = []  # of the present run
        self._shapes: list[MicroMessageShape] | None = None  # of its messages but the last ones, if they differ
        self._series: ReadShape | None = None  # of a message in several frames, of which some have come
        self._body = bytearray()  # of these, since a list of small parts would take eight times their size

    @property
    def unfinished(self) -> int:
        """How many octets have come of what is not whole."""
        return len(self._pending) + len(self._body)

    @property
    def under_way(self) -> int:
        """A number that differs for each frame which was begun, or is due in the middle of a message; 0 for none."""
        return self.consumed + 1 if self._pending or self._series is not None else 0

    def feed(self, data: bytes) -> None:
        """Take octets, to be read by ``next_frame``."""
        pending = self._pending
        if not pending:
            self._data = data
        else:
            missing = self._needed - len(pending)
            if len(data) < missing:
                pending += data
                return
            if self._needed > _LARGE_FRAME and missing < len(data) - _LARGE_FRAME:
                # The unfinished frame is finished alone: joined with all that follows it, that would be copied too.
                self._data = b"".join((pending, memoryview(data)[:missing]))
                self._later = data, missing
            else:
                self._data = b"".join((pending, data))
            pending.clear()
        self._position = 0

    def drop(self) -> None:
        """Forget what has come and is not read."""
        self._data, self._later, self._series = b"", None, None
        self._pending.clear()
        self._body.clear()
        self._contents.clear()

    def next_frame(self) -> WireFrame | None:
        """Return the next frame that is no message; None if it has not come. ``runs`` has the messages before it.

        Raises:
            PeerError: what follows is no frame; ``runs`` has the messages before it also then.
        """
        while True:
            try:
                frame = self._read_on()
            finally:
                self._end_run()
            if frame is not None or self._later is None:
                return frame
            self._data, self._position = self._later
            self._later = None

    def _read_on(self) -> WireFrame | None:
        """Read messages, and the frame behind them; keep what is not whole."""
        data, start = self._data, self._position
        position, frame = start, None
        try:
            while position < len(data):
                flags = data[position]
                if flags & ~(LARGE | CONTINUED):
                    found = self._read_other(data, position, flags)
                    if found is None:
                        break
                    frame, position = found
                    break
                stop = self._read_messages(data, position)
                if stop == position:
                    break
                position = stop
        finally:
            self._position = position
            self.consumed += position - start
        if frame is None:
            if position < len(data):
                self._pending += memoryview(data)[position:]
            self._data, self._position = b"", 0
        return frame

    # Other frames

    def _read_other(self, data: bytes, position: int, flags: int) -> tuple[WireFrame, int] | None:
        kind = flags & KINDS
        if flags & ~KNOWN_FLAGS or kind & (kind - 1):
            raise PeerError(400, f"flags {flags:#04x} are none; COMMAND, EXTENSION and ERROR exclude each other")
        if flags & CONTINUED:
            raise PeerError(400, f"flags {flags:#04x}: only messages come in several frames")
        at = position + (2 if kind == EXTENSION else 1)
        start = at + (4 if flags & LARGE else 1)
        if len(data) < start:
            self._needed = start - position
            return None
        length = int.from_bytes(data[at:start], "big")
        if kind == ERROR:
            length = min(length, LONGEST_REPORT)
        elif length > (longest := LONGEST_COMMAND if kind == COMMAND else self._max_payload):
            raise PeerError(413, f"a frame of {length} octets; at most {longest} are allowed")
        stop = start + length
        if len(data) < stop:
            self._needed = stop - position
            return None
        return WireFrame(kind, data[position + 1] if kind == EXTENSION else 0, data[start:stop]), stop

    # Messages

    def _read_messages(self, data: bytes, position: int) -> int:
        """Read messages from ``position`` on; return where something else begins, or what is not whole."""
        if not self.allows_messages:
            raise PeerError(401, "a message before the log-in; log in by x-sasl first")
        end, begins = len(data), data.startswith
        while position < end:
            is_plain = self._series is None
            if is_plain and (stop := self._read_known(data, position)) > position:
                position = stop
                continue
            stop = self._walk(data, position)
            if stop <= 0:
                return position if not stop else -stop
            last, flags, start, position = self._shape, data[position], position, stop
            if is_plain and last is not None and begins(last.front, position + 3) and not flags & CONTINUED:
                position = self._read_like(data, start, stop, last)
        return position

    def _read_known(self, data: bytes, position: int) -> int:
        """Read messages whose shapes are remembered, with short bodies; return where others begin."""
        end, begins, from_bytes, known = len(data), data.startswith, int.from_bytes, self.shapes.small
        number = (self._window.last + len(self._contents)) % SEQUENCES + 1
        while True:
            at = position + 3
            try:
                stop = at + 1 + data[at]
                behind = stop + 2 + (data[stop] << 8 | data[stop + 1])
                stop = behind + 1 + data[behind]
            except IndexError:
                return position
            found = known.get(data[at:behind])
            # Flags and number are three octets: no flags are set.
            if found is None or stop > end or from_bytes(data[position:at], "big") != number or number > SEQUENCES:
                return position
            if found is not self._shape:
                self._go_on_with(found)
            replaced = found.replaced
            self._contents.append(replaced + data[behind:stop] if replaced else data[position + found.skip : stop])
            number += 1
            if begins(found.front, stop + 3):
                stop = self._read_like(data, position, stop, found)
                number = (self._window.last + len(self._contents)) % SEQUENCES + 1
            position = stop

    def _read_like(self, data: bytes, start: int, position: int, last: ReadShape) -> int:
        """Read messages behind one of a shape that are of the same; return where others begin.

        Args:
            data: octets.
            start: where the one before begins.
            position: where it ends.
            last: its shape.
        """
        flags, length, look = data[start], position - start, _FIRST_LOOK
        size_end = 3 + len(last.front) + (4 if flags & LARGE else 1)
        whole = data[start + 3 : start + size_end]
        while True:
            if data.startswith(whole, position + 3):
                stop = min(len(data), position + look * length)
                found = self._read_same_length(data, position, stop, length, whole, last)
                look = look * 4 if found > stop - length else _FIRST_LOOK
                if found > position:
                    position = found
                    continue
            if flags:
                return position
            found = self._read_same_front(data, position, last)
            if found < position:
                return -found
            position = found

    def _read_same_length(
        self, data: bytes, position: int, end: int, length: int, whole: bytes, last: ReadShape
    ) -> int:
        """Read messages that differ in number and body alone; return where others begin.

        Args:
            data: octets.
            position: where the first one begins.
            end: up to where they are looked for.
            length: octets of each.
            whole: octets from the destination up to the body.
            last: their shape.
        """
        contents, begins = self._contents, data.startswith
        add, count, start = contents.append, len(contents), position
        skip = 3 + len(last.front) if last.replaced else last.skip
        due = (self._window.last + count) % SEQUENCES + 1
        # The hot loop: a comparison and a slice.
        while begins(whole, position + 3) and (stop := position + length) <= end:
            add(data[position + skip : stop])
            position = stop
        taken = len(contents) - count
        right = self._count_due(data, start, taken, length, data[start - length], due)
        if right < taken:
            del contents[count + right :]
        if last.replaced:
            contents[count:] = [last.replaced + content for content in contents[count:]]
        return start + right * length

    def _count_due(self, data: bytes, start: int, count: int, length: int, flags: int, due: int) -> int:
        """Return how many messages of one length have the same flags and the numbers that are due."""
        columns = (bytes((flags,)) * count, *columns_of(due, count))
        for offset, wanted in enumerate(columns):
            found = data[start + offset : start + count * length : length]
            if found != wanted[:count]:
                count = next(place for place in range(count) if found[place] != wanted[place])
        return count

    def _read_same_front(self, data: bytes, position: int, last: ReadShape) -> int:
        """Read messages that differ in number and body, of which the length is one octet; return where others begin.

        Less than nothing means that others do begin there; else they may be of one length by now.
        """
        begins, end, from_bytes, add = data.startswith, len(data), int.from_bytes, self._contents.append
        front, replaced = last.front, last.replaced
        behind = 3 + len(front)
        skip = behind if replaced else last.skip
        due = (self._window.last + len(self._contents)) % SEQUENCES + 1
        for number in range(due, min(due + _VARIED, SEQUENCES + 1)):
            at = position + behind
            # Flags and number are three octets: no flags are set.
            if (
                not begins(front, position + 3)
                or at >= end
                or (stop := at + 1 + data[at]) > end
                or from_bytes(data[position : position + 3], "big") != number
            ):
                return -position
            add(replaced + data[position + skip : stop] if replaced else data[position + skip : stop])
            position = stop
        return position

    def _walk(self, data: bytes, position: int) -> int:
        """Read one message; return where it ends, 0 if it is not whole or none, and less if nothing came of it."""
        flags, end = data[position], len(data)
        if flags & ~(LARGE | CONTINUED):
            return 0
        at = position + 3
        stop = at + 1 + (data[at] if at < end else 0)
        if stop + 2 > end:
            self._needed = stop + 2 - position
            return 0
        behind = stop + 2 + (data[stop] << 8 | data[stop + 1])
        start = behind + (4 if flags & LARGE else 1)
        if start > end:
            self._needed = start - position
            return 0
        length = int.from_bytes(data[behind:start], "big")
        if length > self._max_payload:
            raise PeerError(413, f"a payload of {length} octets in one frame; at most {self._max_payload} are allowed")
        stop = start + length
        if stop > end:
            self._needed = stop - position
            return 0
        sequence = data[position + 1] << 8 | data[position + 2]
        if sequence != (self._window.last + len(self._contents)) % SEQUENCES + 1 and not self._is_new(sequence):
            return -stop
        if flags & CONTINUED or self._series is not None:
            self._take_part(data[at:behind], data[start:stop], is_last=not flags & CONTINUED)
            return stop
        found = self.shapes.find(data[at:behind], is_large=bool(flags & LARGE))
        if found is not self._shape:
            self._go_on_with(found)
        replaced = found.replaced
        self._contents.append(replaced + data[behind:stop] if replaced else data[position + found.skip : stop])
        return stop

    def _is_new(self, sequence: int) -> bool:
        """Return whether a message with a number that is not due is to be taken."""
        window = self._window
        if self._series is not None:
            raise PeerError(400, f"sequence number {sequence} in the middle of another message")
        if not sequence:
            raise PeerError(400, "sequence number 0; numbers are 1 to 65535")
        self._end_run()
        if window.repeats(sequence):
            self.repeats += 1
            return False
        if window.received:
            self.jumps += 1
        window.jump_to(sequence)
        return True

    # Messages in several frames

    def _take_part(self, front: bytes, body: bytes, *, is_last: bool) -> None:
        """Take one frame of a message."""
        if self._series is None:
            self._series = self.shapes.find(front, is_large=True)
        self._body += body
        if len(self._body) > self._max_message:
            raise PeerError(413, f"a message of more than {self._max_message} octets")
        if not is_last:
            return
        found = self._series
        if found is not self._shape:
            self._go_on_with(found)
        properties = found.replaced or found.front[1 + found.front[0] :]
        self._contents.append(b"".join((properties, len(self._body).to_bytes(4, "big"), self._body)))
        self._series, self._body = None, bytearray()

    # Runs

    def _go_on_with(self, found: ReadShape) -> None:
        """Go on with another shape, in the same run or in the next one."""
        last, count, shapes = self._shape, len(self._contents), self._shapes
        if count and last is not None:
            if found.shape.destination != last.shape.destination:
                self._end_run()
            elif shapes is not None:
                shapes += [last.shape] * (count - len(shapes))
            elif count < _LONG:
                self._shapes = [last.shape] * count
            else:
                self._end_run()
        self._shape = found

    def _end_run(self) -> None:
        """End the present run.

        Raises:
            PeerError: more messages have come than may be unacknowledged.
        """
        contents, window, last = self._contents, self._window, self._shape
        if not contents or last is None:
            return
        shapes, self._shapes, self._contents = self._shapes, None, []
        if shapes is not None:
            shapes += [last.shape] * (len(contents) - len(shapes))
        room = window.room
        surplus = len(contents) - room
        if surplus > 0:
            del contents[room:]
            if shapes is not None:
                del shapes[room:]
        if contents:
            first = window.received + 1
            window.took(len(contents))
            shape = shapes[0] if shapes else last.shape
            self.runs.append(MicroMessageRun(first, shape, contents, sum(map(len, contents)), shapes))
        if surplus > 0:
            raise PeerError(409, f"more than {window.limit} messages are unacknowledged; wait for an ack")
