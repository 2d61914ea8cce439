"""Persistence what is in a data directory to its owner: modes of the directory and of the files in it.

A directory with nothing but a store in it that belongs to the user of the process is ours, and narrowed. Any other may
be somebody's home, or ``/tmp``: its mode is not ours to change, so it is said, or the store is not opened there.
"""

import os
import stat
from pathlib import Path

from triomq.errors import StoreUnwritable

_OWN = ("store.", "spill.", "lock", "salvage.txt", "lost+found")
"""How the names of our files begin, and of what a file system of its own has."""

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_READABLE = stat.S_IRWXG | stat.S_IRWXO


def require_private(directory: Path) -> list[str]:
    """Narrow a directory that is ours; give what whoever runs the broker should know of one that is not.

    Raises:
        StoreUnwritable: Others can write there, and so change what is in the store.
    """
    found = directory.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not mode & _READABLE:
        return []
    if found.st_uid == os.geteuid() and all(name.startswith(_OWN) for name in os.listdir(directory)):
        directory.chmod(0o700)
        return []
    if mode & _WRITABLE:
        raise StoreUnwritable(
            f"{directory} has mode {mode:04o}, so other users can change what is in it, and it has files that are not "
            "the store's or belongs to another user, so it is left as it is. Give the broker a directory of its own, "
            "or take the right to write from others: chmod go-w"
        )
    return [
        f"{directory} has mode {mode:04o}, so other users can see what is in it; the store's own files are for its "
        "owner alone. Give the broker a directory of its own, or chmod it to 0700"
    ]


def make_private(path: Path) -> None:
    """Make a database's file for its owner alone, or narrow one that is there; SQLite gives its log the same mode.

    Called before the file is opened: closing it again would give up locks that this process has on it.
    """
    for beside in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        if beside.exists() and stat.S_IMODE(beside.stat().st_mode) & _READABLE:
            beside.chmod(0o600)
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
