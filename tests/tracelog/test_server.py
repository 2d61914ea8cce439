"""The process of a trace log: when files are written, and what is left when it or its broker is killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

pa = pytest.importorskip("pyarrow", reason="PyArrow is not installed; pip install 'triomq[trace]'")

import pyarrow.parquet as pq  # noqa: E402

from triomq.tracelog.parquet import ParquetFiles  # noqa: E402
from triomq.tracelog.records import HAPPENED, LOST, QUEUE  # noqa: E402
from triomq.tracelog.server import Writer, serve  # noqa: E402

HOUR = 3_600_000_000
NAMES = (QUEUE, 1, "d", "q")


def settled(number: int, now: int = 0) -> tuple[object, ...]:
    return (HAPPENED, now, 1, (number, 1, 1), "accept")


def piece(*records: tuple[object, ...]) -> bytes:
    body = msgspec.msgpack.encode(records)
    return len(body).to_bytes(4, "big") + body


def files_in(folder: Path) -> list[list[int | None]]:
    """Return the ids of each file, in the order of their names."""
    return [pq.read_table(path, partitioning=None)["msg_id"].to_pylist() for path in sorted(folder.rglob("t*.parquet"))]


def serve_all(folder: Path, *pieces: bytes, **limits: float) -> list[list[int | None]]:
    """Serve a broker that has sent pieces and is gone; return the files."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"".join(pieces))
        ours.shutdown(socket.SHUT_WR)
        serve(theirs, Writer(ParquetFiles(folder, "n", 1), **limits))  # type: ignore[arg-type]
    return files_in(folder)


def test_end_of_the_broker_writes_what_there_is(tmp_path: Path) -> None:
    assert serve_all(tmp_path, piece(NAMES, settled(1)), piece(settled(2))) == [[1, 2]]


def test_broker_that_records_nothing_leaves_no_file(tmp_path: Path) -> None:
    assert serve_all(tmp_path) == serve_all(tmp_path, piece(NAMES)) == []


def test_piece_that_is_torn_off_is_left_out(tmp_path: Path) -> None:
    assert serve_all(tmp_path, piece(NAMES, settled(1)), piece(settled(2))[:-3]) == [[1]]


def test_file_has_so_many_rows(tmp_path: Path) -> None:
    pieces = [piece(NAMES), *(piece(settled(number)) for number in range(5))]
    assert serve_all(tmp_path, *pieces, most_rows=2) == [[0, 1], [2, 3], [4]]


def test_file_is_begun_anew_after_a_while(tmp_path: Path) -> None:
    assert serve_all(tmp_path, piece(NAMES, settled(1)), piece(settled(2)), longest=0.0) == [[1], [2]]


def test_file_is_of_one_hour_although_clocks_jump(tmp_path: Path) -> None:
    records = [settled(number, now) for number, now in enumerate((0, HOUR - 1, HOUR, 5 * HOUR, HOUR))]
    assert sorted(serve_all(tmp_path, piece(NAMES, *records))) == [[0, 1], [2], [3], [4]]
    assert [path.name for path in sorted(tmp_path.glob("*/*"))] == ["hour=00", "hour=01", "hour=05"]


def test_numbers_without_a_name_are_rows_all_the_same(tmp_path: Path) -> None:
    assert serve_all(tmp_path, piece(settled(1))) == [[1]]


def test_lost_events_are_a_row(tmp_path: Path) -> None:
    serve_all(tmp_path, piece((LOST, 0, 17)))
    (path,) = tmp_path.rglob("*.parquet")
    table = pq.read_table(path, partitioning=None)
    assert (table["kind"].to_pylist(), table["size"].to_pylist()) == (["lost-events"], [17])


def test_file_that_cannot_be_written_is_counted_in_the_next(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "date=1970-01-01").write_text("in the way")
    day = 24 * HOUR
    serve_all(tmp_path, piece(NAMES, settled(1), settled(2)), piece(settled(3, day)), piece(settled(4, 2 * day)))
    assert "2 events are lost" in capfd.readouterr().err
    tables = [pq.read_table(path, partitioning=None) for path in sorted(tmp_path.rglob("t*.parquet"))]
    rows = [row for table in tables for row in zip(table["kind"].to_pylist(), table["size"].to_pylist(), strict=True)]
    assert ("lost-events", 2) in rows


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[socket.socket, "subprocess.Popen[bytes]"]]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "triomq.tracelog.server", "--wire", str(theirs.fileno()), "--node", "n"]
    with ours, subprocess.Popen([*command, str(tmp_path)], pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        yield ours, process
        process.kill()


def test_process_outlives_signals_and_writes_when_its_broker_is_gone(
    tmp_path: Path, process: tuple[socket.socket, "subprocess.Popen[bytes]"]
) -> None:
    ours, running = process
    ours.sendall(piece(NAMES, settled(1)) + piece(*[settled(number) for number in range(2, 250_001)]))
    ours.sendall(piece(settled(250_001)))
    while not list(tmp_path.rglob("t*.parquet")):  # then it runs
        os.sched_yield()
    for number in (signal.SIGINT, signal.SIGTERM):
        running.send_signal(number)
    ours.close()
    assert running.wait(100) == 0
    assert [len(ids) for ids in files_in(tmp_path)] == [250_000, 1]


def test_process_that_is_killed_leaves_whole_files(
    tmp_path: Path, process: tuple[socket.socket, "subprocess.Popen[bytes]"]
) -> None:
    ours, running = process
    ours.sendall(piece(NAMES, *[settled(number) for number in range(250_000)]) + piece(settled(1)))
    while not list(tmp_path.rglob("*.parquet")):  # hidden or not
        os.sched_yield()
    running.kill()
    running.wait()
    assert all(len(ids) == 250_000 for ids in files_in(tmp_path))
    ParquetFiles(tmp_path, "n", time.time_ns() // 1000 + HOUR)
    assert not list(tmp_path.rglob(".*.parquet"))


def test_process_loads_neither_trio_nor_the_broker() -> None:
    program = "import sys, triomq.tracelog.server; print([m for m in ('trio', 'triomq.core') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_events_that_are_counted_as_lost_stay_counted_when_that_file_is_lost_too(tmp_path: Path) -> None:
    day = 24 * HOUR
    for number in (1, 2):
        (tmp_path / f"date=1970-01-0{number}").write_text("in the way")
    pieces = [piece((LOST, 0, 40)), piece(NAMES, settled(1)), *(piece(settled(n, n * day)) for n in range(1, 5))]
    serve_all(tmp_path, *pieces)
    tables = [pq.read_table(path, partitioning=None) for path in sorted(tmp_path.rglob("t*.parquet"))]
    counts = [table.filter(pa.compute.equal(table["kind"], "lost-events"))["size"].to_pylist() for table in tables]
    assert sum(map(sum, counts)) == 40 + 2
