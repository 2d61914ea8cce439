"""One connection with one channel, in as little Python as there can be: a checker has to be faster than a broker.

It shares no code with the broker, so that neither hides a mistake of the other.
"""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

import trio
from pamqp import commands, frame
from pamqp.base import Frame as Method

_METHOD, _HEADER, _BODY = 1, 2, 3
_DELIVER, _ACK, _NACK = (60, 60), (60, 80), (60, 120)
_CLOSED = (commands.Channel.Close, commands.Connection.Close)
_PERSISTENT = 2
_OFFSET = b"\x0fx-stream-offsetl"
Reply = TypeVar("Reply", bound=Method)


class Gone(Exception):
    """The broker is gone, or has never come; what it had sent was read to the end."""


class Refused(Exception):
    """The broker has closed the channel or the connection, and says why."""

    def __init__(self, reply_code: int, text: str) -> None:
        super().__init__(f"{reply_code} {text}")
        self.reply_code = reply_code


class Delivery(NamedTuple):
    """A message that came out; ``offset`` is that of a stream's record."""

    tag: int
    redelivered: bool
    body: bytes
    offset: int = -1


class Answer(NamedTuple):
    """A confirm, or what says that there will be none."""

    tag: int
    multiple: bool
    accepted: bool


Event = Delivery | Answer | Method


def publish(exchange: str, key: str, body: bytes, *, persistent: bool = True, **properties: int | str) -> bytes:
    """Encode a publish on channel 1.

    Args:
        exchange: Its name.
        key: The routing key.
        body: The octets, no more than a frame has room for.
        persistent: Whether it is to outlive the broker.
        properties: ``priority`` or ``expiration``; or ``publisher`` and ``number``, for streams that look at them.
    """
    names = b"".join(bytes([len(name)]) + name.encode() for name in (exchange, key))
    flags, values = 0x1000, bytes([_PERSISTENT if persistent else 1])
    if "publisher" in properties:
        name = str(properties["publisher"]).encode()
        table = b"\x0bx-publisherS" + struct.pack(">I", len(name)) + name
        table += b"\x12x-publisher-numberl" + struct.pack(">q", int(properties["number"]))
        flags, values = flags | 0x2000, struct.pack(">I", len(table)) + table + values
    if "priority" in properties:
        flags, values = flags | 0x0800, values + bytes([int(properties["priority"])])
    if "expiration" in properties:
        text = str(properties["expiration"]).encode()
        flags, values = flags | 0x0100, values + bytes([len(text)]) + text
    header = struct.pack(">HHQH", 60, 0, len(body), flags) + values
    return (
        _frame(_METHOD, struct.pack(">HHH", 60, 40, 0) + names + b"\0") + _frame(_HEADER, header) + _frame(_BODY, body)
    )


def ack(tag: int, *, multiple: bool = False) -> bytes:
    """Encode basic.ack."""
    return _frame(_METHOD, struct.pack(">HHQB", 60, 80, tag, multiple))


def reject(tag: int, *, requeue: bool = False) -> bytes:
    """Encode basic.reject."""
    return _frame(_METHOD, struct.pack(">HHQB", 60, 90, tag, requeue))


def encode(method: Method) -> bytes:
    """Encode any other method."""
    return frame.marshal(method, 1)


def _frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"


class Wire:
    """A connection that is open; made by ``open_wire``."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._sending = trio.Lock()
        self._unread = b""
        self._events: list[Event] = []
        self._deliver: tuple[int, bool, int] | None = None  # a delivery whose body has not come: tag, mark, octets left
        self._body = b""
        self._offset = -1

    async def send(self, octets: bytes) -> None:
        """Write."""
        try:
            async with self._sending:
                await self._stream.send_all(octets)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # whoever reads sees it, after everything that came before

    async def events(self) -> list[Event]:
        """Wait for what comes next; all that came with it.

        Raises:
            Gone: Nothing more comes.
            Refused: The broker closes.
        """
        while not self._events:
            try:
                chunk = await self._stream.receive_some(1 << 18)
            except trio.BrokenResourceError:
                chunk = b""
            if not chunk:
                raise Gone
            self._parse(chunk)
        events, self._events = self._events, []
        return events

    def take_events(self) -> list[Event]:
        """Give what has come beside answers."""
        events, self._events = self._events, []
        return events

    async def call(self, request: Method | bytes, expected: type[Reply]) -> Reply:
        """Ask, and wait for the answer; what comes beside it is kept for ``events``."""
        await self.send(request if isinstance(request, bytes) else frame.marshal(request, 1))
        kept: list[Event] = []
        while True:
            events = await self.events()
            for number, event in enumerate(events):
                if isinstance(event, expected):
                    self._events = kept + events[:number] + events[number + 1 :] + self._events
                    return event
            kept += events

    def _parse(self, chunk: bytes) -> None:
        unread = self._unread + chunk
        position, end = 0, len(unread)
        while end - position >= 8:
            kind, _, size = struct.unpack_from(">BHI", unread, position)
            stop = position + 8 + size
            if stop > end:
                break
            self._take(kind, unread[position:stop])
            position = stop
        self._unread = unread[position:]

    def _take(self, kind: int, octets: bytes) -> None:
        if kind == _METHOD:
            self._take_method(octets)
        elif kind == _HEADER and self._deliver is not None:
            self._deliver = (*self._deliver[:2], int.from_bytes(octets[11:19], "big"))
            _, found, value = octets.partition(_OFFSET)
            self._offset = int.from_bytes(value[:8], "big") if found else -1
            self._body = b""
            self._end_body()
        elif kind == _BODY:
            self._body += octets[7:-1]
            self._end_body()

    def _end_body(self) -> None:
        assert self._deliver is not None
        tag, redelivered, size = self._deliver
        if len(self._body) >= size:
            self._deliver = None
            self._events.append(Delivery(tag, redelivered, self._body, self._offset))

    def _take_method(self, octets: bytes) -> None:
        found = struct.unpack_from(">HH", octets, 7)
        if found == _DELIVER:
            tag, redelivered = struct.unpack_from(">QB", octets, 12 + octets[11])
            self._deliver = (tag, bool(redelivered), 0)
        elif found in (_ACK, _NACK):
            tag, bits = struct.unpack_from(">QB", octets, 11)
            self._events.append(Answer(tag, bool(bits & 1), found == _ACK))
        else:
            method = frame.unmarshal(octets)[2]
            if isinstance(method, _CLOSED):
                raise Refused(method.reply_code, method.reply_text)
            self._events.append(method)


@asynccontextmanager
async def open_wire(port: int) -> AsyncIterator[Wire]:
    """Connect, log in and open channel 1.

    Raises:
        Gone: Nobody is there.
    """
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        raise Gone from None
    async with stream:
        wire = Wire(stream)
        await wire.call(b"AMQP\x00\x00\x09\x01", commands.Connection.Start)
        capabilities = {"capabilities": {"connection.blocked": True}}
        start_ok = commands.Connection.StartOk(capabilities, "PLAIN", "\0guest\0guest", "en_US")
        tune = await wire.call(frame.marshal(start_ok, 0), commands.Connection.Tune)
        tune_ok = commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0)
        opening = frame.marshal(tune_ok, 0) + frame.marshal(commands.Connection.Open("/"), 0)
        await wire.call(opening, commands.Connection.OpenOk)
        await wire.call(commands.Channel.Open(), commands.Channel.OpenOk)
        yield wire
