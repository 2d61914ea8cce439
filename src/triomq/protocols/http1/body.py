"""Bodies: how many bytes belong to one, and where it ends.

Each reader is asked with what has come, and says what of it is body, what is left, and whether the body has ended. It
is asked again with what is left and more. A fault raises PeerError when nothing of the body stands before it, so that
the pieces in which bytes come decide neither what is read nor what is refused.
"""

import re
from typing import Final, NamedTuple, Protocol

from triomq.protocols.http1.codes import PeerError
from triomq.protocols.http1.head import HEAD_END, check_trailer

_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{0,9}")
_MOST_DIGITS: Final = 8
"""Digits of a chunk's size: 4 GiB, more than anyone sends in one."""


class BodyPart(NamedTuple):
    """What a reader found: a piece of the body, the bytes behind it, and whether the body has ended."""

    piece: bytes
    rest: bytes
    ended: bool


class BodyReader(Protocol):
    """Reads one body; made with its head, ends with it."""

    def read(self, data: bytes) -> BodyPart:
        """Return what the next bytes are; raises PeerError if they are out of order."""
        ...


class LengthReader:
    """A body of so many bytes."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self._left = length

    def read(self, data: bytes) -> BodyPart:
        """Take what is missing."""
        left = self._left
        if len(data) < left:
            self._left -= len(data)
            return BodyPart(data, b"", False)
        self._left = 0
        if len(data) == left:
            return BodyPart(data, b"", True)
        return BodyPart(data[:left], data[left:], True)


class EndReader:
    """A body that ends with the stream; what reads the stream says when that is."""

    __slots__ = ()

    def read(self, data: bytes) -> BodyPart:
        """Take all."""
        return BodyPart(data, b"", False)


class ChunkReader:
    """A body in chunks (RFC 9112 section 7.1): their extensions are refused, since nobody uses them and proxies differ.

    Args:
        max_trailer: Bytes that may stand behind the last chunk; they are dropped.
    """

    __slots__ = ("_left", "_max_trailer", "_place")

    def __init__(self, max_trailer: int) -> None:
        self._left = 0  # bytes of the chunk that are missing
        self._place = "size"  # or "data", "end" of a chunk, "trailer"
        self._max_trailer = max_trailer

    def read(self, data: bytes) -> BodyPart:
        """Join what chunks there are."""
        pieces: list[bytes] = []
        at = 0
        ended = False
        try:
            while not ended:
                before = at, self._place
                match self._place:
                    case "size":
                        at = self._read_size(data, at)
                    case "data":
                        piece = data[at : at + self._left]
                        pieces.append(piece)
                        at += len(piece)
                        self._left -= len(piece)
                        self._place = "data" if self._left else "end"
                    case "end":
                        at = self._read_end(data, at)
                    case _:
                        at, ended = self._read_trailer(data, at)
                if (at, self._place) == before:
                    break
        except PeerError:
            if not pieces:
                raise
        return BodyPart(b"".join(pieces), data[at:], ended)

    def _read_size(self, data: bytes, at: int) -> int:
        """Read the line before a chunk, if it is whole."""
        match = _SIZE.match(data, at)
        assert match is not None  # it matches nothing too
        end = match.end()
        if end - at > _MOST_DIGITS:
            raise PeerError(413, f"a chunk's size has more than {_MOST_DIGITS} digits")
        behind = data[end : end + 2]
        if behind[:1] == b";":
            raise PeerError(400, "a chunk has an extension; none is read here")
        if behind and (end == at or not b"\r\n".startswith(behind)):
            raise PeerError(400, "a chunk does not begin with its size and CR LF")
        if len(behind) < 2:
            return at
        self._left = int(match[0], 16)
        self._place = "data" if self._left else "trailer"
        return end + 2

    def _read_end(self, data: bytes, at: int) -> int:
        """Read the line's end behind a chunk, if it is whole."""
        behind = data[at : at + 2]
        if not b"\r\n".startswith(behind):
            raise PeerError(400, "a chunk is longer than its size says")
        if len(behind) < 2:
            return at
        self._place = "size"
        return at + 2

    def _read_trailer(self, data: bytes, at: int) -> tuple[int, bool]:
        """Read what is behind the last chunk, if it is whole; return where that ends, and whether it was."""
        if data.startswith(b"\r\n", at):
            return at + 2, True
        end = data.find(HEAD_END, at)
        if (len(data) if end < 0 else end + len(HEAD_END)) - at > self._max_trailer:
            raise PeerError(431, f"more than {self._max_trailer} bytes stand behind the last chunk")
        if end < 0:
            return at, False
        check_trailer(data[at : end + len(HEAD_END)].decode("latin-1"))
        return end + len(HEAD_END), True
