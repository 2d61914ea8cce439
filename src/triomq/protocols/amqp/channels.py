"""All channels of one connection: what comes in on them, what may be written on them (AMQP 0-9-1 sections 2.2.5, 4.9).

A number is a channel's only while that is open; closes may cross, and a client may open the number again before it has
seen our answer. All of this happens to real clients, so it is a table (``states.py``) and a few counters:

    client                      server
      │ ── channel.open 1 ───────► │  opening ─► open
      │ ── publish ──────────────► │
      │ ◄────── channel.close 1 ── │  closing: all but close and close-ok is dropped (section 1.5.2.5)
      │ ── channel.close 1 ──────► │  crossed: answered at once; the number is free with the client's close-ok
      │ ── channel.open 1 ───────► │  a new channel under the number
      │ ── channel.close-ok ─────► │  ``unanswered`` goes to 0

Rules:

- An engine reads a whole chunk before its events are acted on. So an endpoint may answer to a channel that has ended,
  even to one whose number has been opened again: such answers are dropped, or belong to the old one (``owes``).
- Content frames are collected by an ``Assembly``; all channels share one limit of what is unfinished.
- A method on a channel that is not open ends the connection with 504, as the specification has it; a method that is too
  late ends nothing.
- What is written per run looks up its channel in ``open`` itself and asks ``writable`` only if that is not open.
"""

from collections.abc import Callable
from typing import cast

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp.channel import ChannelState
from triomq.protocols.amqp.codec import MethodLayout
from triomq.protocols.amqp.codes import PeerError, close_text
from triomq.protocols.amqp.content import Assembly, ChannelRefusal, Framing, FramingTable, Limits
from triomq.protocols.amqp.core import Core
from triomq.protocols.amqp.events import (
    AckRun,
    ChannelClosed,
    ChannelFailed,
    ChannelOpened,
    DeliverRun,
    Event,
    GetOk,
    PublishRun,
    Received,
    Returned,
)
from triomq.protocols.amqp.frames import BODY, HEADER, METHOD
from triomq.protocols.amqp.kinds import MethodCache
from triomq.protocols.amqp.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    Method,
    Row,
)

# The reply code of a close at the end of work.
NO_REASON = 200

# Large bodies that a peer may have under way at once: a broker sends those of several channels side by side, while of a
# client, of which there may be thousands, may have one.
_LARGE_ONES = {"server": 1, "client": 4}

_CLOSE_OK = b"\x00\x14\x00\x29"
_CLOSE = b"\x00\x14\x00\x28"
_OPEN = b"\x00\x14\x00\x0a"

# What a whole content becomes; a table keyed by the type of its method.
_CONTENT_EVENTS: dict[type[Method], Callable[[int, Method, Framing, bytes], Event]] = {
    BasicPublish: lambda channel, method, framing, content: PublishRun(
        channel, cast(BasicPublish, method), framing, [content], len(content)
    ),
    BasicDeliver: lambda channel, method, framing, content: DeliverRun(
        channel,
        cast(BasicDeliver, method),
        [cast(BasicDeliver, method).delivery_tag],
        framing,
        [content],
        len(content),
    ),
    BasicReturn: lambda channel, method, framing, content: Returned(
        channel, cast(BasicReturn, method), framing, content
    ),
    BasicGetOk: lambda channel, method, framing, content: GetOk(channel, cast(BasicGetOk, method), framing, content),
}


class ChannelTable:
    """Owned by one engine: its channels by number, those still closing among them."""

    __slots__ = ("_begun", "_cache", "_core", "_framings", "_incarnations", "_lost", "limits", "open")

    def __init__(self, core: Core, cache: MethodCache, framings: FramingTable) -> None:
        self._core = core
        self._cache = cache
        self._framings = framings
        self.limits = Limits(core.settings.max_message_size, _LARGE_ONES[core.role])
        self._incarnations = 0
        # Numbers of channels that ended by a failure which the endpoint may not know of yet: a peer may answer our
        # close, and even open again, in the octets that fail. Words that come too late for such a one are dropped.
        self._lost: set[int] = set()
        self.open: dict[int, ChannelState] = {}
        self._begun: dict[int, Assembly] = {}  # what ``take_begun`` has not returned yet, by channel number

    # What comes in

    def receive(self, kind: int, number: int, frame: memoryview) -> None:
        """Handle one whole frame of a channel, the general way."""
        channel = self.open.get(number)
        if channel is not None and channel.state in ("closing", "crossed"):
            self._drop(channel, kind, frame)
        elif kind == METHOD:
            self._receive_method(number, channel, bytes(frame[7:-1]))
        elif channel is None or channel.assembly is None:
            raise PeerError(505, "expected method frame, got non method frame instead")
        else:
            self._receive_content(channel, channel.assembly, kind, frame)

    def _drop(self, channel: ChannelState, kind: int, frame: memoryview) -> None:
        """Pass over what the peer sent before it saw our channel.close."""
        # Section 1.5.2.5: after sending channel.close, anything but close and close-ok must be discarded.
        index = bytes(frame[7:11])
        if kind != METHOD:
            return
        if index == _CLOSE:
            channel.move("received channel.close")
            self._core.send(ChannelCloseOk(), channel.number)
            self._adopt_reason(channel, bytes(frame[7:-1]))
        elif index == _CLOSE_OK:
            self._close_answered(channel)
        elif index == _OPEN and channel.state == "crossed":
            self._open(channel.number, channel)

    def _close_answered(self, channel: ChannelState) -> None:
        """Handle the peer's answer to a close of ours; the last one frees the number, if the channel is closed."""
        channel.unanswered -= 1
        if channel.unanswered or channel.state not in ("closing", "crossed"):
            return
        channel.move("received channel.close-ok")
        del self.open[channel.number]
        if channel.failed:
            self._lost.add(channel.number)
        text = channel.close_text
        self._core.events.append(ChannelClosed(channel.number, channel.close_code, text, by_peer=False))

    def _adopt_reason(self, channel: ChannelState, payload: bytes) -> None:
        """Use the peer's close, which has crossed ours, as the reason where we had none."""
        method = self._core.methods.decode(payload)
        if isinstance(method, ChannelClose) and channel.close_code == NO_REASON:
            channel.close_code, channel.close_text = method.reply_code, method.reply_text

    def _receive_method(self, number: int, channel: ChannelState | None, payload: bytes) -> None:
        layout = self._core.methods.find(payload)
        row = layout.row
        if channel is not None and channel.assembly is not None:
            raise channel.assembly.interrupted()
        if row.class_id == 10 or row.sender == self._core.role:
            raise PeerError(503, "unimplemented method", row.class_id, row.method_id)
        if row.method is ChannelOpen:
            self._open(number, channel)
            return
        if row.method is ChannelCloseOk and channel is not None and channel.unanswered:
            self._close_answered(channel)
            return
        if channel is None or channel.state == "ending":
            raise PeerError(504, "expected 'channel.open'", row.class_id, row.method_id)
        if row.content:
            method = self._cache.decode(payload) if row.method is BasicPublish else self._core.methods.decode(payload)
            assembly = Assembly(layout, method, self.limits)
            channel.begin_content(assembly)
            if row.method is BasicPublish:
                self._begun[number] = assembly
            return
        self._dispatch(channel, layout, self._core.methods.decode(payload))

    def _dispatch(self, channel: ChannelState, layout: MethodLayout, method: Method) -> None:
        row, number, events = layout.row, channel.number, self._core.events
        if type(method) is BasicAck and not method.multiple:
            events.append(AckRun(number, [method.delivery_tag]))
        elif row.method not in (ChannelOpenOk, ChannelClose, ChannelCloseOk):
            events.append(Received(number, method))
        elif not channel.move(f"received {row.name}"):
            if type(method) is ChannelCloseOk:
                raise PeerError(503, "unimplemented method", row.class_id, row.method_id)
            raise PeerError(504, f"unexpected '{row.name}'", row.class_id, row.method_id)
        elif type(method) is ChannelClose:
            events.append(ChannelClosed(number, method.reply_code, method.reply_text, by_peer=True))
        else:
            self._opened(number)

    def _open(self, number: int, channel: ChannelState | None) -> None:
        """Open a channel for the client."""
        if channel is not None and channel.state not in ("ending", "crossed"):
            raise PeerError(504, "second 'channel.open' seen", 20, 10)
        # As RabbitMQ counts: channels, not their numbers.
        limit = self._core.channel_max
        if channel is None and len(self.open) >= limit:
            opened = len(self.open)
            text = f"number of channels opened ({opened}) has reached the negotiated channel_max ({limit})"
            raise PeerError(530, text)
        # A close is a close though our answer has not left yet: how octets are cut must make no difference.
        self.open[number] = ChannelState(number) if channel is None else channel.reopened()
        self._opened(number)

    def _opened(self, number: int) -> None:
        self._incarnations += 1
        self._core.events.append(ChannelOpened(number, self._incarnations))

    def _receive_content(self, channel: ChannelState, assembly: Assembly, kind: int, frame: memoryview) -> None:
        try:
            if assembly.body_size < 0:
                if kind != HEADER:
                    raise assembly.interrupted()
                whole = assembly.add_header(bytes(frame))
            elif kind != BODY:
                raise assembly.interrupted()
            else:
                whole = assembly.add_body(frame)
        except ChannelRefusal as refusal:
            self._fail(channel, refusal)
            return
        if whole:
            self._begun.pop(channel.number, None)
            channel.end_content()
            framing, content = assembly.finish(channel.number, self._framings)
            make = _CONTENT_EVENTS[type(assembly.method)]
            self._core.events.append(make(channel.number, assembly.method, framing, content))

    def take_begun(self) -> list[tuple[int, BasicPublish]]:
        """Return the publishes that have begun since the last call and are not whole, with their channels' numbers."""
        begun, self._begun = self._begun, {}
        return [
            (number, cast(BasicPublish, assembly.method))
            for number, assembly in begun.items()
            if number in self.open and self.open[number].assembly is assembly
        ]

    def _fail(self, channel: ChannelState, error: PeerError) -> None:
        channel.failed = True
        self.close(channel.number, error.code, error.text, error.class_id, error.method_id)
        self._core.events.append(ChannelFailed(channel.number, error.code, error.text, error.class_id, error.method_id))

    # What goes out

    def send(self, number: int, method: Method, row: Row) -> None:
        """Queue a method without content."""
        if row.method is ChannelOpen:
            self._request_open(number)
        elif row.method is ChannelClose:
            raise LocalProtocolError("channel.close is sent with close_channel(), which keeps its code and text")
        else:
            channel = self.writable(number)
            if channel is None:
                return
            if channel.owes(row.name):
                self._core.send(method, number)
                return
            if row.method in (ChannelOpenOk, ChannelCloseOk) and not channel.move(f"sent {row.name}"):
                if number in self._lost:
                    return
                raise LocalProtocolError(f"{row.name} cannot be sent on channel {number}, which is {channel.state}")
            if channel.state == "closed":
                del self.open[number]
        self._core.send(method, number)

    def writable(self, number: int) -> ChannelState | None:
        """Find a channel to write to; None if what is written would not be read any more.

        Raises:
            LocalProtocolError: there is no such channel.
        """
        channel = self.open.get(number)
        if channel is None:
            if number in self._lost:
                return None
            raise LocalProtocolError(f"channel {number} is not open")
        return None if channel.state in ("closing", "crossed") else channel

    def close(self, number: int, code: int, text: str, class_id: int, method_id: int) -> None:
        """Queue channel.close, and drop all that comes on the channel until close-ok.

        A server may do so after the client's close, to refuse what came before that.
        """
        channel = self.writable(number)
        if channel is None or (channel.state == "ending" and self._core.role == "client"):
            return  # a client that was closed has nothing left to send but the answer
        text = close_text(code, text)
        channel.unanswered += 1
        if not channel.is_behind:
            channel.move("sent channel.close")
            channel.close_code, channel.close_text = code, text
        self._core.send(ChannelClose(code, text, class_id, method_id), number)

    def stop_runs(self) -> None:
        """Stop the fast readers: the peer has closed the connection."""
        for channel in self.open.values():
            channel.plain = False

    def drop(self) -> None:
        """Drop all channels: the connection is ending, and its frames are passed over."""
        for channel in self.open.values():
            channel.drop_content()
        self.open.clear()

    def _request_open(self, number: int) -> None:
        """Open a channel as a client."""
        if not 0 < number <= 65535 or number in self.open:
            raise LocalProtocolError(f"channel {number} cannot be opened: it is open already, or not 1 to 65535")
        if len(self.open) >= self._core.channel_max:
            raise LocalProtocolError(f"{len(self.open)} channels are open, more were not agreed on")
        self.open[number] = ChannelState(number)
