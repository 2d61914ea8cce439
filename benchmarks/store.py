"""Which form a store should have on disk, and where its work should be done.

``python benchmarks/store.py [--smoke] [FOLDER]``; FOLDER is where the files go, on the disk that is to be measured.

Three forms: *rows* (SQLite, a row for each message), *segments* (SQLite, one for each batch and queue, and a bitmap of
what is settled), *file* (octets appended to a file, settlements too; nothing is ever given back). Two hosts: a thread
of the program, and a process of its own at the other end of a socket pair. The program's loop is idle, or it is busy in
the worst way: it never sleeps and makes system calls of some microseconds, so that whoever gives up the interpreter's
lock hardly gets it back. Loop and host each keep to a core of their own: on one core the system's scheduler would help
the thread, by stopping the loop.

The last tables are of the store as it is: what its messages cost, by the size at which a segment is followed by
another, and what a record costs.
"""

import os
import queue
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import msgspec

from triomq.store import (
    BodyRun,
    MessagesAppended,
    MessagesSettled,
    OperationBatch,
    QueueDeclared,
    RecordKind,
    RecordPut,
    RecordRangeRemoved,
    SqliteReader,
    SqliteStore,
    encode_body,
)

SMOKE = "--smoke" in sys.argv
SECONDS = 0.05 if SMOKE else 2.0
"""How long each cell of the first table is measured; with a busy loop a single batch may take longer than that."""
FEW, MANY = 20, 512
"""Messages in a batch: what a turn of a quiet broker makes, and one of a busy one."""
CORES = sorted(os.sched_getaffinity(0))
BACKLOG = 2_000 if SMOKE else 200_000
SIZE = 100
LARGE = 1024
RECORDS = [100, 1_000, 16_000, 65_000, 1_000_000]
CUTS = [1 << 16, 1 << 18, 1 << 20]
SETUP = "PRAGMA page_size=16384; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=1000;"

_encode = msgspec.msgpack.encode
_length = struct.Struct("<I")


class Form(Protocol):
    """One form on disk; every call is one transaction, and done when it is on disk."""

    def write(self, first: int, contents: list[bytes]) -> None:
        """Keep messages with ids in a row."""

    def settle(self, first: int, count: int) -> None:
        """Forget messages."""

    def recover(self) -> int:
        """Find what is there, as at start, and count the messages."""


class Rows:
    """A row for each message."""

    def __init__(self, path: str) -> None:
        """Open or make the file."""
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(SETUP)
        self._db.execute("CREATE TABLE IF NOT EXISTS message (queue, id, body, PRIMARY KEY (queue, id)) WITHOUT ROWID")

    def write(self, first: int, contents: list[bytes]) -> None:
        """Insert a row for each."""
        self._db.execute("BEGIN")
        rows = [(1, first + position, content) for position, content in enumerate(contents)]
        self._db.executemany("INSERT INTO message VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def settle(self, first: int, count: int) -> None:
        """Delete the rows."""
        self._db.execute("DELETE FROM message WHERE queue = 1 AND id BETWEEN ? AND ?", (first, first + count - 1))

    def recover(self) -> int:
        """Read the ids."""
        return len(self._db.execute("SELECT id, length(body) FROM message ORDER BY queue, id").fetchall())


class Segments:
    """A record for each batch and queue, its octets in a table of their own."""

    def __init__(self, path: str) -> None:
        """Open or make the file."""
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.executescript(
            SETUP + "CREATE TABLE IF NOT EXISTS segment (queue, first, count, settled, octets INTEGER,"
            " PRIMARY KEY (queue, first)) WITHOUT ROWID;"
            " CREATE TABLE IF NOT EXISTS octets (id INTEGER PRIMARY KEY, body);"
        )

    def write(self, first: int, contents: list[bytes]) -> None:
        """Insert one record, and the octets of all in one."""
        self._db.execute("BEGIN")
        made = self._db.execute("INSERT INTO octets (body) VALUES (?)", (_encode(contents),)).lastrowid
        self._db.execute("INSERT INTO segment VALUES (1, ?, ?, NULL, ?)", (first, len(contents), made))
        self._db.execute("COMMIT")

    def settle(self, first: int, count: int) -> None:
        """Delete segments that are settled whole, and note in the others what is."""
        self._db.execute("BEGIN")
        found = self._db.execute(
            "SELECT first, count, octets FROM segment WHERE queue = 1 AND first BETWEEN ? AND ?",
            (first, first + count - 1),
        ).fetchall()
        for begin, length, octets in found:
            if begin + length <= first + count:
                self._db.execute("DELETE FROM octets WHERE id = ?", (octets,))
                self._db.execute("DELETE FROM segment WHERE queue = 1 AND first = ?", (begin,))
            else:
                mask = b"\xff" * ((first + count - begin + 7) // 8)
                self._db.execute("UPDATE segment SET settled = ? WHERE queue = 1 AND first = ?", (mask, begin))
        self._db.execute("COMMIT")

    def recover(self) -> int:
        """Read the records, and no octets of messages."""
        return sum(
            row[1] for row in self._db.execute("SELECT first, count, settled FROM segment ORDER BY queue, first")
        )


class File:
    """Everything appended to one file: nothing to maintain, and nothing given back until it is written anew."""

    def __init__(self, path: str) -> None:
        """Open or make the file."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def _append(self, record: bytes) -> None:
        os.write(self._file, _length.pack(len(record)) + record)
        os.fdatasync(self._file)

    def write(self, first: int, contents: list[bytes]) -> None:
        """Append one record."""
        self._append(_encode((1, first, contents)))

    def settle(self, first: int, count: int) -> None:
        """Append a note."""
        self._append(_encode((0, first, count)))

    def recover(self) -> int:
        """Read all of it."""
        os.lseek(self._file, 0, os.SEEK_SET)
        data = bytearray()
        while piece := os.read(self._file, 1 << 20):
            data += piece
        position = count = 0
        while position < len(data):
            stop = position + 4 + _length.unpack_from(data, position)[0]
            kind, _, what = msgspec.msgpack.decode(memoryview(data)[position + 4 : stop])
            count += len(what) if kind else -what
            position = stop
        return count


FORMS: dict[str, Callable[[str], Form]] = {"rows": Rows, "segments": Segments, "file": File}


class Host(Protocol):
    """Where the work is done; one batch is outstanding at a time."""

    def submit(self, first: int, contents: list[bytes]) -> None:
        """Have a batch written."""

    def is_done(self) -> bool:
        """Look whether it is, without waiting."""

    def wait(self) -> None:
        """Wait until it is."""

    def close(self) -> None:
        """End."""


class Thread:
    """A thread of this process."""

    def __init__(self, form: str, path: str) -> None:
        """Start it."""
        self._work: queue.SimpleQueue[tuple[int, list[bytes]] | None] = queue.SimpleQueue()
        self._done: deque[bool] = deque()
        self._event = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(form, path))
        self._thread.start()

    def _run(self, form: str, path: str) -> None:
        keep_to(CORES[-1])
        store = FORMS[form](path)
        while (item := self._work.get()) is not None:
            store.write(*item)
            self._done.append(True)
            self._event.set()

    def submit(self, first: int, contents: list[bytes]) -> None:
        """Have a batch written."""
        self._event.clear()
        self._work.put((first, contents))

    def is_done(self) -> bool:
        """Look."""
        return bool(self._done) and self._done.popleft()

    def wait(self) -> None:
        """Sleep until it is done."""
        self._event.wait()
        self._done.popleft()

    def close(self) -> None:
        """End the thread."""
        self._work.put(None)
        self._thread.join()


class Process:
    """A process of its own, at the other end of a socket pair."""

    def __init__(self, form: str, path: str) -> None:
        """Start it."""
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, __file__, "--host", form, path, str(theirs.fileno()), str(CORES[-1])]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def submit(self, first: int, contents: list[bytes]) -> None:
        """Have a batch written."""
        frame = _encode((first, contents))
        self._socket.sendall(_length.pack(len(frame)) + frame)

    def is_done(self) -> bool:
        """Look."""
        try:
            return bool(self._socket.recv(1, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def wait(self) -> None:
        """Sleep until it is done."""
        self._socket.recv(1)

    def close(self) -> None:
        """Let the process end."""
        self._socket.close()
        self._process.wait()


def keep_to(core: int) -> None:
    """Let this thread run on one core alone."""
    os.sched_setaffinity(0, {core})


def host(form: str, path: str, number: str, core: str) -> None:
    """Be the process: write what comes, answer with one octet."""
    keep_to(int(core))
    store, wire = FORMS[form](path), socket.socket(fileno=int(number))
    reader = wire.makefile("rb")
    while header := reader.read(4):
        first, contents = msgspec.msgpack.decode(reader.read(_length.unpack(header)[0]))
        store.write(first, contents)
        wire.send(b"1")


def latencies(made: Host, *, busy: bool) -> Iterator[float]:
    """Write batches one after the other; give the seconds that each took."""
    contents, first = [os.urandom(SIZE) for _ in range(FEW)], 1
    made.submit(first, contents)
    made.wait()  # until then it starts
    stop = time.perf_counter() + SECONDS
    near, far = socket.socketpair()
    while True:
        began = time.perf_counter()
        first += FEW
        made.submit(first, contents)
        if busy:
            while not made.is_done():
                near.send(b"x")  # what a loop does all the time: each call gives the interpreter's lock up, and has it
                far.recv(1)  # back before anybody who waits for it has woken up
        else:
            made.wait()
        done = time.perf_counter()
        yield done - began
        if done > stop:
            return


def table_of_hosts(folder: Path) -> None:
    """Print how long a batch takes until it is on disk."""
    print(f"\na batch of {FEW} messages of {SIZE} octets, one outstanding: p50 / p99 ms")
    print(f"{'':20}{'loop idle':>18}{'loop busy':>18}")
    for form in FORMS:
        for kind in (Thread, Process):
            cells = []
            for busy in (False, True):
                made = kind(form, str(folder / f"{form}-{kind.__name__}-{busy}"))
                found = sorted(latencies(made, busy=busy))
                made.close()
                low, high = found[len(found) // 2], found[len(found) * 99 // 100]
                cells.append(f"{low * 1000:8.2f} / {high * 1000:7.2f}")
            print(f"{form:>9}, {kind.__name__.lower():<9}" + "".join(cells))


def table_of_forms(folder: Path) -> None:
    """Print what a message costs in each form, and how long it takes to find a backlog again."""
    print(f"\n{BACKLOG} messages of {SIZE} octets, {MANY} in a batch, alone in the process")
    print(f"{'':10}{'write':>12}{'settle':>12}{'CPU of both':>14}{'recover':>12}")
    contents = [os.urandom(SIZE) for _ in range(MANY)]
    for form, make in FORMS.items():
        store, path = make(str(folder / form)), str(folder / form)
        cpu, began = time.process_time(), time.perf_counter()
        for first in range(0, BACKLOG, MANY):
            store.write(first, contents)
        wrote = time.perf_counter()
        again = make(path)
        found = time.perf_counter()
        again.recover()
        recovered = time.perf_counter()
        cpu -= recovered - found
        for first in range(0, BACKLOG, MANY):
            store.settle(first, MANY)
        settled = time.perf_counter()
        cpu = time.process_time() - cpu
        each = 1e6 / BACKLOG
        print(
            f"{form:10}{(wrote - began) * each:9.2f} µs{(settled - recovered) * each:9.2f} µs"
            f"{cpu * each:11.2f} µs{(recovered - found) * 1000:9.1f} ms"
        )


def table_of_sizes(folder: Path) -> None:
    """Print what a message costs in the store itself, by the size at which segments are cut."""
    print(f"\n{BACKLOG // 10} messages of {LARGE} octets in batches of 4 MiB, read back 1 MiB at once")
    print(f"{'':10}{'write':>12}{'read':>12}{'settle':>12}{'recover':>12}")
    for cut in CUTS:
        each = 1e6 / (BACKLOG // 10)
        wrote, read, settled, recovered = costs_of_size(folder / f"cut-{cut}", cut)
        print(
            f"{cut >> 10:6} KiB{wrote * each:9.2f} µs{read * each:9.2f} µs{settled * each:9.2f} µs"
            f"{recovered * 1000:9.1f} ms"
        )


def costs_of_size(place: Path, cut: int) -> tuple[float, float, float, float]:
    """Write a backlog, find it again, and read and settle it in order; give the seconds."""
    contents, stop = [os.urandom(LARGE)] * (cut // LARGE), BACKLOG // 10
    work = [OperationBatch(1, [QueueDeclared(1, b"q", b"")])]
    for number, batch in enumerate(range(1, stop, 4096), 2):
        firsts = range(batch, min(batch + 4096, stop), len(contents))
        work.append(
            OperationBatch(number, [append(first, contents[: min(batch + 4096, stop) - first]) for first in firsts])
        )
    with closing(SqliteStore(place)) as store, closing(SqliteReader(place)) as reader:
        times = [time.perf_counter()]
        for each in work:
            store.commit([each])
        times.append(time.perf_counter())
        position = 1
        while position < stop:
            position = reader.read(1, position, stop, 1 << 20).up_to
        times.append(time.perf_counter())
        sum(1 for _ in store.recover())
        times.append(time.perf_counter())
        for number, first in enumerate(range(1, stop, MANY), len(work) + 1):
            store.commit([OperationBatch(number, [MessagesSettled(1, [(first, MANY)])])])
        times.append(time.perf_counter())
    wrote, read, recovered, settled = (after - before for before, after in pairwise(times))
    return wrote, read, settled, recovered


def append(first: int, contents: list[bytes]) -> MessagesAppended:
    """Make a segment, as the journal would."""
    body = encode_body([BodyRun(0, b"head", contents)])
    return MessagesAppended(queue=1, first=first, count=len(contents), size=len(contents) * LARGE, body=body)


def table_of_records(folder: Path) -> None:
    """Print what a record of the kind that is read singly costs, by the size of its value."""
    print("\nrecords of a kind that is read singly, 500 or 8 MiB in a batch, half of them in a range: CPU of each")
    print(f"{'':10}{'put':>12}{'read':>12}{'recover':>12}{'range':>12}")
    for size in RECORDS:
        count = max(40, min(BACKLOG // 10, (1 << 26) // size))
        put, read, recovered, removed = costs_of_record(folder / f"records-{size}", size, count)
        each = 1e6 / count
        print(
            f"{size:10,}{put * each:9.2f} µs{read * each:9.2f} µs{recovered * each:9.2f} µs{removed * 2 * each:9.2f} µs"
        )


def costs_of_record(place: Path, size: int, count: int) -> tuple[float, float, float, float]:
    """Put records, find them again, read each, and remove half of them at once; give the seconds of CPU."""
    kind, value = RecordKind.RESULT, os.urandom(size)
    keys = [b"%08x %032x" % (number * 10 // count, number * 2654435761 % (1 << 32)) for number in range(count)]
    batch = max(1, min(500, (1 << 23) // size))
    with closing(SqliteStore(place)) as store:
        times = [time.process_time()]
        for number, first in enumerate(range(0, count, batch), 1):
            store.commit([OperationBatch(number, [RecordPut(kind, key, value) for key in keys[first : first + batch]])])
        times.append(time.process_time())
        for key in keys:
            store.read_record(kind, key)
        times.append(time.process_time())
        sum(1 for _ in store.recover())
        times.append(time.process_time())
        store.commit([OperationBatch(store.committed + 1, [RecordRangeRemoved(kind, b"", b"%08x" % 5)])])
        times.append(time.process_time())
    put, read, recovered, removed = (after - before for before, after in pairwise(times))
    return put, read, recovered, removed


def main() -> None:
    """Print the tables."""
    places = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    print(f"Python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}" + (": smoke" if SMOKE else ""))
    with tempfile.TemporaryDirectory(dir=places[0] if places else None) as folder:
        keep_to(CORES[0])
        table_of_hosts(Path(folder))
        table_of_forms(Path(folder))
        table_of_sizes(Path(folder))
        table_of_records(Path(folder))


if __name__ == "__main__":
    if "--host" in sys.argv:
        host(*sys.argv[sys.argv.index("--host") + 1 :])
    else:
        main()
