import sqlite3
from pathlib import Path

import pytest

from triomq.errors import DiskFull, StoreCorrupt, StoreError, StoreLocked, StoreUnwritable
from triomq.store.faults import fault_of, faults_named


def sqlite_error(name: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("what happened")
    error.sqlite_errorcode, error.sqlite_errorname = getattr(sqlite3, name), name
    return error


@pytest.mark.parametrize(
    ("name", "kind", "advice"),
    [
        ("SQLITE_FULL", DiskFull, "Free space"),
        ("SQLITE_IOERR_FSYNC", StoreUnwritable, "the disk is well"),
        ("SQLITE_READONLY_DIRECTORY", StoreUnwritable, "the user whom the broker runs as"),
        ("SQLITE_CORRUPT", StoreCorrupt, "let it start on a backup, or `triomq store salvage`"),
        ("SQLITE_NOTADB", StoreCorrupt, "let it start on a backup, or `triomq store salvage`"),
        ("SQLITE_BUSY", StoreLocked, "stop the other"),
        ("SQLITE_MISUSE", StoreError, "what happened"),
    ],
)
def test_each_fault_names_the_file_and_the_way_out(name: str, kind: type[StoreError], advice: str) -> None:
    fault = fault_of(Path("/data/store.db"), sqlite_error(name))
    assert type(fault) is kind
    assert str(fault).startswith("/data/store.db")
    assert name in str(fault)
    assert advice in str(fault)


def test_errors_of_the_module_itself_are_faults_too() -> None:
    with pytest.raises(StoreError, match=r"store\.db: closed") as caught, faults_named(Path("store.db")):
        raise sqlite3.ProgrammingError("closed")
    assert isinstance(caught.value.__cause__, sqlite3.ProgrammingError)
