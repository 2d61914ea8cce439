"""The message of a direct connection (6/DMP, message envelope and format), read in runs.

A size of four octets, not counting itself; exchange and routing key, short strings; property flags and fields as in an
AMQP content header, without its class, weight and body size; an octet of options; the body behind its length in three
octets. A size of zero is a null message, which shows no more than that the sender is alive.

Publishers repeat themselves. What stands between size and body is compared with that of the message before as one
slice, and looked into only if it differs. Size and length of the body are looked at always.
"""

import struct

import msgspec

from triomq.errors import RemoteProtocolError
from triomq.protocols.dmp.codes import PeerError
from triomq.protocols.fields import check_table, encode_short_string
from triomq.protocols.properties import plan_of

NULL = b"\0\0\0\0"

# Two empty names, flags, options, the body's length.
SHORTEST = 8

# How many envelopes are remembered: publishers use a few; those that do not only pay for a new one.
REMEMBERED = 1024

# Messages from this size on are worth the trouble of not being copied once more.
LARGE = 16 * 1024

MANDATORY, IMMEDIATE = 2, 1

_SIZE = struct.Struct(">I")


class Envelope(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What messages of one shape have in common; offsets are from the first octet of the size.

    "Properties" are the flags and what follows them, as ``decode_properties`` reads them.
    """

    exchange: str
    routing_key: str
    properties_start: int
    properties_stop: int
    flags: int
    options: int

    @property
    def body_start(self) -> int:
        """Where the body begins."""
        return self.properties_stop + 4

    @property
    def mandatory(self) -> bool:
        """Whether the message is to come back if it reaches no queue."""
        return bool(self.options & MANDATORY)

    @property
    def immediate(self) -> bool:
        """Whether it is to come back if it reaches no consumer at once."""
        return bool(self.options & IMMEDIATE)

    def properties(self, content: bytes) -> bytes:
        """Cut the properties out of a message of this shape."""
        return content[self.properties_start : self.properties_stop]

    def body(self, content: bytes) -> bytes:
        """Cut the body out of a message of this shape."""
        return content[self.body_start :]


def front_of(exchange: str, routing_key: str, properties: bytes, options: int, length: int) -> bytes:
    """Write what stands before a body of so many octets.

    Raises:
        LocalProtocolError: a name is too long.
    """
    head = b"%b%b%b%c" % (encode_short_string(exchange), encode_short_string(routing_key), properties, options)
    return b"%b%b%b" % (_SIZE.pack(len(head) + 3 + length), head, length.to_bytes(3, "big"))


class MessageReader:
    """Cuts a stream into runs of messages; owned by one engine.

    It holds the octets of an unfinished message, and never copies them more than twice.

    Args:
        max_size: octets of a message behind its size.
    """

    __slots__ = (
        "_contents",
        "_envelope",
        "_head",
        "_known",
        "_max_size",
        "_needed",
        "_pending",
        "_table",
        "begun",
        "runs",
    )

    def __init__(self, max_size: int) -> None:
        self.runs: list[tuple[Envelope, list[bytes]]] = []
        self.begun = 0  # how many messages were begun and not whole at the end of a chunk
        self._max_size = max_size
        self._pending = bytearray()
        self._needed = 0
        self._envelope: Envelope | None = None
        self._contents: list[bytes] = []
        self._head = b""  # of the last message: from the exchange's length to the options; found in order
        self._table = b""  # the header table that was found in order last
        self._known: dict[tuple[bytes, int, int], Envelope] = {}

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
        length_at = 4 + len(head)
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
                head = self._walk(data, position, stop)
                length_at, add = 4 + len(head), self._contents.append
            body = position + length_at + 3
            if body > stop or from_bytes(data[body - 3 : body], "big") != stop - body:
                raise _bad_body(data, body, stop)
            front, length = data[position:body], stop - position
            add(data[position:stop])
            position = stop
        if position < end:
            self._pending += memoryview(data)[position:]
            self.begun += 1

    def _bad_size(self, size: int) -> PeerError:
        if size < SHORTEST:
            return PeerError(502, f"a message of {size} octets; the shortest has {SHORTEST}")
        return PeerError(530, f"a message of {size} octets; at most {self._max_size} are allowed")

    def _walk(self, data: bytes, position: int, stop: int) -> bytes:
        """Find the end of a message's head, check it, and begin a run if its envelope is another one; give the head."""
        start = position + 4
        try:
            properties = start + 1 + data[start]
            properties += 1 + data[properties]
            flags = data[properties] << 8 | data[properties + 1]
            fields = self._fields_end(flags, data, properties + 2) if flags else properties + 2
            options = data[fields]
        except IndexError:
            fields = stop
        except RemoteProtocolError as error:
            raise PeerError(502, str(error)) from None
        if fields + 4 > stop:
            raise PeerError(502, "a message ends in the middle of its head")
        names = data[start : properties + 2]
        envelope = self._known.get((names, fields - properties, options)) or self._remember(
            names, fields - properties, flags, options
        )
        if envelope is not self._envelope:
            self._end_run()
            self._envelope = envelope
        self._head = data[start : fields + 1]
        return self._head

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

    def _remember(self, names: bytes, size: int, flags: int, options: int) -> Envelope:
        """Make the envelope of messages with these names and flags, so many octets of properties, and options."""
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        key_at = 1 + names[0]
        properties = 4 + len(names) - 2
        envelope = Envelope(
            names[1:key_at].decode("utf-8", "surrogateescape"),
            names[key_at + 1 : -2].decode("utf-8", "surrogateescape"),
            properties,
            properties + size,
            flags,
            options,
        )
        self._known[names, size, options] = envelope
        return envelope

    def _end_run(self) -> None:
        """End the run of the present envelope."""
        if self._contents:
            assert self._envelope is not None
            self.runs.append((self._envelope, self._contents))
            self._contents = []


def _bad_body(data: bytes, body: int, stop: int) -> PeerError:
    """Return the error of a body that would begin there."""
    if body > stop:
        return PeerError(502, "a message ends in the middle of its head")
    length = int.from_bytes(data[body - 3 : body], "big")
    return PeerError(502, f"a body of {length} octets in a message that has {stop - body} for it")
