"""The outbox of a trace log: pieces of records on their way to the process, which never make the broker wait."""

import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from triomq.tracelog.records import LENGTH, LOST, PIECE

MOST_WAITING = 16 * 1024 * 1024
"""Bytes of pieces that wait: what a flood of a second or two writes while the process writes a file."""

_ARRAY = struct.Struct(">IBI")
"""Before the records: the piece's length, and the beginning of an array of MessagePack."""

_LONG_ARRAY = 0xDD

Record = tuple[object, ...]


def _readable(value: Any) -> Any:
    """Return a record in which texts can be encoded: what cannot be is escaped, as Python writes it."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, tuple | list):
        return [_readable(part) for part in value]
    return {name: _readable(part) for name, part in value.items()} if isinstance(value, dict) else value


class TraceOutbox:
    """Gathers records in pieces, and sends these as far as the socket takes them; made by a ``Recorder``.

    A piece that finds no room is dropped, and the events in it are counted; the next piece says how many.

    Args:
        now: Gives the time in microseconds since 1970.
        on_lost: Called when names may be lost, so that all of them have to be sent again.
    """

    def __init__(self, now: Callable[[], int], on_lost: Callable[[], None]) -> None:
        self._now = now
        self._on_lost = on_lost
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._buffer = bytearray(_ARRAY.size)
        self._records = self._events = 0
        self._waiting: deque[tuple[bytes, int]] = deque()  # each with its events
        self._size = 0  # bytes of all of them
        self._sent = 0  # bytes of the first one that the socket has taken
        self._socket: socket.socket | None = None
        self._untold = 0  # events that were dropped, of which no record tells yet
        self.lost = 0
        """Events that were dropped."""

    def add(self, record: Record, events: int = 0) -> None:
        """Add a record.

        Args:
            record: One of those that ``records`` describes.
            events: How many rows it stands for.
        """
        buffer = self._buffer
        size = len(buffer)
        try:
            self._encode_into(record, buffer, size)
        except UnicodeEncodeError:  # a name that is no UTF-8
            self._encode_into(_readable(record), buffer, size)
        self._records += 1
        self._events += events
        if len(buffer) >= PIECE:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered, as far as the socket takes it."""
        if self._untold and self._size < MOST_WAITING and self._socket is not None:
            untold, self._untold = self._untold, 0
            self.add((LOST, self._now(), untold))
        if self._records:
            self._cut()
        self.send()

    def _cut(self) -> None:
        """Let the gathered records wait as a piece; drop them if too much waits."""
        buffer, events = self._buffer, self._events
        _ARRAY.pack_into(buffer, 0, len(buffer) - LENGTH, _LONG_ARRAY, self._records)
        self._buffer, self._records, self._events = bytearray(_ARRAY.size), 0, 0
        if self._size < MOST_WAITING and self._socket is not None:
            self._waiting.append((bytes(buffer), events))
            self._size += len(buffer)
        else:
            self._drop(events)

    def _drop(self, events: int) -> None:
        self.lost += events
        self._untold += events
        self._on_lost()

    def send(self) -> None:
        """Send pieces that wait, as far as the socket takes them."""
        if self._socket is None:
            return
        waiting = self._waiting
        try:
            while waiting:
                piece = waiting[0][0]
                self._sent += self._socket.send(memoryview(piece)[self._sent :])
                if self._sent == len(piece):
                    waiting.popleft()
                    self._size -= len(piece)
                    self._sent = 0
        except BlockingIOError:
            pass
        except OSError:
            self.disconnect()

    @property
    def is_connected(self) -> bool:
        """Whether there is a process to send to."""
        return self._socket is not None

    @property
    def is_empty(self) -> bool:
        """Whether the socket has taken all that was gathered."""
        return not self._waiting and not self._records

    def connect(self, ours: socket.socket) -> None:
        """Send to a process from now on, by a socket that does not block."""
        self._socket = ours
        self._on_lost()  # it knows no names yet

    def disconnect(self) -> None:
        """Drop what the process has not taken, and what comes until there is another one."""
        self._socket = None
        events = sum(events for _, events in self._waiting) + self._events
        self._waiting.clear()
        self._size = self._sent = 0
        self._buffer, self._records, self._events = bytearray(_ARRAY.size), 0, 0
        self._drop(events)
