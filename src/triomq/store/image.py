"""Copies a database and its log into one file, however damaged the log is.

SQLite takes a log up to the first frame that is not what was written. Behind it there may be thousands of batches, and
most of what they wrote is whole. So every page is taken as the last frame that is whole has it; what was written later
and is damaged is found when its contents are read, by their checksums.
"""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from triomq.store.connecting import DATABASE, PAGE_SIZE, connect_alone
from triomq.store.wal import intact_frames, read_log

# https://www.sqlite.org/fileformat2.html section 1.3: 1 and 1 at 18 is a database without a log; what stands at 92 says
# for which number of changes the size in the header is right, and 0 is right for none, so that the file's size counts.
_NO_LOG, _NO_SIZE = (18, b"\1\1"), (92, bytes(4))


def make_image(directory: Path, target: Path) -> list[str]:
    """Write a database with all that a store and its log have; return what is wrong with the log.

    Args:
        directory: The store's.
        target: The file to create.
    """
    database, path = directory / DATABASE, directory / f"{DATABASE}-wal"
    log = read_log(path, PAGE_SIZE)
    before = _copy(database, target)
    if log is None:
        return []
    whole = _apply(target, list(intact_frames(log)), log.page_size)
    if before is not None and _identity(target) not in (None, b"", before):
        _copy(database, target)
        return [f"{path} belongs to another store and was left out"]
    lost = log.frames - whole
    return [f"{lost} of {log.frames} pages in {path} are not what was written"] if lost else []


def _copy(database: Path, target: Path) -> bytes | None:
    """Copy the database without its log; return its identity if it can be read."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    if database.exists():
        shutil.copyfile(database, target)
        _write(target, *_NO_LOG)
    return _identity(target)


def _apply(target: Path, frames: list[tuple[int, int, bytes]], page_size: int) -> int:
    """Write pages to their places, up to the end of the last transaction; return the number of frames."""
    ends = [number for number, (_, size, _) in enumerate(frames) if size]
    with target.open("r+b") as file:
        for page, _, content in frames[: ends[-1] + 1 if ends else 0]:
            file.seek((page - 1) * page_size)
            file.write(content)
    if target.stat().st_size:
        _write(target, *_NO_LOG)
        _write(target, *_NO_SIZE)
    return len(frames)


def _write(target: Path, place: int, data: bytes) -> None:
    with target.open("r+b") as file:
        file.seek(place)
        file.write(data)


def _identity(target: Path) -> bytes | None:
    with suppress(sqlite3.Error, TypeError), closing(connect_alone(target)) as connection:
        (identity,) = connection.execute("SELECT identity FROM progress").fetchone()
        return identity if isinstance(identity, bytes) else None
    return None
