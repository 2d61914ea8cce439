"""Directories that appear whole: they are made beside their place, under a name that nothing else can have.

A fixed name such as ``TARGET.part`` may be somebody's own directory. So the name is a new one each time, and nothing is
removed but what this very call has made. One that is killed leaves its directory, which is of no use and may be
deleted.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED = ".triomq-unfinished-"
"""How the names begin; 8 letters follow."""


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Give a directory, for its owner alone, that takes its place at the end of the block, or goes with an error in it.

    Args:
        target: Its place; nothing may be there, and its parent must exist.

    Raises:
        OSError: It cannot be made or put in its place; ``FileExistsError`` if something is there.
        ValueError: The place is no path.
    """
    _require_nothing_at(target)
    part = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=target.parent))
    try:
        yield part
        _require_nothing_at(target)  # it may have come meanwhile, and an empty directory would give way
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _require_nothing_at(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise FileExistsError(f"{target} is there already; name a directory that is not, so that nothing is lost")
