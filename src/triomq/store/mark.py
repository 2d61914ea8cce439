"""The mark: a small file with the number of the last batch on disk, by which a lost log is found out.

SQLite opens a database whose log was removed, emptied or damaged as if there had never been one. So the number of the
last batch is written to a file of its own as well: after each sync, in place, and not synced itself.

    sync of batch 7 ── mark 7 ── sync of batch 8 ──(killed)        mark 7, store 8: nothing is proved
    sync of batch 8 ── mark 8 ── log removed ── SQLite opens 5     mark 8, store 5: three batches are missing

The rules:

- A process that is killed leaves the mark as it was written last: at the last batch, or one commit behind.
- After a power cut it may be further behind, since it was never synced, or unreadable. It is never ahead of the store:
  a number is written only after the batch was synced, and a checkpoint drops the log only after it has synced the
  database.

So a store that is behind its mark has lost something since, whatever the reason, and is not opened. A mark that is
behind its store proves nothing.
"""

import errno
import os
import struct
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from triomq.store.faults import unreadable

_FORM, _SUM = struct.Struct("<8s16sQ"), struct.Struct("<I")
_MAGIC = b"tMQmark1"


class MarkRead(msgspec.Struct, frozen=True):
    """The contents of a mark.

    Args:
        identity: The store's; empty if the mark cannot be read.
        number: A batch that was on disk for certain.
    """

    identity: bytes
    number: int


def read_mark(path: Path) -> MarkRead | None:
    """Return the contents of a mark; None if there is none.

    Raises:
        StoreUnwritable: It may not be read, or is no file.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.EIO:
            raise unreadable(path, error) from error
        data = b""  # a bad sector is damage like any other
    form = data[: _FORM.size]
    if len(data) != _FORM.size + _SUM.size or data[_FORM.size :] != _SUM.pack(crc32(form)):
        return MarkRead(b"", 0)
    magic, identity, number = _FORM.unpack(form)
    return MarkRead(identity, number) if magic == _MAGIC else MarkRead(b"", 0)


class Mark:
    """The mark of an open store; created by the store, which closes it.

    Args:
        path: The file, created if it is not there.
        identity: The store's, 16 bytes.
    """

    def __init__(self, path: Path, identity: bytes) -> None:
        self._identity = identity
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._file).st_size > _FORM.size + _SUM.size:  # else what is behind it would stay for ever
            os.ftruncate(self._file, _FORM.size + _SUM.size)

    def write(self, number: int) -> None:
        """Write the number of a batch that is on disk. A mark that cannot be written stays behind, which is safe."""
        form = _FORM.pack(_MAGIC, self._identity, number)
        with suppress(OSError):
            os.pwrite(self._file, form + _SUM.pack(crc32(form)), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
