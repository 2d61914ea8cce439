"""Messages of a pipe as server-sent events (HTML standard, section 9.2), both ways: an addition to RestMS.

    id: HASH
    data: {"restms": {"message": [{"href": "http://…/restms/resource/HASH", …}]}}

An event is a message with its ``href``, so that it can be deleted. The hash comes back as Last-Event-ID when a client
goes on after its connection broke. Comments begin with a colon, and are there to be sent.
"""

from typing import Final

from triomq.protocols.restms.documents import Document, MessageElement
from triomq.protocols.restms.json_form import parse_json, render_json
from triomq.protocols.restms.problems import Problem

EVENTS_BEGIN: Final = b": messages of this pipe; DELETE what is done with\n\n"
"""The first bytes of a stream of events, so that a client, and whatever is between, sees that it has begun."""
HEARTBEAT: Final = b":\n\n"
"""An event that is none: by sending it one finds out that the client is gone."""

LARGEST_EVENT: Final = 8 * 1024 * 1024
"""Bytes of a line that a client reads: contents are embedded up to 64 KiB, and headers are bounded by the document."""


def event_of(message: MessageElement, name: str) -> bytes:
    """Write a message as an event.

    Args:
        message: With its ``href``, so that the page can DELETE it.
        name: Its hash, which a client that comes back sends as Last-Event-ID.
    """
    return b"id: %b\ndata: %b\n\n" % (name.encode(), render_json(Document(messages=(message,))))


class EventReader:
    """Reads a stream of events; its owner feeds it what has come, however that is cut.

    ``last`` is the hash of the last message, to be sent as Last-Event-ID.
    """

    def __init__(self, last: str = "") -> None:
        self.last = last
        self._rest = b""
        self._searched = 0
        self._data: list[bytes] = []
        self._name = last

    def receive(self, data: bytes) -> list[MessageElement] | Problem:
        """Return the messages that are whole now; a problem if this is no stream of them, and then nothing more."""
        found: list[MessageElement] = []
        rest = self._rest + data
        start = 0
        while (stop := rest.find(b"\n", max(start, self._searched))) >= 0:
            self._searched = 0
            problem = self._read_line(rest[start:stop].removesuffix(b"\r"), found)
            if problem is not None:
                return problem
            start = stop + 1
        self._rest = rest[start:]
        self._searched = len(self._rest)
        if self._searched > LARGEST_EVENT:
            text = f"a line of the events has more than {LARGEST_EVENT:,} bytes; this is no stream of messages"
            return Problem("unreadable", text)
        return found

    def _read_line(self, line: bytes, found: list[MessageElement]) -> Problem | None:
        if line:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"id":
                self._name = value.decode("utf-8", "replace")
            elif name == b"data":
                self._data.append(value)
            return None
        if not self._data:
            return None
        document = parse_json(b"\n".join(self._data))
        self._data = []
        if isinstance(document, Problem):
            return document
        found += document.messages
        self.last = self._name
        return None
