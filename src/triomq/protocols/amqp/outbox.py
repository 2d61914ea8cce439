"""What an engine sends: methods, contents and runs of deliveries as octets, until the endpoint takes them.

Deliveries are the hot path. All of a run's octets are laid out by slice assignment into one list and joined once.
Where messages are alike, only the tag and the content differ between one delivery and the next (``deliveries``). Where
they are not, what stands before and behind the tag does as well: a ``Front``, which the endpoint remembers for each
kind of message and hands in with each (``mixed_deliveries``). Records of a stream get a header more (``records``).
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from triomq.errors import LocalProtocolError
from triomq.protocols.amqp.content import CONTENT_HEADER, Framing
from triomq.protocols.amqp.frames import BODY, FRAME_END, FRAME_HEADER, HEADER, METHOD, OVERHEAD, frame
from triomq.protocols.amqp.records import Cuts, cut_all, frame_records
from triomq.protocols.amqp.settings import FRAME_MIN_SIZE
from triomq.protocols.fields import encode_short_string

# Deliver frames of so many consumers and routing keys are remembered; each takes less than a KiB.
REMEMBERED = 512
# From this size on a content is handed out as it is: copying it would cost more than one more element to write.
LARGE = 16 * 1024

_TAG = struct.Struct(">Q")
# Frame header; class and method, delivery tag, multiple; frame end.
_ACK = struct.Struct(">BHIIQ?B")
_ACK_METHOD = 60 << 16 | 80
_ACK_SIZE = _ACK.size
_ACK_PAYLOAD = _ACK.size - OVERHEAD
_BASIC = 60
_DELIVER = b"\x00\x3c\x00\x3c"
_PUBLISH = b"\x00\x3c\x00\x28\x00\x00"


class Front(NamedTuple):
    """What stands before a delivered content, made by ``Outbox.front`` for one consumer and one kind of message.

    Args:
        before: The octets before the delivery tag.
        behind: Those behind it up to the content, or to the third octet of one that has another channel's number.
        channel: The channel in the content's frames; 0 if it has none.
        framing: The content's shape.
        body_frame: The first three octets of a body frame that has another channel's number in the content.
    """

    before: bytes
    behind: bytes
    channel: int
    framing: Framing
    body_frame: bytes


class Outbox:
    """Owned by one engine, and looked at by its driver after each step: attributes, because a property costs a call.

    ``unsent`` is how many octets wait. ``finished`` is whether nothing follows them: then the transport is shut. A
    server whose client has closed the connection leaves that to the client for a while: it still answers closes.
    ``has_sent`` is set whenever octets are added, for the heartbeats.
    """

    __slots__ = (
        "_deliver_frames",
        "_pieces",
        "_publish_frames",
        "finished",
        "frame_max",
        "has_sent",
        "unsent",
    )

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self._deliver_frames: dict[tuple[int, str, bool, str, str], tuple[bytes, bytes]] = {}
        self._publish_frames: dict[tuple[int, str, str, bool, bytes, int], bytes] = {}
        self.frame_max = FRAME_MIN_SIZE
        self.unsent = 0
        self.finished = False
        self.has_sent = False

    def take(self) -> list[bytes | memoryview]:
        """Remove and return what waits."""
        pieces, self._pieces = self._pieces, []
        self.unsent = 0
        return pieces

    def put(self, piece: bytes | memoryview) -> None:
        """Add octets."""
        self._pieces.append(piece)
        self.unsent += len(piece)
        self.has_sent = True

    def put_all(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Add octets in several pieces."""
        self._pieces += pieces
        self.unsent += sum(map(len, pieces))
        self.has_sent = True

    def method(self, channel: int, payload: bytes) -> None:
        """Add a method frame."""
        if len(payload) + OVERHEAD > self.frame_max:
            raise LocalProtocolError(
                f"a method of {len(payload)} octets does not fit into the agreed frames of {self.frame_max}"
            )
        self.put(frame(METHOD, channel, payload))

    def content(self, channel: int, payload: bytes, properties: bytes, body: bytes) -> None:
        """Add a method frame, a header frame and as many body frames as it takes."""
        self.method(channel, payload)
        self.put_all(self._framed(channel, properties, memoryview(body)))

    def check_properties(self, size: int) -> None:
        """Refuse properties of a publish that the server would refuse: a header frame cannot be cut (section 4.2.6.1).

        What is delivered is not asked: another client has sent it, in larger frames, and it must go on. RabbitMQ sends
        such a header frame whole, too.

        Raises:
            LocalProtocolError: They do not fit into a frame.
        """
        if size + 12 + OVERHEAD > self.frame_max:
            raise LocalProtocolError(f"properties of {size} octets do not fit into frames of {self.frame_max}")

    def _framed(self, channel: int, properties: bytes, body: memoryview) -> list[bytes | memoryview]:
        """Frame a content, cutting the body so that each frame fits the peer."""
        size = len(body)
        # The property flags stand at the head of the properties already.
        header = CONTENT_HEADER.pack(_BASIC, 0, size, 0)[:-2] + properties
        pieces = [frame(HEADER, channel, header), *self._body_frames(channel, body)]
        return pieces if size >= LARGE else [b"".join(pieces)]

    def _body_frames(self, channel: int, body: memoryview) -> list[bytes | memoryview]:
        """Cut a body into frames that fit the peer."""
        pieces: list[bytes | memoryview] = []
        step = self.frame_max - OVERHEAD
        for start in range(0, len(body), step):
            part = body[start : start + step]
            pieces += (FRAME_HEADER.pack(BODY, channel, len(part)), part, b"\xce")
        return pieces

    # Publishes

    def publish(
        self, channel: int, exchange: str, routing_key: str, mandatory: bool, properties: bytes, body: bytes
    ) -> None:
        """Add one basic.publish; a publisher repeats itself, so all that stands before the body is remembered."""
        key = (channel, exchange, routing_key, mandatory, properties, len(body))
        front = self._publish_frames.get(key) or self._publish_frame(key)
        size = key[5]
        if not size:
            self.put(front)
        elif size < LARGE and size + OVERHEAD <= self.frame_max:
            self.put(b"%b%b\xce" % (front, body))
        else:
            self.put_all((front, *self._body_frames(channel, memoryview(body))))

    def _publish_frame(self, key: tuple[int, str, str, bool, bytes, int]) -> bytes:
        """Write the method frame, the header frame and, where the body is one small frame, what begins that."""
        channel, exchange, routing_key, mandatory, properties, size = key
        self.check_properties(len(properties))
        route = encode_short_string(exchange) + encode_short_string(routing_key)
        front = frame(METHOD, channel, b"%b%b%c" % (_PUBLISH, route, mandatory)) + frame(
            HEADER, channel, CONTENT_HEADER.pack(_BASIC, 0, size, 0)[:-2] + properties
        )
        if 0 < size < LARGE and size + OVERHEAD <= self.frame_max:
            front += FRAME_HEADER.pack(BODY, channel, size)
        if len(front) > LARGE:
            return front
        if len(self._publish_frames) >= REMEMBERED:
            self._publish_frames.clear()
        self._publish_frames[key] = front
        return front

    def ack(self, channel: int, tag: int, *, multiple: bool) -> None:
        """Add basic.ack (section 1.8.3.13)."""
        self._pieces.append(_ACK.pack(METHOD, channel, _ACK_PAYLOAD, _ACK_METHOD, tag, multiple, FRAME_END))
        self.unsent += _ACK_SIZE
        self.has_sent = True

    # Deliveries

    def deliveries(
        self,
        channel: int,
        consumer_tag: str,
        first_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        framing: Framing,
        contents: Sequence[bytes],
    ) -> None:
        """Add one basic.deliver per content, with consecutive delivery tags."""
        key = (channel, consumer_tag, redelivered, exchange, routing_key)
        head, tail = self._deliver_frames.get(key) or self._deliver_frame(key)
        count = len(contents)
        if (
            count == 1
            and framing.channel == channel
            and len(contents[0]) < LARGE
            and len(contents[0]) <= self.frame_max
        ):
            piece = b"%b%b%b%b" % (head, _TAG.pack(first_tag), tail, contents[0])
            self._pieces.append(piece)  # as ``put`` does, without its call: most runs are of one message
            self.unsent += len(piece)
            self.has_sent = True
            return
        tags = map(_TAG.pack, range(first_tag, first_tag + count))
        longest = max(map(len, contents)) if contents else 0
        pieces: list[bytes | memoryview]
        if framing.channel and longest <= self.frame_max:
            if framing.channel == channel:
                pieces = [head, b"", tail, b""] * count
                pieces[1::4] = tags
                pieces[3::4] = contents
            else:
                pieces = self._renumbered(channel, head, tail, framing, contents)
                pieces[1 :: len(pieces) // count] = tags
            if longest < LARGE:
                self.put(b"".join(pieces))
            else:
                self.put_all(pieces)
            return
        for tag, content in zip(tags, contents, strict=True):
            self._deliver_anew(channel, b"%b%b%b" % (head, tag, tail), framing, content)

    def _deliver_anew(self, channel: int, method: bytes, framing: Framing, content: bytes) -> None:
        """Add a delivery whose content is framed for this peer, behind the octets of its method."""
        body = memoryview(content)[framing.body_start : len(content) - framing.body_trailer]
        self.put(method)
        self.put_all(self._framed(channel, framing.properties(content), body))

    def front(
        self, channel: int, consumer_tag: str, redelivered: bool, exchange: str, routing_key: str, framing: Framing
    ) -> Front:
        """Return the front of deliveries with all this in common."""
        before, behind = _deliver_frame(channel, consumer_tag, redelivered, exchange, routing_key)
        body_frame = b""
        if framing.channel not in (0, channel):
            number = channel.to_bytes(2, "big")
            behind += b"\x02" + number
            body_frame = b"\x03" + number if framing.body_trailer else b""
        return Front(before, behind, framing.channel, framing, body_frame)

    def mixed_deliveries(
        self, channel: int, first_tag: int, fronts: Sequence[Front], contents: Sequence[bytes]
    ) -> None:
        """Add one basic.deliver per content, each with its own front, with consecutive delivery tags."""
        count = len(contents)
        channels = [front[2] for front in fronts]
        longest = max(map(len, contents))
        pieces: list[bytes | memoryview]
        if longest <= self.frame_max and channels.count(channel) == count:
            pieces = [b""] * (4 * count)
            pieces[3::4] = contents
        elif longest <= self.frame_max and channel not in channels and 0 not in channels:
            splits = [front[3].properties_stop + 1 for front in fronts]
            pieces = [b""] * (6 * count)
            pieces[3::6] = [content[3:split] for content, split in zip(contents, splits, strict=True)]
            pieces[4::6] = [front[4] for front in fronts]
            pieces[5::6] = [content[split + 3 :] for content, split in zip(contents, splits, strict=True)]
        else:
            self._mixed_anew(channel, first_tag, fronts, contents)
            return
        step = len(pieces) // count
        pieces[0::step] = [front[0] for front in fronts]
        pieces[1::step] = map(_TAG.pack, range(first_tag, first_tag + count))
        pieces[2::step] = [front[1] for front in fronts]
        if longest < LARGE:
            self.put(b"".join(pieces))
        else:
            self.put_all(pieces)

    def _mixed_anew(self, channel: int, first_tag: int, fronts: Sequence[Front], contents: Sequence[bytes]) -> None:
        """Add deliveries whose contents are framed for this peer."""
        for tag, (front, content) in enumerate(zip(fronts, contents, strict=True), first_tag):
            behind = front.behind if front.channel in (0, channel) else front.behind[:-3]
            method = b"%b%b%b" % (front.before, _TAG.pack(tag), behind)
            self._deliver_anew(channel, method, front.framing, content)

    def records(
        self,
        channel: int,
        first_tag: int,
        fronts: Front | Sequence[Front],
        offsets: Sequence[int],
        properties: bytes | Sequence[bytes],
        bodies: Sequence[bytes],
    ) -> None:
        """Add one basic.deliver per record of a stream, each with its offset in the header ``x-stream-offset``.

        Fronts and properties are one for all, or one each.
        """
        count = len(bodies)
        sizes = list(map(len, bodies))
        longest = max(sizes)
        cuts = cut_all((properties,) if isinstance(properties, bytes) else properties)
        if longest > self.frame_max - OVERHEAD:
            self._records_anew(channel, first_tag, fronts, offsets, cuts, bodies)
            return
        if len(cuts.rests) == 1 and sizes.count(longest) == count:
            (lead,), (rest,), _ = cuts
            (opening,), (closing,), (end,) = frame_records(channel, cuts.sizes, sizes[:1])
            pieces: list[bytes | memoryview] = [b"", b"", b"", opening + lead, b"", rest + closing, b"", end] * count
        else:
            if len(cuts.rests) < count:
                cuts = cuts.repeated(count)
            pieces = [b""] * (10 * count)
            pieces[3::10], pieces[7::10], pieces[9::10] = frame_records(channel, cuts.sizes, sizes)
            pieces[4::10] = cuts.leads
            pieces[6::10] = cuts.rests
        step = len(pieces) // count
        if isinstance(fronts, Front):
            pieces[0::step] = [fronts[0]] * count
            pieces[2::step] = [fronts[1]] * count
        else:
            pieces[0::step] = [front[0] for front in fronts]
            pieces[2::step] = [front[1] for front in fronts]
        pieces[1::step] = map(_TAG.pack, range(first_tag, first_tag + count))
        pieces[step // 2 :: step] = map(_TAG.pack, offsets)
        pieces[step - 2 :: step] = bodies
        if longest < LARGE:
            self.put(b"".join(pieces))
        else:
            self.put_all(pieces)

    def _records_anew(
        self,
        channel: int,
        first_tag: int,
        fronts: Front | Sequence[Front],
        offsets: Sequence[int],
        cuts: Cuts,
        bodies: Sequence[bytes],
    ) -> None:
        """Add records one by one, with bodies that are cut into several frames."""
        is_common = len(cuts.rests) < len(bodies)
        for position, body in enumerate(bodies):
            front = fronts if isinstance(fronts, Front) else fronts[position]
            place = 0 if is_common else position
            self.put(b"%b%b%b" % (front.before, _TAG.pack(first_tag + position), front.behind))
            properties = b"%b%b%b" % (cuts.leads[place], _TAG.pack(offsets[position]), cuts.rests[place])
            self.put_all(self._framed(channel, properties, memoryview(body)))

    @staticmethod
    def _renumbered(
        channel: int, head: bytes, tail: bytes, framing: Framing, contents: Sequence[bytes]
    ) -> list[bytes | memoryview]:
        """Lay out contents whose frames carry another channel's number: three octets of each frame change."""
        number = channel.to_bytes(2, "big")
        body = framing.properties_stop + 1
        if not framing.body_trailer:
            pieces: list[bytes | memoryview] = [head, b"", tail + b"\x02" + number, b""] * len(contents)
            pieces[3::4] = [content[3:] for content in contents]
            return pieces
        pieces = [head, b"", tail + b"\x02" + number, b"", b"\x03" + number, b""] * len(contents)
        pieces[3::6] = [content[3:body] for content in contents]
        pieces[5::6] = [content[body + 3 :] for content in contents]
        return pieces

    def _deliver_frame(self, key: tuple[int, str, bool, str, str]) -> tuple[bytes, bytes]:
        """Write what stands before and behind the delivery tag, and remember it."""
        if len(self._deliver_frames) >= REMEMBERED:
            self._deliver_frames.clear()
        found = self._deliver_frames[key] = _deliver_frame(*key)
        return found


def _deliver_frame(
    channel: int, consumer_tag: str, redelivered: bool, exchange: str, routing_key: str
) -> tuple[bytes, bytes]:
    """Return what stands before and behind the delivery tag of a basic.deliver (section 1.8.3.9)."""
    tag = encode_short_string(consumer_tag)
    route = encode_short_string(exchange) + encode_short_string(routing_key)
    size = len(_DELIVER) + len(tag) + 8 + 1 + len(route)
    return FRAME_HEADER.pack(METHOD, channel, size) + _DELIVER + tag, b"%c%b\xce" % (redelivered, route)
