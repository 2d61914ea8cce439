"""The message of a direct connection (6/DMP, message envelope and format), read in runs.

A size of four octets, not counting itself; exchange and routing key, short strings; property flags and fields as in an
AMQP content header, without its class, weight and body size; an octet of options; the body behind its length in three
octets. A size of zero is a null message, which shows no more than that the sender is alive.

    size     exchange  key      flags value       options length body
    0000007e 06 orders 07 eu.47 0080  08 a4711b08 00      000064 ...
    ======== ==        ==       ====  ==          ==      ======       the frame: all but names, values and body

There are three ways to read, from the cheapest:

- A message that begins like the one before, up to its body: one comparison and one slice, 0.18 µs.
- Several messages with the same frame, whose names, values and bodies are new but as long as before, such as an id or a
  key each. Octets of the frame then stand at the same offsets in each of them. So one slice with a step has the first
  octet of all sizes, the next one the second, and a dozen comparisons check any number of messages: 0.2 µs for each.
- Any message: its head is walked, 0.8 µs.

Rules:

- The second way takes what has the very frame of a message that was walked, and so would be found in order if it were
  walked. It never judges: at another frame it stops, and the next message is walked.
- Messages with the same flags and options are one run, also where each has an envelope of its own: what they ask of a
  broker is the same, and to begin a run for each would cost more than to read them.
"""

import struct
from collections.abc import Sequence

from triomq.errors import RemoteProtocolError
from triomq.protocols.dmp.codes import PeerError
from triomq.protocols.dmp.envelope import Envelope, frame_of
from triomq.protocols.dmp.events import MessageRun
from triomq.protocols.fields import check_table
from triomq.protocols.properties import plan_of

NULL = b"\0\0\0\0"

# Two empty names, flags, options, the body's length.
SHORTEST = 8

# How many envelopes are remembered: publishers use a few; those that do not only pay for a new one.
REMEMBERED = 1024

# Messages from this size on are worth the trouble of not being copied once more.
LARGE = 16 * 1024

# After so many messages of one length in a row it is worth a look whether more of them have the same frame; and so many
# are looked at first, since a look in vain costs as much as five messages.
_STREAK, _FIRST_LOOK = 4, 16

_WORD = struct.Struct(">I")
_UTF_8 = "utf-8", "surrogateescape"

# Octets of a frame, at most: with a large header table it is cheaper to walk.
_LARGEST_FRAME = 80

# A run of so many messages with one envelope stays one: then another one costs little.
_LONG = 16


class MessageReader:
    """Cuts a stream into runs of messages; owned by one engine.

    It holds the octets of an unfinished message, and never copies them more than twice.

    Args:
        max_size: octets of a message behind its size.
    """

    __slots__ = (
        "_contents",
        "_envelope",
        "_envelopes",
        "_head",
        "_kind",
        "_known",
        "_max_size",
        "_names",
        "_needed",
        "_pending",
        "_remembered",
        "_table",
        "begun",
        "runs",
    )

    def __init__(self, max_size: int) -> None:
        self.runs: list[MessageRun] = []
        self.begun = 0  # how many messages were begun and not whole at the end of a chunk
        self._max_size = max_size
        self._pending = bytearray()
        self._needed = 0
        self._envelope: Envelope | None = None  # of the last message
        self._contents: list[bytes] = []  # of the present run
        self._envelopes: list[Envelope] | None = None  # of its messages but the last ones, if they differ
        self._head = b""  # of the last message: from the exchange's length to the options; found in order
        self._table = b""  # the header table that was found in order last
        self._names: dict[bytes, Envelope] = {}  # by names and flags, of messages of the present kind:
        self._kind = 0  # octets of property fields, and of options behind them
        self._known = {0: self._names}
        self._remembered = 0

    @property
    def unfinished(self) -> int:
        """How many octets have come of a message that is not whole."""
        return len(self._pending)

    def feed(self, data: bytes) -> None:
        """Read octets; ``runs`` has what they complete, also when this raises.

        Raises:
            PeerError: what follows is no message.
        """
        missing = self._needed - len(self._pending)
        if self._pending and len(data) < missing:
            self._pending += data
            return
        try:
            if not self._pending:
                self._read(data, 0)
            elif self._needed > LARGE and missing < len(data) - LARGE:
                # The unfinished message is finished alone: joined with all that follows it, that would be copied too.
                self._read(self._finished(memoryview(data)[:missing]), 0)
                self._read(data, missing)
            else:
                self._read(self._finished(data), 0)
        finally:
            self._end_run()

    def _finished(self, rest: bytes | memoryview) -> bytes:
        """Return the octets of the unfinished message joined with those that have come now."""
        whole = b"".join((self._pending, rest))
        self._pending.clear()
        return whole

    def _read(self, data: bytes, position: int) -> None:
        """Read as many messages as are whole; keep the rest."""
        end, begins, from_bytes = len(data), data.startswith, int.from_bytes
        head, add = self._head, self._contents.append
        front, length = b"", end + 1  # none was seen in this chunk, and no message in it is as long as that
        body_at, streak = 7 + len(head), 0
        while True:
            # The hot loop: same size and same head, so only the body is new.
            while begins(front, position) and (stop := position + length) <= end:
                add(data[position:stop])
                position = stop
            if end - position < 4:
                self._needed = 4
                break
            size = from_bytes(data[position : position + 4], "big")
            if not size:
                position += 4
                continue
            stop = position + 4 + size
            if not SHORTEST <= size <= self._max_size:
                raise self._bad_size(size)
            if stop > end:
                self._needed = 4 + size
                break
            if not head or not begins(head, position + 4):
                body = self._walk(data, position, stop)
                head = self._head = data[position + 4 : body - 3]
                body_at, add = body - position, self._contents.append
                streak = streak + 1 if stop - position == length else 0
            else:
                body = position + body_at
                if body > stop or from_bytes(data[body - 3 : body], "big") != stop - body:
                    raise _bad_body(from_bytes(data[body - 3 : body], "big"), stop - body)
            front, length = data[position:body], stop - position
            add(data[position:stop])
            position = stop
            if streak >= _STREAK:
                position, streak = self._read_framed_alike(data, position, length), 0
                # Which message was the last one is open now.
                head, front, length, add = b"", b"", end + 1, self._contents.append
        if position < end:
            self._pending += memoryview(data)[position:]
            self.begun += 1

    def _bad_size(self, size: int) -> PeerError:
        if size < SHORTEST:
            return PeerError(502, f"a message of {size} octets; the shortest has {SHORTEST}")
        return PeerError(530, f"a message of {size} octets; at most {self._max_size} are allowed")

    # One message

    def _walk(self, data: bytes, position: int, stop: int) -> int:
        """Check all that stands before a message's body, and go on with its envelope; return where the body begins."""
        start = position + 4
        try:
            behind = start + 1 + data[start]
            behind += 3 + data[behind]  # the names and the property flags
            flags = data[behind - 2] << 8 | data[behind - 1]
            fields = self._fields_end(flags, data, behind) if flags else behind
            word = _WORD.unpack_from(data, fields)[0]  # options and length of the body
        except (IndexError, struct.error):
            fields = stop
        except RemoteProtocolError as error:
            raise PeerError(502, str(error)) from None
        body = fields + 4
        if body > stop:
            raise PeerError(502, "a message ends in the middle of its head")
        if word & 0xFFFFFF != stop - body:
            raise _bad_body(word & 0xFFFFFF, stop - body)
        kind = fields - behind << 8 | word >> 24
        if kind != self._kind:
            self._kind, self._names = kind, self._known.setdefault(kind, {})
        names = data[start:behind]
        envelope = self._names.get(names)
        if envelope is None:
            self._remember((names,))
            envelope = self._names[names]
        if envelope is not self._envelope:
            self._go_on_with(envelope)
        return body

    def _fields_end(self, flags: int, data: bytes, position: int) -> int:
        """Find where the property fields end that ``flags`` announces, a header table being checked."""
        for width in plan_of(flags):
            if width >= 0:
                position += width or 1 + data[position]
            else:
                table = data[position : position + 4 + int.from_bytes(data[position : position + 4], "big")]
                if table != self._table:
                    check_table(table, 0)
                    self._table = table
                position += len(table)
        return position

    def _remember(self, names: Sequence[bytes]) -> None:
        """Make the envelopes of messages of the present kind with these names and flags, which are equally long."""
        if self._remembered >= REMEMBERED:
            self._names.clear()
            self._known = {self._kind: self._names}
            self._remembered = 0
        self._remembered += len(names)
        first, known, size, options = names[0], self._names, self._kind >> 8, self._kind & 0xFF
        start, key_at = 2 + len(first), 1 + first[0]
        front, exchange, flags = first[:key_at], first[1:key_at].decode(*_UTF_8), first[-2] << 8 | first[-1]
        for one in names:
            known[one] = Envelope(
                exchange if one.startswith(front) else one[1:key_at].decode(*_UTF_8),
                one[key_at + 1 : -2].decode(*_UTF_8),
                start,
                start + 2 + size,
                flags,
                options,
            )

    # Several messages

    def _read_framed_alike(self, data: bytes, position: int, length: int) -> int:
        """Read the messages from ``position`` on that have the same frame as the last one; return where others begin.

        Args:
            data: octets.
            position: where the last message ends.
            length: how many octets that has, its size included.
        """
        first, envelope = self._contents[-1], self._envelope
        assert envelope is not None
        self._head = b""
        frame: list[int] = []
        window = _FIRST_LOOK
        while (count := min(window, (len(data) - position) // length)) >= _FIRST_LOOK:
            frame = frame or frame_of(first, envelope)
            if len(frame) > _LARGEST_FRAME:
                break
            for offset in frame:
                octets = data[position + offset : position + count * length : length]
                octet = first[offset : offset + 1]
                if octets != octet * count:
                    count -= len(octets.lstrip(octet))
            if count:
                self._take(data, position, position + count * length, envelope)
                position += count * length
            if count < window:
                break
            window *= 4
        return position

    def _take(self, data: bytes, position: int, stop: int, envelope: Envelope) -> None:
        """Add messages whose frames are those of one with this envelope."""
        length, width = len(self._contents[-1]), envelope.properties_start - 2
        octets = memoryview(data)[position:stop]
        contents = [content for (content,) in struct.iter_unpack(f"{length}s", octets)]
        found = [names for (names,) in struct.iter_unpack(f"4x{width}s{length - 4 - width}x", octets)]
        if found.count(found[0]) == len(found):
            found = found[:1]
        known = self._names  # of the same kind
        if new := [names for names in found if names not in known]:
            self._remember(new)
        self._go_on_with(known[found[0]])
        if len(found) > 1:
            envelopes = self._envelopes_so_far()
            envelopes += [known[names] for names in found]
            self._envelope, self._envelopes = envelopes[-1], envelopes
        self._contents += contents

    # Runs

    def _go_on_with(self, envelope: Envelope) -> None:
        """Go on with another envelope, in the same run or in the next one."""
        last, count, envelopes = self._envelope, len(self._contents), self._envelopes
        if count and last is not None and envelope is not last:
            if envelope.flags != last.flags or envelope.options != last.options:
                self._end_run()
            elif envelopes is not None:
                envelopes += [last] * (count - len(envelopes))
            elif count < _LONG:
                self._envelopes = [last] * count
            else:
                self._end_run()
        self._envelope = envelope

    def _envelopes_so_far(self) -> list[Envelope]:
        """Return the envelope of each message of the present run; those that were not noted have the last one."""
        envelopes, last = self._envelopes or [], self._envelope
        if last is not None:
            envelopes += [last] * (len(self._contents) - len(envelopes))
        return envelopes

    def _end_run(self) -> None:
        """End the present run."""
        if self._contents:
            assert self._envelope is not None
            contents, size = self._contents, sum(map(len, self._contents))
            if self._envelopes is None:
                self.runs.append(MessageRun(self._envelope, contents, size))
            else:
                envelopes = self._envelopes_so_far()
                self.runs.append(MessageRun(envelopes[0], contents, size, envelopes))
                self._envelopes = None
            self._contents = []


def _bad_body(length: int, room: int) -> PeerError:
    """Return the error of a message whose body does not fill it."""
    if room < 0:
        return PeerError(502, "a message ends in the middle of its head")
    return PeerError(502, f"a body of {length} octets in a message that has {room} for it")
