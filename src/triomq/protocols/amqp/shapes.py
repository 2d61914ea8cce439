"""Shapes of contents: how a content is known to be in order without a look at each of its properties.

A shape is learned from a content that was found in order the general way. It says which octets of the header frame and
of the body frame's opening are fixed (``protocols/layouts.py``), as a ``struct.Struct`` that skips all others:

    02 ch size class weight │ body size │ flags … length │ text │ length │ text │ CE 03 ch │ size │ body │ CE
    `------- fixed -------'     number    `--- fixed ---'  skip    fixed   skip   `-fixed-'  number

``unpack_from`` reads the fixed octets of another content in C, and one comparison of tuples checks them. Where
neighbours have one length and one method, ``iter_unpack`` goes over all of them, method frames included.

Rules:

- Nothing is taken that the general way would refuse: only values are skipped, and no value can be wrong.
- A shape is learned when a second content has the flags and the size of one before, and anew after ``PATIENCE``
  contents that had these and other fixed octets. So learning, which takes 10 to 30 µs, costs little where no two are
  alike.
- A connection remembers ``SHAPES`` shapes.

Measured for a message of 392 octets with content type, one header, message-id and timestamp, with the slice that
becomes the content, in µs: the general way 5; ``startswith`` and an index for each fixed part 0.33; ``unpack_from``
and comparison 0.33; a regular expression with a possessive loop over all messages 0.19, but 90 and more to compile it;
``iter_unpack`` 0.15. Strided slices, which look at one octet of all messages at a time, would be 130 of them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from triomq.errors import RemoteProtocolError
from triomq.protocols.amqp.content import Framing
from triomq.protocols.fields import check_table
from triomq.protocols.layouts import Layout, layout_of
from triomq.protocols.properties import plan_of

if TYPE_CHECKING:
    from triomq.protocols.amqp.kinds import PublishKind

SHAPES = 64
"""Shapes that a connection remembers; a publisher has a few. Each takes as much as its properties, and half a KiB."""

PATIENCE = 64
"""Contents of a shape's flags and size that are not like it, before another shape is learned in its place."""

# From the beginning of a header frame: where its property flags stand; and what stands between them and the body.
_FLAGS_AT = 19
_FRAME_END_AND_OPENING = 8


class Shape:
    """What contents of one framing have in common where only values of properties, and bodies, differ.

    Args:
        framing: Of the contents, which have bodies.
        layout: Of their properties.
        data: Octets with one of them, which is in order.
        start: Where its header frame begins.
    """

    __slots__ = (
        "_first",
        "_middle",
        "_strides",
        "_strides_of",
        "expected",
        "framing",
        "kinds",
        "layout",
        "least",
        "length",
        "read",
    )

    def __init__(self, framing: Framing, layout: Layout, data: bytes, start: int) -> None:
        self.framing = framing
        self.layout = layout
        form = struct.Struct(f">11sQ{_skipping(layout.parts, 0, 4)}I")
        self.read = form.unpack_from
        """Reads the fixed octets and both sizes of a content, whose header frame begins at an offset."""
        self.least = form.size
        """How many octets that takes, which are all but the body and its frame's end."""
        self.expected: tuple[Any, ...] = self.read(data, start)
        """What was read of the last one."""
        self.length = self.least + self.expected[1] + 1
        """How many octets the last one had."""
        self._first, self._middle = self.expected[0], self.expected[2:-1]
        self.kinds: dict[bytes, PublishKind] = {}
        """Those that it came in, by the octets of their method frames; the reader looks into it itself."""
        self._strides = struct.Struct(""), struct.Struct("")
        self._strides_of: tuple[tuple[int, ...], int] = (), -1

    def accept(self, found: tuple[Any, ...], body_max: int) -> bool:
        """Return whether a content that ``read`` has found is like the last one but for the size of its body."""
        size: int = found[1]
        if found[2:-1] != self._middle or size != found[-1] or not 0 < size <= body_max or found[0] != self._first:
            return False
        self.expected = found
        self.length = self.least + size + 1
        return True

    def strides(self, opening: tuple[int, ...]) -> tuple[struct.Struct, struct.Struct]:
        """Return what reads neighbours that are as long as the last content: their fixed octets, and their contents.

        Args:
            opening: The octets of their method frames, how many are fixed, free and fixed again.
        """
        size = self.expected[1]
        if self._strides_of != (opening, size):
            *before, last = opening
            parts = (*before, last + _FLAGS_AT + self.layout.parts[0], *self.layout.parts[1:])
            form = f">{_skipping(parts, 0, _FRAME_END_AND_OPENING)}{size}x1s"
            self._strides = struct.Struct(form), struct.Struct(f">{sum(opening)}x{self.length}s")
            self._strides_of = opening, size
        return self._strides

    def read_alike(self, data: bytes, position: int, opening: tuple[int, ...], contents: list[bytes]) -> int:
        """Read what is like the content before ``position``, and as long; return how many there are.

        Args:
            data: Octets in which that content, with its method frame, is the last before ``position``.
            position: Where the next method frame begins.
            opening: As for ``strides``.
            contents: Where to add them to.
        """
        # One loop in C reads the octets that are fixed in all of them, another one cuts the contents.
        whole, cut = self.strides(opening)
        length = whole.size
        like = whole.unpack_from(data, position - length)
        rest = memoryview(data)[position : position + (len(data) - position) // length * length]
        count = 0
        for found in whole.iter_unpack(rest):
            if found != like:
                break
            count += 1
        contents += [content for (content,) in cut.iter_unpack(rest[: count * length])]
        return count


def _skipping(parts: tuple[int, ...], before: int, behind: int) -> str:
    """Write parts of a layout as ``struct`` has them, with more octets that are fixed at both ends."""
    lengths = list(parts)
    lengths[0] += before
    lengths[-1] += behind
    return "".join([f"{length}{'sx'[place % 2]}" for place, length in enumerate(lengths)])


class ShapeTable:
    """The shapes of one connection."""

    __slots__ = ("_known", "_patience", "_table")

    def __init__(self) -> None:
        # By channel, property flags and octets of the header frame.
        self._known: dict[tuple[int, int, int], Shape] = {}
        self._patience: dict[tuple[int, int, int], int] = {}
        # The header table that was found in order last: publishers repeat it while other properties change.
        self._table = b""

    def forget_kinds(self) -> None:
        """Forget the kinds of all shapes."""
        for shape in self._known.values():
            shape.kinds.clear()

    def find(self, key: tuple[int, int, int], data: bytes, start: int, body_max: int) -> Shape | None:
        """Return the shape of a whole content that begins at ``start``, if it is known."""
        shape = self._known.get(key)
        return shape if shape is not None and shape.accept(shape.read(data, start), body_max) else None

    def learn(self, key: tuple[int, int, int], framing: Framing, data: bytes, start: int) -> Shape | None:
        """Learn from a whole content that is in order, and of no known shape; None if it is not time to."""
        patience = self._patience.get(key, 1)
        if patience:
            if len(self._patience) >= SHAPES and key not in self._patience:
                self._known.clear()
                self._patience.clear()
            self._patience[key] = patience - 1
            return None
        self._patience[key] = PATIENCE
        layout = layout_of(data[start + framing.properties_start : start + framing.properties_stop])
        if layout is None:
            return None
        shape = self._known[key] = Shape(framing, layout, data, start)
        return shape

    def fills(self, flags: int, data: bytes, position: int, stop: int) -> bool:
        """Return whether the property fields that ``flags`` announces take exactly the octets from position to stop."""
        try:
            for width in plan_of(flags):
                if width >= 0:
                    position += width or 1 + data[position]
                else:
                    position = self._table_end(data, position)
        except (IndexError, RemoteProtocolError):
            return False
        return position == stop

    def _table_end(self, data: bytes, position: int) -> int:
        """Find the end of a header table, checking its fields unless they are those of the last one."""
        table = data[position : position + 4 + int.from_bytes(data[position : position + 4], "big")]
        if table != self._table:
            check_table(table, 0)
            self._table = table
        return position + len(table)
