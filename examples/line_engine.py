"""An engine for lines of text: bytes in, lines out, and lines to send; no socket, no clock, no broker."""

from collections.abc import Sequence

import msgspec

LONGEST = 64 * 1024
"""Bytes of a line: what one read takes, so that no client makes the broker remember more."""


class Line(msgspec.Struct, frozen=True):
    """The peer has sent a line, here without its end."""

    text: bytes


class Outbox:
    """What waits to be written, for drivers that look at it."""

    def __init__(self) -> None:
        self.unsent = 0
        self.finished = False


class LineEngine:
    """One side of a conversation in lines; what every engine has is described by ``triomq.protocols.Engine``."""

    def __init__(self, longest: int = LONGEST) -> None:
        self.reading_paused = False
        self._longest = longest
        self.outbox = Outbox()
        self._events: list[Line] = []
        self._outgoing: list[bytes | memoryview] = []
        self._rest = b""

    @property
    def unfinished(self) -> int:
        return len(self._rest)

    def receive_data(self, data: bytes) -> None:
        if self.outbox.finished:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._events += map(Line, lines)
        if not data or len(self._rest) > self._longest:
            self.outbox.finished, self._rest = True, b""

    def events(self) -> Sequence[Line]:
        events, self._events = self._events, []
        return events

    def send(self, data: bytes) -> None:
        if not self.outbox.finished:
            self._outgoing.append(data)
            self.outbox.unsent += len(data)

    def data_to_send(self) -> Sequence[bytes | memoryview]:
        outgoing, self._outgoing, self.outbox.unsent = self._outgoing, [], 0
        return outgoing

    def next_timer(self) -> float | None:
        return None

    def handle_timer(self, now: float) -> None:
        pass
