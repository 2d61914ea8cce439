"""The note that a store was lost, where the next broker would otherwise begin with an empty one.

A broker whose directory went away ends, sooner or later, and a service manager starts it again: on a directory that a
cleaner has made anew, on the place where a volume is to be mounted, or on none. An empty store would then answer that
there are no queues, and confirm what nobody looks for there. So a broker that loses its store leaves a note where a new
one would be made, and none is made beside a note:

    the directory is there without a store   DIR/store.lost
    the directory is gone                    DIR.lost, beside its place

With a store in the directory the note says nothing any more, and is removed.
"""

import logging
from contextlib import suppress
from pathlib import Path

from triomq.errors import StoreLost
from triomq.store.connecting import DATABASE
from triomq.store.presence import KnownStore

_log = logging.getLogger("triomq.store")

_FIRST_LINE = "triomq lost its store"


def _places(directory: Path) -> list[Path]:
    whole = directory.absolute()
    return [whole / "store.lost", *([whole.with_name(f"{whole.name}.lost")] if whole.name else [])]


def _notes(directory: Path) -> list[Path]:
    """Return the notes that are there; a file of another program under such a name is none."""
    found = []
    for path in _places(directory):
        with suppress(OSError):
            if path.is_file() and path.read_text("utf-8", "replace").startswith(_FIRST_LINE):
                found.append(path)
    return found


def leave_note(directory: Path, known: KnownStore, reason: str) -> None:
    """Leave a note if a new store could be made in the place of one that is lost; what stands there is left alone."""
    within, *beside = _places(directory)
    try:
        if (directory / DATABASE).exists():
            return
        place = within if directory.is_dir() else next(iter(beside), within)
        with place.open("x", encoding="utf-8") as file:
            file.write(
                f"{_FIRST_LINE} {known.identity.hex()} up to batch {known.committed}: {reason.partition('. ')[0]}\n"
            )
    except OSError:
        return  # where nothing can be written no store can be made
    _log.info("a note keeps later brokers from beginning with an empty store", extra={"fields": {"note": str(place)}})


def remove_notes(directory: Path) -> list[str]:
    """Remove the notes, since there is a store; return warnings about them."""
    removed = []
    for path in _notes(directory):
        with suppress(OSError):
            path.unlink()
            removed.append(f"{path} said that the store was lost; there is one now, so the note is removed")
    return removed


def require_no_note(directory: Path) -> None:
    """Check that no store was lost here, before a new one is made.

    Raises:
        StoreLost: One was.
    """
    if (directory / DATABASE).exists():
        return
    for path in _notes(directory):
        with suppress(OSError):
            said = path.read_text("utf-8", "replace").partition(": ")[2].strip()
            raise StoreLost(
                f"the store in {directory} was lost while a broker ran, and is not there: {said}. Put it back, or "
                f"a backup; or, to begin with an empty store, delete {path}"
            )
