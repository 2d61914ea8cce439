"""A small file that says which batch of which store was the last on disk, so that a log that is gone is missed.

SQLite opens a database whose log was removed, emptied or damaged as if there had never been one. So the number of the
last batch is written to a file of its own as well: after each sync, in place, and not synced itself. What holds of it:

- A process that is killed leaves it as it was written last: at the number of the last batch, or one commit behind.
- After a power cut it may be further behind, since nothing has synced it, or unreadable. It is never ahead of the
  store: a number is written only when the disk has said that the batch is there, and a checkpoint gives up the log only
  when the database is synced.

So a store that is behind its mark has lost something since, whatever the reason, and is not opened. A mark that is
behind proves nothing.
"""

import os
import struct
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

_FORM, _SUM = struct.Struct("<8s16sQ"), struct.Struct("<I")
_MAGIC = b"tMQmark1"


class MarkRead(msgspec.Struct, frozen=True):
    """What a mark says.

    Args:
        identity: The store's; empty if the mark cannot be read.
        number: The last batch that was on disk for sure.
    """

    identity: bytes
    number: int


def read_mark(path: Path) -> MarkRead | None:
    """Read a mark; None if there is none."""
    try:
        octets = path.read_bytes()
    except FileNotFoundError:
        return None
    form = octets[: _FORM.size]
    if len(octets) != _FORM.size + _SUM.size or octets[_FORM.size :] != _SUM.pack(crc32(form)):
        return MarkRead(b"", 0)
    magic, identity, number = _FORM.unpack(form)
    return MarkRead(identity, number) if magic == _MAGIC else MarkRead(b"", 0)


class Mark:
    """The mark of a store that is open; made by the store, which closes it.

    Args:
        path: The file, made if it is not there.
        identity: The store's, 16 octets.
    """

    def __init__(self, path: Path, identity: bytes) -> None:
        self._identity = identity
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, number: int) -> None:
        """Write that a batch is on disk; a mark that cannot be written stays behind, which proves nothing."""
        form = _FORM.pack(_MAGIC, self._identity, number)
        with suppress(OSError):
            os.pwrite(self._file, form + _SUM.pack(crc32(form)), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
