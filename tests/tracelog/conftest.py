"""A recorder with the other end of its socket, and a domain that it traces."""

import socket
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from core.harness import Harness, open_harness
from triomq.tracelog import Recorder, Trace
from triomq.tracelog.records import LENGTH
from triomq.tracelog.rows import Expander, Rows

Row = dict[str, object]


def rows_in(rows: Rows) -> list[Row]:
    """List rows without what they do not have, nor the time."""
    found: list[Row] = []
    for place in range(len(rows)):
        row: Row = {}
        for name, column in rows.numbers.items():
            if column[place] != -1:
                row[name] = rows.texts[name].texts[column[place]] if name in rows.texts else column[place]
        del row["ts"]
        row |= {name: column[place] for name, column in rows.rare.items() if place in column}
        found.append(row)
    return found


class Traced:
    """A recorder that sends to this process."""

    def __init__(self, trace: Trace) -> None:
        self.recorder = Recorder(trace)
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.theirs.settimeout(0)
        self.recorder.outbox.connect(self.ours)
        self._expander = Expander(lambda now: self._rows)

    def pieces(self) -> Iterator[bytes]:
        """Take the pieces that have come."""
        received = bytearray()
        try:
            while True:
                received += self.theirs.recv(1 << 20)
                self.recorder.outbox.send()
        except BlockingIOError:
            pass
        while received:
            stop = LENGTH + int.from_bytes(received[:LENGTH], "big")
            yield bytes(received[LENGTH:stop])
            del received[:stop]

    def take(self) -> list[Row]:
        """Take the rows of what was recorded since the last call."""
        self._rows = Rows(0.0)
        self.recorder.outbox.flush()
        for piece in self.pieces():
            self._expander.expand(piece)
        return rows_in(self._rows)

    def restart(self) -> None:
        """Take what comes from now on as a process does that takes the place of another one."""
        self.take()
        self.recorder.outbox.disconnect()
        self.recorder.outbox.connect(self.ours)
        self._expander = Expander(lambda now: self._rows)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def open_traced() -> Iterator[Callable[..., Traced]]:
    """Make recorders; the arguments are those of ``Trace``."""
    opened: list[Traced] = []

    def open_traced(**options: object) -> Traced:
        opened.append(Traced(Trace(**options)))  # type: ignore[arg-type]
        return opened[-1]

    yield open_traced
    for traced in opened:
        traced.close()


@pytest.fixture
def traced(open_traced: Callable[..., Traced]) -> Traced:
    """A recorder of everything."""
    return open_traced()


@pytest.fixture
async def harness(traced: Traced) -> AsyncIterator[Harness]:
    """A domain that is traced."""
    async with open_harness() as harness:
        harness.directory.trace(traced.recorder)
        yield harness
