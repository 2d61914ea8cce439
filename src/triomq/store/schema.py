"""The tables of the files, their version, and the migration from each version to the next.

A *segment* is what one batch appended to one queue. Its row is small and stands apart from its body, so that after a
restart all rows are read and no bodies, and so that settling a message never rewrites a body. Rows of a queue stand
together in the order of ids; bodies stand in the order in which they were written.

A *chunk* is a segment of a stream: never settled in parts, merged with its neighbours, and deleted with the oldest. Its
body is in the table of bodies like all others.

The version is SQLite's own ``user_version``; 0 is an empty file, and creating the tables is the first migration.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from triomq.errors import StoreCorrupt, StoreTooNew

APPLICATION = 0x744D5131
"""SQLite's ``application_id`` of a store's files: tMQ1."""

_FIRST = f"""
    PRAGMA application_id = {APPLICATION};
    -- one row: the last batch
    CREATE TABLE progress (id INTEGER PRIMARY KEY CHECK (id = 1), committed INTEGER NOT NULL);
    INSERT INTO progress VALUES (1, 0);
    CREATE TABLE record (
        kind INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
    -- stored and settled count all that ever were, so that what is missing can be told from what was settled
    CREATE TABLE queue (
        queue INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL, next_id INTEGER NOT NULL DEFAULT 1,
        stored INTEGER NOT NULL DEFAULT 0, settled INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE segment (
        queue INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, unsettled INTEGER NOT NULL,
        size INTEGER NOT NULL, settled BLOB NOT NULL, body INTEGER NOT NULL, batch INTEGER NOT NULL,
        PRIMARY KEY (queue, first)
    ) WITHOUT ROWID;
    CREATE TABLE delayed (
        queue INTEGER NOT NULL, number INTEGER NOT NULL, due REAL NOT NULL, count INTEGER NOT NULL,
        size INTEGER NOT NULL, body INTEGER NOT NULL, PRIMARY KEY (queue, number)
    ) WITHOUT ROWID;
    CREATE TABLE body (body INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, octets BLOB NOT NULL);
    CREATE TABLE delivered (
        queue INTEGER NOT NULL, level INTEGER NOT NULL, up_to INTEGER NOT NULL, PRIMARY KEY (queue, level)
    ) WITHOUT ROWID;
    CREATE TABLE attempts (
        queue INTEGER NOT NULL, id INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (queue, id)
    ) WITHOUT ROWID;
"""

_IDENTITY = """
    -- tells a store from every other, so that a mark or a log of another one is not taken for its own
    ALTER TABLE progress ADD COLUMN identity BLOB NOT NULL DEFAULT x'';
    UPDATE progress SET identity = randomblob(16);
    -- whose a body is, should the row that says so be damaged; 0 in what version 1 wrote, of_first for delayed ones
    ALTER TABLE body ADD COLUMN of_queue INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE body ADD COLUMN of_first INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE body ADD COLUMN of_count INTEGER NOT NULL DEFAULT 0;
"""

_HEADS = """
    -- a run in a body may have the heads of its messages, which an older program would set aside as damaged
"""

_CHUNKS = """
    -- records of streams; a stream is a queue, and its bodies are chunks
    CREATE TABLE chunk (
        queue INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, size INTEGER NOT NULL,
        time INTEGER NOT NULL, body INTEGER NOT NULL, PRIMARY KEY (queue, first)
    ) WITHOUT ROWID;
"""

_LEDGERS = """
    -- a queue may be a ledger, which has a third name, and a writer a queue's: an older program takes them for damage
"""

MIGRATIONS: Mapping[int, str] = {0: _FIRST, 1: _IDENTITY, 2: _HEADS, 3: _CHUNKS, 4: _LEDGERS}
"""For each version the statements that lead to the next one."""

VERSION = max(MIGRATIONS) + 1
"""The version that this program reads and writes."""


def migrate(connection: sqlite3.Connection, migrations: Mapping[int, str] = MIGRATIONS) -> int:
    """Bring a file to the newest version, each step in a transaction of its own; return the version that it had."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    for version in range(found, max(migrations) + 1):
        step = f"{migrations[version]}; PRAGMA user_version = {version + 1}"
        connection.executescript(f"BEGIN IMMEDIATE; {step}; COMMIT;")
    return int(found)


def add_missing_tables(connection: sqlite3.Connection) -> None:
    """Make empty tables, for this connection alone, where an older version has none: what reads is then one for all."""
    if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'chunk'").fetchone() is None:
        connection.execute("CREATE TEMP TABLE chunk (queue, first, count, size, time, body)")


def require_known(connection: sqlite3.Connection, path: Path, newest: int = VERSION) -> None:
    """Check that a database is a store of a known version.

    Raises:
        StoreTooNew: It has a version that this program does not know.
        StoreCorrupt: It is a database of another program.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if (version or tables) and application != APPLICATION:
        raise StoreCorrupt(
            f"{path} is a database, but not a store of triomq. Give the broker a data directory of its own"
        )
    if version > newest:
        raise StoreTooNew(
            f"{path} has format {version}, and this version of triomq knows formats up to {newest}. Install the "
            "version that wrote it or a later one, or start on a backup that was made before the update"
        )
