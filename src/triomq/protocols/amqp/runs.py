"""The fast readers: publishes, deliveries and acks, cut out of a chunk without a frame-by-frame parse.

Peers repeat themselves, though not in all they say. A publisher sends a few method frames over and over, and its
content headers differ in values alone:

    method frame               header frame                                  body frame
    01 ch size method … CE  |  02 ch size class weight size flags … CE   |   03 ch size body CE
    `-- found by its ----'     `-- compared with a shape: all but sizes and values ---'
        octets (``kinds``)         of properties is fixed (``shapes``)

    the next one has the same method, shape and length?  then a loop in C reads all that are like it (``_stretch``)

Rules:

- A reader takes what is plain, whole and like one before. At anything else it stops where it is, and the engine's
  general reader, which knows every rule, goes on from there. So a reader never judges: what it does not take is not yet
  wrong, and there is one place that words errors.
- What one reader takes becomes one event. A run has one method object, one framing and a list of contents; a mix has
  the kind of each content in a second list. Code that handles them compares and looks up by identity, for a run once.
- A content stays one slice, header and body frame together. A consumer with the same channel number and frame size
  gets the very same bytes.
- A publish that lacks only octets of its one body frame is not read the general way: it waits as octets, like an
  unfinished frame, and is joined once when the rest has come (``begun``). All before these octets is checked already.
  The general way and its copies took 13 µs for 64 KiB that came in two parts, this way takes 7.
- Nothing is believed because the message before was in order: each frame's end is checked, and every octet that is
  neither compared nor a value that cannot be wrong.

In µs a publish, two shared cores (``benchmarks/amqp_engine.py``): 100 B alike 0.17; 200 B with a trace header,
message-id and timestamp that differ 0.30, and 0.70 with 16 keys in turn. Before shapes and mixes these were 0.26, 2.8
and 5.3; with a parse of each frame, 0.29 µs for each of three, and what is in them on top.

Tried and dropped: one ``startswith`` for the heads of all three frames where all are alike (0.26; it is left for
contents without a shape); guessing the method frame that follows (keys come in turn in benchmarks only).
"""

import struct
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

from triomq.protocols.amqp.channel import ChannelState
from triomq.protocols.amqp.codes import PeerError
from triomq.protocols.amqp.content import Framing, FramingTable
from triomq.protocols.amqp.events import AckRun, DeliverRun, Event, PublishMix, PublishRun
from triomq.protocols.amqp.frames import BODY, FRAME_END, FRAME_HEADER, HEADER, METHOD, OVERHEAD
from triomq.protocols.amqp.kinds import KindTable, MethodCache, PublishKind
from triomq.protocols.amqp.methods import BasicDeliver, BasicPublish, Method
from triomq.protocols.amqp.shapes import Shape, ShapeTable
from triomq.protocols.amqp.states import Role

# data, where a method frame begins, where it ends, its channel → where the next unread frame begins
Reader: TypeAlias = Callable[[bytes, int, int, ChannelState], int]

_Kind = TypeVar("_Kind", bound=Method)

# frame type, channel, size · class, weight, body size, property flags
_CONTENT = struct.Struct(">BHIHHQH")
_BASIC = 60
# A content header's payload up to and with the property flags (section 4.2.6.1).
SHORTEST_HEADER = 14
# Octets of a header frame up to and with them.
_FLAGS_STOP = 21
_TAG = struct.Struct(">Q")

# An ack: frame header, class and method, tag, no bit set, frame end.
_ACK = struct.Struct(">11sQH")
_ACK_SIZE = 21
_ACK_METHOD = b"\x00\x00\x00\x0d\x00\x3c\x00\x50"

# So many publishes alike are a run of their own; shorter ones between others are cheaper as a part of these.
LONG_RUN = 16

_NONE: dict[bytes, PublishKind] = {}  # kinds of no shape

# What publishes that were read have in common: all; method and framing, while the shape was just learned; less.
_ONE_KIND, _ONE_RUN, _MIXED = range(3)


class BegunPublish(NamedTuple):
    """A publish that lacks only octets of its one body frame; the others are in order."""

    channel: int
    method: BasicPublish
    framing: Framing
    skip: int
    """Octets of the method frame."""
    size: int
    """Octets of all three frames."""


class RunReader:
    """The readers of one connection, their caches and the list that they add events to."""

    __slots__ = (
        "_events",
        "_framings",
        "_kinds",
        "_methods",
        "_properties",
        "_shape",
        "_shapes",
        "_used",
        "begun",
        "body_max",
        "payload_max",
    )

    def __init__(self, methods: MethodCache, framings: FramingTable, events: list[Event]) -> None:
        self._methods = methods
        self._framings = framings
        self._shape: Shape | None = None  # of the last content
        self._used = False  # whether there are tables of shapes and kinds, which idle connections do without
        self._events = events
        # The properties that were found in order last: where only sizes of bodies change, they come again.
        self._properties = b""
        self.begun: BegunPublish | None = None
        """The publish that the last chunk has ended within."""
        self.payload_max = self.body_max = 0

    def _use(self) -> None:
        """Make the tables, for the first content."""
        self._used = True
        self._shapes = ShapeTable()
        self._kinds = KindTable(self._methods, self._shapes)

    def begin(self, role: Role, payload_max: int, max_message_size: int) -> dict[bytes, Reader]:
        """Start to read, now that the size of frames is agreed; give the reader for each method's first octets.

        They are not held here: that would be a cycle, for each of them holds this object.
        """
        self.payload_max = payload_max
        self.body_max = min(payload_max, max_message_size)
        readers: dict[bytes, Reader] = {b"\x00\x3c\x00\x50": self.acks}
        if role == "server":
            readers[b"\x00\x3c\x00\x28"] = self.publishes
        else:
            readers[b"\x00\x3c\x00\x3c"] = self.deliveries
        return readers

    def acks(self, data: bytes, position: int, stop: int, channel: ChannelState) -> int:
        """Read basic.acks of single deliveries."""
        # An ack has always the same size: one struct reads it whole, and a loop in C goes from one to the next.
        head = data[position : position + 11]
        if head[3:] != _ACK_METHOD:
            return position
        tags: list[int] = []
        add = tags.append
        count = (len(data) - position) // _ACK_SIZE
        for found, tag, end in _ACK.iter_unpack(memoryview(data)[position : position + count * _ACK_SIZE]):
            if found != head or end != FRAME_END:
                break
            add(tag)
        if tags:
            self._events.append(AckRun(channel.number, tags))
        return position + len(tags) * _ACK_SIZE

    def publishes(self, data: bytes, position: int, stop: int, channel: ChannelState) -> int:
        """Read basic.publishes that begin with the method frame at ``position``, each in up to three frames."""
        if not self._used:
            self._use()
        number, end, body_max = channel.number, len(data), self.body_max
        kinds: list[PublishKind] = []
        contents: list[bytes] = []
        last, shape, variety = None, self._shape, _ONE_KIND
        known = _NONE if shape is None else shape.kinds
        while position + 7 < end:
            # A method frame that came with this shape is found by its octets: it ends with the last one of its size.
            kind = known.get(data[position : position + 8 + data[position + 6]])
            if kind is not None and shape is not None and position + kind.skip + shape.least <= end:
                start = position + kind.skip
                if (found := shape.read(data, start)) == shape.expected or shape.accept(found, body_max):
                    stop = start + shape.length
                    if stop > end or data[stop - 1] != FRAME_END:
                        break
                else:
                    kind = None
            else:
                kind = None
            if kind is None:
                publish = self._publish(data, position, number, shape)
                if publish is None:
                    break
                kind, start, stop = publish
                shape = kind.shape
                known = _NONE if shape is None else shape.kinds
            if kind is not last:
                if last is not None and variety < _MIXED:
                    if len(contents) >= LONG_RUN or kind.flags != last.flags:
                        self._add_publishes(number, kinds, contents, variety)
                        kinds, contents, variety = [], [], _ONE_KIND
                    else:
                        is_run = kind.method is last.method and kind.framing is last.framing
                        variety = _ONE_RUN if is_run else _MIXED
                elif last is not None and kind.flags != last.flags:
                    self._add_publishes(number, kinds, contents, variety)
                    kinds, contents, variety = [], [], _ONE_KIND
                last = kind
            elif data.startswith(data[position : start + _FLAGS_STOP], stop):
                # Two in a row, and the next one has this method and length: many more may.
                some = [data[start:stop]]
                position = self._stretch(data, position, start, kind, some)
                if variety == _MIXED and len(some) >= LONG_RUN:
                    self._add_publishes(number, kinds, contents, variety)
                    kinds, contents, variety = [], [], _ONE_KIND
                kinds += [kind] * len(some)
                contents += some
                continue
            kinds.append(kind)
            contents.append(data[start:stop])
            position = stop
        self._shape = shape
        if contents:
            self._add_publishes(number, kinds, contents, variety)
        elif position + 7 < end:
            self._begin(data, position, number)
        return position

    def _publish(
        self, data: bytes, position: int, number: int, shape: Shape | None, whole: bool = True
    ) -> tuple[PublishKind, int, int] | None:
        """Return the kind of a publish, where its content begins, and where it ends; None as ``_content``."""
        end = len(data)
        if end - position < FRAME_HEADER.size:
            return None
        frame_type, channel, size = FRAME_HEADER.unpack_from(data, position)
        start = position + OVERHEAD + size
        if frame_type != METHOD or channel != number or size > self.payload_max:
            return None
        if start > end or data[start - 1] != FRAME_END:
            return None
        frame = data[position:start]
        method = self._kinds.read(frame)
        if method is None:
            return None
        if shape is not None and shape.framing.channel == number and start + shape.least <= end:
            # A new key with a content like the last one.
            found = shape.read(data, start)
            if found == shape.expected or shape.accept(found, self.body_max):
                stop = start + shape.length
                if not whole or (stop <= end and data[stop - 1] == FRAME_END):
                    return self._kinds.find(frame, method, shape.framing, shape), start, stop
                return None
        content = self._content(data, start, number, whole)
        if content is None:
            return None
        stop, framing, shape = content
        return self._kinds.find(frame, method, framing, shape), start, stop

    @staticmethod
    def _stretch(data: bytes, position: int, start: int, kind: PublishKind, contents: list[bytes]) -> int:
        """Read publishes of a kind that are as long as the one at ``position``; return where they end."""
        skip, shape = kind.skip, kind.shape
        length = skip + len(contents[-1])
        stop = position + length
        if shape is not None:
            return stop + length * shape.read_alike(data, stop, (skip,), contents)
        # Without a shape only the body may be new: one ``startswith`` compares the heads of all three frames. An end
        # beyond the chunk is an empty slice, and no frame end.
        head, begins, add = data[position : start + kind.framing.body_start], data.startswith, contents.append
        while begins(head, stop) and data[stop + length - 1 : stop + length] == b"\xce":
            add(data[stop + skip : stop + length])
            stop += length
        return stop

    def _add_publishes(self, number: int, kinds: list[PublishKind], contents: list[bytes], variety: int) -> None:
        """Add what was read as one event."""
        kind, size = kinds[0], sum(map(len, contents))
        if variety == _MIXED:
            self._events.append(PublishMix(number, kinds, contents, size))
        else:
            shape = kind.shape if variety == _ONE_KIND else None
            self._events.append(PublishRun(number, kind.method, kind.framing, contents, size, shape))

    def _begin(self, data: bytes, position: int, number: int) -> None:
        """Remember the publish at ``position``, if it lacks nothing but octets of its body frame."""
        found = self._publish(data, position, number, self._shape, whole=False)
        if found is not None and found[2] > len(data):
            kind, _, stop = found
            self.begun = BegunPublish(number, kind.method, kind.framing, kind.skip, stop - position)

    def finish(self, begun: BegunPublish, octets: bytearray, rest: memoryview) -> bool:
        """Read a publish that has come in two parts; return whether it was in order. Its content is copied but once."""
        if rest[-1] != FRAME_END:
            return False
        del octets[: begun.skip]
        content = b"".join((octets, rest))
        self._events.append(PublishRun(begun.channel, begun.method, begun.framing, [content], len(content)))
        return True

    def deliveries(self, data: bytes, position: int, stop: int, channel: ChannelState) -> int:
        """Read basic.delivers like the one at ``position``, each in up to three frames."""
        if not self._used:
            self._use()
        opening = data[position:stop]
        # Behind frame header, numbers and consumer tag stands the delivery tag, the one thing that always differs.
        tag_at = 12 + opening[11]
        front, back = opening[:tag_at], opening[tag_at + 8 :]
        method = self._method(front + bytes(8) + back, BasicDeliver)
        if method is None:
            return position
        number, skip, begins, end = channel.number, len(opening), data.startswith, len(data)
        read_tag, shape = _TAG.unpack_from, self._shape
        framing: Framing | None = None
        tags: list[int] = []
        contents: list[bytes] = []
        while begins(front, position) and begins(back, position + tag_at + 8):
            start, before = position + skip, None if shape is None else shape.expected
            if (
                shape is not None
                and start + shape.least <= end
                and ((found := shape.read(data, start)) == before or shape.accept(found, self.body_max))
            ):
                stop, like = start + shape.length, shape.framing
                if stop > end or data[stop - 1] != FRAME_END:
                    break
            else:
                content = self._content(data, start, number)
                if content is None:
                    break
                stop, like, shape = content
            if like is not framing:
                self._deliver_run(number, method, tags, framing, contents)
                framing, tags, contents = like, [], []
            tags += read_tag(data, position + tag_at)
            contents.append(data[start:stop])
            length, position = stop - position, stop
            if shape is not None and shape.expected is before and begins(front, stop):
                # It was as long as the one before: many more may be.
                count = shape.read_alike(data, stop, (tag_at, 8, skip - tag_at - 8), contents)
                places = range(stop + tag_at, stop + tag_at + count * length, length)
                tags += [read_tag(data, place)[0] for place in places]
                position += count * length
        self._shape = shape
        self._deliver_run(number, method, tags, framing, contents)
        return position

    def _deliver_run(
        self, number: int, method: BasicDeliver, tags: list[int], framing: Framing | None, contents: list[bytes]
    ) -> None:
        if framing is not None:
            first = BasicDeliver(method.consumer_tag, tags[0], method.redelivered, method.exchange, method.routing_key)
            self._events.append(DeliverRun(number, first, tags, framing, contents, sum(map(len, contents))))

    def _method(self, opening: bytes, kind: type[_Kind]) -> _Kind | None:
        """Return the method of a whole frame; None leaves its errors to the general reader."""
        if opening[-1] != FRAME_END:
            return None
        try:
            method = self._methods.known.get(opening[7:-1]) or self._methods.decode(opening[7:-1])
        except PeerError:
            return None
        return method if isinstance(method, kind) else None

    def _content(
        self, data: bytes, start: int, number: int, whole: bool = True
    ) -> tuple[int, Framing, Shape | None] | None:
        """Return where a header frame and its one body frame end, their framing, and their shape if that is known.

        None if they are not whole, not plain or not in order; the end of the body frame counts only if ``whole``.
        """
        try:
            kind, channel, size, class_id, weight, body_size, flags = _CONTENT.unpack_from(data, start)
            if kind != HEADER or channel != number or class_id != _BASIC or weight:
                return None
            if not SHORTEST_HEADER <= size <= self.payload_max or body_size > self.body_max:
                return None
            stop = start + OVERHEAD + size
            if body_size:
                if FRAME_HEADER.unpack_from(data, stop) != (BODY, number, body_size):
                    return None
                stop += OVERHEAD + body_size
            if data[start + 7 + size] != FRAME_END or (whole and data[stop - 1] != FRAME_END):
                return None
        except (struct.error, IndexError):
            return None
        key = number, flags, size
        if body_size and (shape := self._shapes.find(key, data, start, self.body_max)) is not None:
            return stop, shape.framing, shape
        properties = data[start + 19 : start + 7 + size]
        if properties != self._properties:
            if not self._shapes.fills(flags, data, start + _FLAGS_STOP, start + 7 + size):
                return None
            self._properties = properties
        framing = self._framings.framed(number, flags, size, body_size > 0)
        return stop, framing, self._shapes.learn(key, framing, data, start) if body_size else None
