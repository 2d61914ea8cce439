"""Shapes of messages that were read: what stands between sequence number and body, checked and decoded once.

    00 0001 05 queue 0006 a:N10; 02 hi
            =====================        the front, by which a shape is found

What extensions say about a message becomes properties of it, so that it is the same message wherever it goes:
``json`` its ``content-type``, ``dotnet`` its ``type``. Both are text; no type is ever loaded. A property that the
sender wrote itself wins. Such a shape has other octets than the front, and each of its contents begins with these.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.events import MicroMessageShape
from triomq.protocols.micromsg.properties import LONGEST_PROPERTIES, PropertyValue, encode_properties, read_properties

REMEMBERED: Final = 512
"""Shapes that are remembered: publishers use a few; those that do not only pay for a new one."""

LONGEST_REMEMBERED: Final = 512
"""Octets of a front that is remembered, so that all of them take less than a MiB; longer ones are new each time."""

_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")


class ReadShape(NamedTuple):
    """A shape, and what the reader needs to know of it.

    Args:
        shape: what the owner sees.
        front: octets between the sequence number and the length of the body, as they are on the wire.
        skip: where a content begins in a frame.
        replaced: what a content begins with instead of its properties; empty if it stays as it came.
    """

    shape: MicroMessageShape
    front: bytes
    skip: int
    replaced: bytes


class ShapeTable:
    """The shapes of one connection; owned by its reader.

    Args:
        implied: properties that messages have by extensions.
        is_typed: whether values have their types before them.
    """

    __slots__ = ("_implied", "_is_typed", "_known", "_remembered", "_tables", "small")

    def __init__(self, implied: Mapping[str, str], *, is_typed: bool) -> None:
        self._implied: dict[str, PropertyValue] = dict(implied)
        self._is_typed = is_typed
        self._tables: dict[str, tuple[dict[bytes, ReadShape], dict[bytes, ReadShape]]] = {}  # by type
        self._remembered = 0
        self._go_on_with("")

    def _go_on_with(self, name: str) -> None:
        """Use the tables of a type, which may be new."""
        if name not in self._tables:
            self._remembered += 1
            self._tables[name] = {}, {}
        self._known = self._tables[name]
        self.small: dict[bytes, ReadShape] = self._known[0]
        """The shapes of messages whose bodies have a length of one octet, by their fronts."""

    def set_type(self, name: str) -> None:
        """Go on with messages of a type, as ``dotnet`` says it; an empty name is none."""
        self._implied.pop("type", None)
        if name:
            self._implied["type"] = name
        if self._remembered >= REMEMBERED:
            self._forget()
        self._go_on_with(name)

    def _forget(self) -> None:
        self._tables.clear()
        self._remembered = 0

    def find(self, front: bytes, *, is_large: bool) -> ReadShape:
        """Return the shape of a message.

        Args:
            front: octets between its sequence number and the length of its body.
            is_large: whether that length has four octets.

        Raises:
            PeerError: the destination or the properties are not in order.
        """
        found = self._known[is_large].get(front)
        if found is None:
            found = self._make(front, is_large)
            if len(front) <= LONGEST_REMEMBERED:
                if self._remembered >= REMEMBERED:
                    self._forget()
                    self._go_on_with(str(self._implied.get("type", "")))
                self._remembered += 1
                self._known[is_large][front] = found
        return found

    def _make(self, front: bytes, is_large: bool) -> ReadShape:
        stop = 1 + front[0]
        destination, octets = _destination(front[1:stop]), front[stop + 2 :]
        values = read_properties(octets, is_typed=self._is_typed)
        added = {name: value for name, value in self._implied.items() if name not in values}
        replaced = b""
        if added or (values and not self._is_typed):
            values |= added
            octets = self._rewritten(front[stop + 2 :], added, values)
            replaced = len(octets).to_bytes(2, "big") + octets
        properties_stop = 2 + len(octets)
        shape = MicroMessageShape(
            destination, octets, values, properties_stop, properties_stop + (4 if is_large else 1)
        )
        return ReadShape(shape, front, 3 + stop, replaced)

    def _rewritten(
        self, octets: bytes, added: Mapping[str, PropertyValue], values: Mapping[str, PropertyValue]
    ) -> bytes:
        """Return properties with those that extensions add; the sender's own stay as they are if they have types."""
        if not self._is_typed:
            octets = encode_properties(values)
        else:
            separator = b";" if octets.strip(b" ") and not octets.rstrip(b" ").endswith(b";") else b""
            octets += separator + encode_properties(added)
        if len(octets) > LONGEST_PROPERTIES:
            raise PeerError(
                413, f"properties of {len(octets)} octets with those of extensions; {LONGEST_PROPERTIES} fit"
            )
        return octets


def _destination(octets: bytes) -> str:
    try:
        destination = octets.decode()
    except UnicodeDecodeError:
        raise PeerError(400, f"destination {octets[:40]!r} is not UTF-8") from None
    if _CONTROL.search(destination):
        raise PeerError(400, f"destination {destination[:40]!r} has a control character")
    return destination
