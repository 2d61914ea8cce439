"""SQLite's write-ahead log, parsed: which frames it has, and how many of them SQLite accepts.

SQLite opens a log up to its last whole transaction and says nothing about what follows. What follows may be a batch
that was being written when the machine went down. It may also be damage: each commit is synced before the next one
begins, so a power cut leaves at most one commit behind a frame that is not whole. If there are two or more, the first
was on disk whole once, and may have been confirmed to a client.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from triomq.store.faults import unreadable

# https://www.sqlite.org/fileformat2.html section 4.1: a header of 32 bytes (magic, version, page size, number of the
# checkpoint, two salts, two checksums), then frames with a header of 24 (page, size of the database in pages if this
# frame ends a transaction, the salts, two checksums) and a page.
_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">II8sII")
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}  # and the byte order of the words that the checksums count
_SALTS = slice(16, 24)

# https://www.sqlite.org/walformat.html section 2.1: the index begins with a header whose field at 16 is the number of
# the last frame of the last whole transaction, in the machine's own order.
_LAST_FRAME = struct.Struct("=16xI")

_WORD = 0xFFFFFFFF


class WriteAheadLog(msgspec.Struct, frozen=True):
    """The frames of a log's last round; those of earlier rounds, which have other salts, do not count.

    Args:
        path: The file.
        page_size: Bytes of a page.
        salts: What all frames of the round have.
        order: The byte order of a word, ``<`` or ``>``; empty if the header is damaged.
        frames: The number of the last frame that is there in full, counted from 1; 0 if there is none.
        commits: The numbers of those that end a transaction, in order.
        is_cut: Whether the file ends within a frame of the round.
    """

    path: Path
    page_size: int
    salts: bytes
    order: str
    frames: int
    commits: list[int]
    is_cut: bool


def read_log(path: Path, page_size: int) -> WriteAheadLog | None:
    """Read the headers of all frames of a log; None if there is no file, or no frame in it.

    Args:
        path: The file.
        page_size: Bytes of a page of the database, for a log whose header is damaged.

    Raises:
        StoreUnwritable: It cannot be read, or is no file.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    try:
        return _read_log(path, file, os.fstat(file).st_size, page_size)
    except OSError as error:
        raise unreadable(path, error) from error
    finally:
        os.close(file)


def _read_log(path: Path, file: int, length: int, page_size: int) -> WriteAheadLog | None:
    header = os.pread(file, _HEADER.size, 0)
    if length < _HEADER.size + _FRAME.size:
        return None
    order = _order_of(header)
    if order:
        page_size, salts = _HEADER.unpack(header)[2], header[_SALTS]
    else:
        salts = os.pread(file, _FRAME.size, _HEADER.size)[8:16]
    last, commits, cut = 0, [], False
    for number in range(1, (length - _HEADER.size) // (_FRAME.size + page_size) + 2):
        start = _HEADER.size + (number - 1) * (_FRAME.size + page_size)
        frame = os.pread(file, _FRAME.size, start)
        if frame[8:16] != salts:
            continue  # of an earlier round, damaged, or the end
        if start + _FRAME.size + page_size > length:
            cut = True
            break
        last = number
        if frame[4:8] != bytes(4):
            commits.append(number)
    return WriteAheadLog(path, page_size, salts, order, last, commits, cut)


def _order_of(header: bytes) -> str:
    """Return the byte order that a header names; empty if the header is damaged."""
    magic, _, _, _, _, _, *expected = _HEADER.unpack(header)
    order = _MAGIC.get(magic, "")
    return order if order and _checksum(header[:24], order, (0, 0)) == tuple(expected) else ""


def _checksum(data: bytes, order: str, before: tuple[int, int]) -> tuple[int, int]:
    """Continue the checksum of a log over data, whose length is a multiple of eight."""
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    one, two = before
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & _WORD
        two = (two + odd + one) & _WORD
    return one, two


def accepted_frames(index: Path) -> int:
    """Return how many frames of a log SQLite accepts: all up to the end of the last whole transaction.

    Args:
        index: The file of the log's index, ``…-shm``, which is true while a connection reads. No connection of this
            process may be a writer: closing the file releases the locks that the process has on it.
    """
    try:
        header = index.read_bytes()[: _LAST_FRAME.size]
    except FileNotFoundError:
        return 0
    return int(_LAST_FRAME.unpack(header)[0]) if len(header) == _LAST_FRAME.size else 0


def intact_frames(log: WriteAheadLog) -> Iterator[tuple[int, int, bytes]]:
    """Yield the frames that are as they were written, also those behind damaged ones.

    A checksum goes on from the one of the frame before, so a frame can be held against its neighbour alone. The one
    behind a frame whose checksum is damaged counts as damaged too.

    Yields:
        The number of the page, the size of the database in pages if the frame ends a transaction, and the page.
    """
    with log.path.open("rb") as file:
        header = file.read(_HEADER.size)
        before: tuple[int, int] = _HEADER.unpack(header)[6:]
        for _ in range(log.frames):
            data = file.read(_FRAME.size + log.page_size)
            page, size, salts, *sums = _FRAME.unpack_from(data)
            content = data[_FRAME.size :]
            found = _checksum(data[:8] + content, log.order or "<", before)
            before = (sums[0], sums[1])
            if salts == log.salts and found == before:
                yield page, size, content
