"""What of a message's properties a peer gets to see, and how.

A peer with ``json`` or ``dotnet`` is told by these extensions what others read in ``content-type`` and ``type``.
SharpMessaging gets one property without a type, or none. All others get the octets as they are, and nothing here is
called.
"""

from typing import Final, NamedTuple

from triomq.protocols.micromsg.properties import decode_properties, encode_properties, untyped_properties
from triomq.protocols.micromsg.settings import LONGEST_TYPE
from triomq.protocols.micromsg.shapes import LONGEST_REMEMBERED, REMEMBERED

JSON_TYPE: Final = "application/json"

_SHARPMESSAGING_TYPE: Final = 255
"""Octets of a type that it can read: it knows no LARGE frames of extensions."""


class Outgoing(NamedTuple):
    """Properties for one peer.

    Args:
        octets: with their length.
        type_name: what is said by ``dotnet``.
    """

    octets: bytes
    type_name: bytes


class PropertyTranslator:
    """Owned by one engine whose peer does not get properties as they are.

    Args:
        has_json: whether ``json`` was agreed.
        has_dotnet: whether ``dotnet`` was.
        is_typed: whether values go with their types.
    """

    __slots__ = ("_has_dotnet", "_has_json", "_is_typed", "_known")

    def __init__(self, *, has_json: bool, has_dotnet: bool, is_typed: bool) -> None:
        self._has_json = has_json
        self._has_dotnet = has_dotnet
        self._is_typed = is_typed
        self._known: dict[bytes, Outgoing] = {}

    def translate(self, octets: bytes) -> Outgoing:
        """Return what a peer gets for properties, which are without their length."""
        found = self._known.get(octets)
        if found is None:
            found = self._translate(octets)
            if len(octets) <= LONGEST_REMEMBERED:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[octets] = found
        return found

    def _translate(self, octets: bytes) -> Outgoing:
        values, type_name, changed = decode_properties(octets), b"", False
        if self._has_json and values.get("content-type") == JSON_TYPE:
            del values["content-type"]
            changed = True
        found = values.get("type")
        longest = LONGEST_TYPE if self._is_typed else _SHARPMESSAGING_TYPE
        if self._has_dotnet and isinstance(found, str) and len(found.encode("utf-8", "replace")) <= longest:
            type_name = found.encode("utf-8", "replace")
            del values["type"]
            changed = True
        if changed:
            octets = encode_properties(values)
        if not self._is_typed:
            octets = untyped_properties(octets)
        return Outgoing(len(octets).to_bytes(2, "big") + octets, type_name)
