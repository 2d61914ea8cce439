"""The process of a trace log: ``python -m triomq.tracelog.server``, started by a broker alone.

    socket ─▶ pieces ─▶ Expander ─▶ Rows ─▶ a thread: ParquetFiles

It reads while a file is written; if two files are to be written at once, it waits for the first, and pieces wait in
the socket. A file is begun anew after 250,000 rows, after a minute, and with each hour. When the broker is gone, in
whatever way, its end of the socket pair is closed: then this process writes what it has, and ends.

A file that cannot be written (a full disk) is dropped: its rows are counted as lost in the next one, and standard error
says why.
"""

import argparse
import signal
import socket
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from triomq.process import forget_origin
from triomq.tracelog.parquet import ParquetFiles
from triomq.tracelog.records import LENGTH
from triomq.tracelog.rows import LOST_EVENTS, Expander, Rows

MOST_ROWS = 250_000
"""Rows of a file: some 2 MiB of Parquet, and 100 MiB of memory while it is made."""

LONGEST = 60.0
"""Seconds after which a file is written however few rows it has: what a killed process loses."""

_TICK = 1.0
"""Seconds between looks at the clock while nothing comes."""

_HOUR = 3600 * 1_000_000

_CHUNK = 1 << 20


class Writer:
    """Gathers rows, and has files written by a thread.

    Args:
        files: Where they go.
        most_rows: Rows of a file.
        longest: Seconds after which a file is written in any case.
    """

    def __init__(self, files: ParquetFiles, *, most_rows: int = MOST_ROWS, longest: float = LONGEST) -> None:
        self._files = files
        self._most_rows = most_rows
        self._longest = longest
        self._rows: Rows | None = None
        self._hour = 0
        self._thread = ThreadPoolExecutor(1)
        self._writing: Future[object] | None = None
        self._lost = 0  # rows of files that could not be written

    def rows(self, now: int) -> Rows:
        """Return the rows to add to, for a time in microseconds since 1970."""
        rows = self._rows
        if rows is not None and (now // _HOUR != self._hour or len(rows) >= self._most_rows):
            self.flush()
            rows = None
        if rows is None or self._rows is None:
            self._hour = now // _HOUR
            rows = self._rows = Rows(time.monotonic())
            if self._lost:
                lost, self._lost = self._lost, 0
                rows.add(1, msg_id=-1, size=lost, ts=now, kind=rows.text("kind", LOST_EVENTS))
        return rows

    def look(self) -> None:
        """Write what has waited long enough."""
        if self._rows is not None and time.monotonic() - self._rows.began >= self._longest:
            self.flush()

    def flush(self) -> None:
        """Have a thread write what is there, when it has written what was there before."""
        rows, self._rows = self._rows, None
        self.wait()
        if rows:
            self._writing = self._thread.submit(self._write, rows)

    def _write(self, rows: Rows) -> None:
        try:
            self._files.write(rows)
        except OSError as error:
            self._lost += (events := rows.events)
            with suppress(OSError, ValueError):  # nobody may be there to read it
                print(f"triomq trace: {events} events are lost: {error}", file=sys.stderr, flush=True)

    def wait(self) -> None:
        """Wait until the file is written that a thread writes."""
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        self.wait()
        self._thread.shutdown()


def serve(wire: socket.socket, writer: Writer) -> None:
    """Expand what comes until the broker is gone."""
    expander, received = Expander(writer.rows), bytearray()
    wire.settimeout(_TICK)
    while True:
        try:
            chunk = wire.recv(_CHUNK)
        except TimeoutError:
            writer.look()
            continue
        except ConnectionError:
            break
        if not chunk:
            break
        received += chunk
        while len(received) >= LENGTH and len(received) >= (stop := LENGTH + int.from_bytes(received[:LENGTH], "big")):
            expander.expand(bytes(received[LENGTH:stop]))
            del received[:stop]
            writer.look()
    writer.close()


def main() -> None:
    """Serve one broker."""
    forget_origin()
    parser = argparse.ArgumentParser(prog="triomq.tracelog.server")
    parser.add_argument("--wire", type=int, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("directory", type=Path)
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the broker gets them too, and has this process end last
    files = ParquetFiles(options.directory, options.node, time.time_ns() // 1000)
    with socket.socket(fileno=options.wire) as wire:
        serve(wire, Writer(files))


if __name__ == "__main__":
    main()
