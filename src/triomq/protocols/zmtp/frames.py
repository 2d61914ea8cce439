"""Frames: flags, a length of one octet or eight, a body (RFC 37, "Framing").

    01 00              a frame of no octets; more of the same message follow
    02 0000…0001 0000  a long one, of 65,536 octets; the message ends with it
    04 05 …            a command

Rules:

- A length is judged before anything behind it is stored: against the largest frame, and with what the message has
  already against the largest message. Each frame counts for more than it has, so that a message of empty ones ends.
- A long frame may be short in content. Other flags than these three are a fault, and MORE is none of a command's.
- A command may stand between two frames of a message: libzmq puts its PINGs there.
- A message has so many frames as anybody wants; further ones are read and dropped.
- What comes in drops is gathered in blocks: kept in a list, 3.8 MB in segments of two octets took 102 MiB.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from triomq.protocols.zmtp.codes import PeerError

MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4

_ALL: Final = MORE | LONG | COMMAND

_SHORT_HEAD: Final = 2
_LONG_HEAD: Final = 9

_SHORTEST_LONG: Final = 256

_OLD_LONG: Final = 255
"""What stands before a long length in ZMTP 1.0."""

_SMALL: Final = 4096
"""What is shorter is gathered: to store it by itself would take more than its own size."""

_BLOCK: Final = 64 * 1024
"""So much is gathered in a block."""

_LARGE: Final = 16 * 1024
"""Octets from which a frame is a piece of its own when it is sent: a copy would cost more than a further buffer."""

_LAST_HEADS: Final = tuple(bytes((0, size)) for size in range(_SHORTEST_LONG))
_MORE_HEADS: Final = tuple(bytes((MORE, size)) for size in range(_SHORTEST_LONG))

WEIGHT: Final = 256
"""Octets that a frame counts for beside those that it has: 65,536 empty ones are as large as a message may be."""

Frames = list[bytes]
"""One message."""


class FrameReader:
    """Cuts a stream into messages and commands; owned by one engine.

    Args:
        largest_command: Octets of the largest command.
        largest_frame: Octets of the largest frame of a message; negative where no messages may come.
        largest_message: Octets of the largest message, with the weight of each frame.
        most_parts: Frames that are kept of a message.
    """

    __slots__ = (
        "_data",
        "_gathered",
        "_later",
        "_later_size",
        "_most_parts",
        "_needed",
        "_parts",
        "_position",
        "is_old",
        "largest_command",
        "largest_frame",
        "largest_message",
        "messages",
        "room",
    )

    def __init__(self, largest_command: int, largest_frame: int, largest_message: int, most_parts: int) -> None:
        self.largest_command = largest_command
        self.largest_frame = largest_frame
        self.largest_message = largest_message
        self.messages = 0
        """How many messages were read."""
        self.is_old = False
        """Whether frames are those of ZMTP 1.0."""
        self.room = 0
        """How many frames and commands may be read, before others are to have their turn."""
        self._most_parts = most_parts
        self._data: bytes = b""
        self._position = 0
        self._later: list[bytes | bytearray] = []  # what has come behind ``_data``
        self._later_size = 0
        self._needed = 1  # octets from ``_position`` on without which nothing can be told
        self._parts: Frames = []  # frames of the message that has begun
        self._gathered = 0  # octets of these and of those that were dropped, with their weight

    @property
    def unread(self) -> int:
        """How many octets have come that no frame was made of yet."""
        return len(self._data) - self._position + self._later_size

    @property
    def unfinished(self) -> int:
        """How many octets are here of a message that is not whole, and of what was not read."""
        return self.unread + (sum(map(len, self._parts)) if self._parts else 0)

    @property
    def has_begun(self) -> bool:
        """Whether frames of a message are here that is not whole."""
        return bool(self._parts)

    @property
    def is_between(self) -> bool:
        """Whether nothing has begun that is not whole."""
        return not self._parts and not self.unread

    def feed(self, data: bytes) -> None:
        """Take octets."""
        later = self._later
        if not later and self._position == len(self._data):
            self._data, self._position = data, 0
            return
        self._later_size += len(data)
        if len(data) >= _SMALL:
            later.append(data)
        elif later and isinstance(later[-1], bytearray) and len(later[-1]) < _BLOCK:
            later[-1] += data
        else:
            later.append(bytearray(data))

    def _gather(self) -> bool:
        """Have what is needed in one piece; return whether it has come."""
        here = len(self._data) - self._position
        if here >= self._needed:
            return True
        if here + self._later_size >= self._needed:
            self._data = b"".join((memoryview(self._data)[self._position :], *self._later))
            self._later, self._later_size = [], 0
            self._position = 0
            return True
        if self._position:
            self._data = self._data[self._position :]  # or it would pin messages that were read
            self._position = 0
        return False

    def peek(self) -> int | None:
        """Return the next octet, and leave it there; None if none has come."""
        self._needed = 1
        return self._data[self._position] if self._gather() else None

    def take(self, size: int) -> bytes | None:
        """Return so many octets as they are, for what stands before the first frame; None if they have not come."""
        self._needed = size
        if not self._gather():
            return None
        start, self._position = self._position, self._position + size
        self._needed = 1
        return self._data[start : self._position]

    def read(self, found: list[Frames]) -> bytes | None:
        """Read messages, until there is a command, until ``room`` is used up, or until nothing whole is left.

        Args:
            found: They are added to it.

        Returns:
            The command, if one has come behind them.

        Raises:
            PeerError: A frame has wrong flags, or it or its message is too large; ``found`` stands.
        """
        while self.room and self._gather():
            if self.is_old:
                self._read_old(found)
                continue
            command = self._read(found)
            if command is not None:
                return command
        return None

    def _read(self, found: list[Frames]) -> bytes | None:
        """Read what is in one piece; ``_needed`` tells what is not."""
        data, position, end = self._data, self._position, len(self._data)
        parts, gathered, most_parts, largest = self._parts, self._gathered, self._most_parts, self.largest_message
        before, room = len(found), self.room
        needed = 1
        command: bytes | None = None
        while room:
            room -= 1
            here = end - position
            if here < _SHORT_HEAD:
                needed = here + 1
                break
            flags = data[position]
            if flags <= MORE:
                size = data[position + 1]
                start = position + _SHORT_HEAD
            else:
                if flags & LONG:
                    if here < _LONG_HEAD:
                        self._judge_flags(flags)
                        needed = _LONG_HEAD
                        break
                    size = int.from_bytes(data[position + 1 : position + _LONG_HEAD], "big")
                    start = position + _LONG_HEAD
                else:
                    size = data[position + 1]
                    start = position + _SHORT_HEAD
                self._judge(flags, size)
                if flags & COMMAND:
                    if start + size > end:
                        needed = start + size - position
                        break
                    position = start + size
                    command = data[start:position]
                    break
            total = gathered + size
            if total > largest:
                raise self._too_large(total)
            stop = start + size
            if stop > end:
                needed = stop - position
                break
            body = data[start:stop]
            position = stop
            if flags & MORE:
                gathered = total + WEIGHT
                if len(parts) < most_parts:
                    parts.append(body)
            elif parts:
                if len(parts) < most_parts:
                    parts.append(body)
                found.append(parts)
                parts, gathered = [], 0
            else:
                found.append([body])
        self._position, self._needed, self.room = position, needed, room
        self._parts, self._gathered = parts, gathered
        self.messages += len(found) - before
        return command

    def _read_old(self, found: list[Frames]) -> None:
        """Do the same with frames of ZMTP 1.0, where the length counts the flags that follow it (RFC 13)."""
        data, position, end = self._data, self._position, len(self._data)
        before = len(found)
        self._needed = 1
        while self.room and position < end:
            self.room -= 1
            size, head = data[position], 1
            if size == _OLD_LONG:
                head = _LONG_HEAD
                if end - position < head:
                    self._needed = head
                    break
                size = int.from_bytes(data[position + 1 : position + head], "big")
            if not size:
                raise PeerError("MALFORMED", "a frame of ZMTP 1.0 has no flags")
            self._judge(0, size - 1)
            total = self._gathered + size - 1
            if total > self.largest_message:
                raise self._too_large(total)
            start, stop = position + head, position + head + size
            if stop > end:
                self._needed = stop - position
                break
            position = stop
            if len(self._parts) < self._most_parts:
                self._parts.append(data[start + 1 : stop])
            self._gathered = total + WEIGHT
            if not data[start] & MORE:
                found.append(self._parts)
                self._parts, self._gathered = [], 0
        self._position = position
        self.messages += len(found) - before

    @staticmethod
    def _judge_flags(flags: int) -> None:
        if flags & ~_ALL or flags & (MORE | COMMAND) == MORE | COMMAND:
            raise PeerError("MALFORMED", f"a frame has the flags {flags:#04x}")

    def _judge(self, flags: int, size: int) -> None:
        """Judge a frame by its head."""
        self._judge_flags(flags)
        if flags & COMMAND:
            if size > self.largest_command:
                raise PeerError("TOO_LARGE", f"a command has {size} octets; at most {self.largest_command} are allowed")
        elif size > self.largest_frame >= 0:
            raise PeerError("TOO_LARGE", f"a frame has {size} octets; at most {self.largest_frame} are allowed")

    def _too_large(self, size: int) -> PeerError:
        if self.largest_message < 0:
            return PeerError("MALFORMED", "a message has come before the handshake was over")
        return PeerError(
            "TOO_LARGE", f"a message has {size} octets or more; at most {self.largest_message} are allowed"
        )

    def drop(self) -> None:
        """Forget what has come."""
        self._data, self._later, self._parts = b"", [], []
        self._position = self._later_size = self._gathered = 0


def encode(messages: Iterable[Sequence[bytes]]) -> list[bytes]:
    """Write messages as frames; large ones stand in the list as they are."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    for frames in messages:
        last = len(frames) - 1
        for number, frame in enumerate(frames):
            size = len(frame)
            if size < _SHORTEST_LONG:
                small.append((_LAST_HEADS if number == last else _MORE_HEADS)[size])
            else:
                small.append(bytes((LONG | (number < last),)) + size.to_bytes(8, "big"))
                if size >= _LARGE:
                    pieces += (b"".join(small), frame)
                    small = []
                    continue
            small.append(frame)
    if small:
        pieces.append(b"".join(small))
    return pieces


def encode_old(messages: Iterable[Sequence[bytes]]) -> list[bytes]:
    """Write messages as frames of ZMTP 1.0."""
    pieces: list[bytes] = []
    for frames in messages:
        for number, frame in enumerate(frames, 1):
            size = len(frame) + 1
            head = bytes((size,)) if size < _OLD_LONG else bytes((_OLD_LONG,)) + size.to_bytes(8, "big")
            pieces += (head, bytes((number < len(frames),)), frame)
    return [b"".join(pieces)]


def encode_command(name: bytes, data: bytes = b"") -> bytes:
    """Write a command."""
    size = 1 + len(name) + len(data)
    if size < _SHORTEST_LONG:
        head = bytes((COMMAND, size, len(name)))
    else:
        head = bytes((COMMAND | LONG,)) + size.to_bytes(8, "big") + bytes((len(name),))
    return head + name + data
