"""What stands at the end of SQLite's write-ahead log, and did not make it.

SQLite opens a log up to its last whole transaction and says nothing about what follows. What follows is what was being
written when the process or the machine went down: a batch that nobody was told of. We say so, since it may also be that
somebody has cut the file.
"""

import sqlite3
import struct
from pathlib import Path

__all__ = ["lost_frames", "written_frames"]

# https://www.sqlite.org/fileformat2.html section 4.1: a header of 32 octets with the page size at 8 and two salts at
# 16, then frames with a header of 24 octets, which has the same salts at 8 as long as it is of the same round.
_HEADER, _FRAME = 32, 24
_PAGE_SIZE, _SALTS = struct.Struct(">8xI4x8s"), struct.Struct(">8x8s")


def written_frames(log: Path) -> float:
    """Count the frames that were written to a log in its last round; one that is cut counts half."""
    try:
        length = log.stat().st_size
        with log.open("rb") as file:
            header = file.read(_HEADER)
            if len(header) < _HEADER:
                return 0
            size, salts = _PAGE_SIZE.unpack_from(header)
            frames, step = 0, _FRAME + size
            while (start := _HEADER + frames * step) + _FRAME <= length:
                file.seek(start)
                if _SALTS.unpack_from(file.read(_FRAME))[0] != salts:
                    return frames
                if start + step > length:
                    return frames + 0.5
                frames += 1
            return frames + 0.5 if start < length else frames
    except FileNotFoundError:
        return 0


def lost_frames(connection: sqlite3.Connection, written: float) -> bool:
    """Tell whether a log that was opened had more in it than its whole transactions; moves those to the database."""
    _, found, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return bool(written > max(found, 0))
