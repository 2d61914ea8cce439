"""Methods as octets: the payload of a method frame (AMQP 0-9-1 section 4.2.4), read and written by the table."""

import struct
from collections.abc import Callable, Iterable
from inspect import get_annotations
from typing import TypeAlias, get_args, get_origin

import msgspec

from triomq.errors import LocalProtocolError, RemoteProtocolError
from triomq.protocols.amqp.codes import PeerError, show_octets
from triomq.protocols.amqp.methods import METHODS, Method, Row
from triomq.protocols.fields import FieldValue, encode_short_string, encode_table, read_table

# A table in a method's arguments may nest so deep: no client needs more, and comparing or printing arguments recurses.
# Headers of messages are passed on as octets and nest as they like.
DEEPEST_ARGUMENTS = 64

# How many values there may be in it, those within others included: arguments are read, kept, compared and written,
# which takes 3 µs each.
MOST_ARGUMENTS = 2_048

_Value: TypeAlias = "bool | int | str | bytes | dict[str, FieldValue]"
_Reader: TypeAlias = Callable[[bytes, int], tuple[_Value, int]]

_NUMBERS = {
    "octet": struct.Struct(">B"),
    "short": struct.Struct(">H"),
    "long": struct.Struct(">I"),
    "longlong": struct.Struct(">Q"),
}
_INDEX = struct.Struct(">HH")
_ZEROES: dict[str, _Value] = {"bit": False, "shortstr": "", "longstr": b"", "table": {}}


class Field(msgspec.Struct, frozen=True):
    """One field of a method on the wire."""

    name: str
    domain: str
    reserved: bool


def _read_short_string(data: bytes, position: int) -> tuple[_Value, int]:
    start = position + 1
    stop = start + data[position]
    # Octets that are no UTF-8 stay as they are: names are compared and echoed, and must leave as they came in.
    return data[start:stop].decode("utf-8", "surrogateescape"), stop


def _read_long_string(data: bytes, position: int) -> tuple[_Value, int]:
    start = position + 4
    stop: int = start + _NUMBERS["long"].unpack_from(data, position)[0]
    return data[start:stop], stop


def _read_table(data: bytes, position: int) -> tuple[_Value, int]:
    return read_table(data, position, deepest=DEEPEST_ARGUMENTS, most=MOST_ARGUMENTS)


def _number_reader(form: struct.Struct) -> _Reader:
    def read(data: bytes, position: int) -> tuple[_Value, int]:
        value: int = form.unpack_from(data, position)[0]
        return value, position + form.size

    return read


_READERS: dict[str, _Reader] = {
    "shortstr": _read_short_string,
    "longstr": _read_long_string,
    "table": _read_table,
    **{domain: _number_reader(form) for domain, form in _NUMBERS.items()},
}


def _write(domain: str, value: _Value) -> bytes:
    if domain == "shortstr" and isinstance(value, str):
        return encode_short_string(value)
    if domain == "longstr" and isinstance(value, bytes):
        return _NUMBERS["long"].pack(len(value)) + value
    if domain == "table" and isinstance(value, dict):
        return encode_table(value)
    if domain in _NUMBERS and isinstance(value, int):
        try:
            return _NUMBERS[domain].pack(value)
        except struct.error:
            pass
    raise LocalProtocolError(f"{value!r} is no {domain}")


def _fields_of(method: type[Method]) -> tuple[Field, ...]:
    """Read a method's fields from its annotations, which stand in the order of the wire."""
    fields = []
    for name, annotation in get_annotations(method).items():
        reserved = str(get_origin(annotation)) == "typing.ClassVar"
        domain = (get_args(annotation)[0] if reserved else annotation).__metadata__[0]
        fields.append(Field(name, domain, reserved))
    return tuple(fields)


class MethodLayout:
    """How one method is read and written; made once from its row."""

    __slots__ = ("fields", "groups", "prefix", "row")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.fields = _fields_of(row.method)
        self.prefix = _INDEX.pack(row.class_id, row.method_id)
        # Bits that follow each other share octets, lowest bit first (section 4.2.5.2).
        groups: list[list[Field]] = []
        for field in self.fields:
            if field.domain == "bit" and groups and groups[-1][0].domain == "bit":
                groups[-1].append(field)
            else:
                groups.append([field])
        self.groups = tuple(tuple(group) for group in groups)

    def read(self, payload: bytes) -> Method:
        """Read the arguments behind the two numbers of a method frame's payload."""
        values: list[_Value] = []
        position = 4
        for group in self.groups:
            first = group[0]
            if first.domain == "bit":
                octet = payload[position]
                position += 1
                values += [bool(octet >> bit & 1) for bit, field in enumerate(group) if not field.reserved]
            else:
                value, position = _READERS[first.domain](payload, position)
                if not first.reserved:
                    values.append(value)
        if position != len(payload):
            raise IndexError
        return self.row.method(*values)

    def write(self, method: Method) -> bytes:
        """Write the payload of a method frame."""
        pieces = [self.prefix]
        for group in self.groups:
            if group[0].domain == "bit":
                octet = sum(bool(self._value(method, field)) << bit for bit, field in enumerate(group))
                pieces.append(bytes((octet,)))
            else:
                pieces.append(_write(group[0].domain, self._value(method, group[0])))
        return b"".join(pieces)

    @staticmethod
    def _value(method: Method, field: Field) -> _Value:
        if field.reserved:
            return _ZEROES.get(field.domain, 0)
        value: _Value = getattr(method, field.name)
        return value


class MethodTable:
    """All methods that an engine knows, found by their numbers and by their types."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.layouts = tuple(MethodLayout(row) for row in rows)
        self.by_type: dict[type[Method], MethodLayout] = {layout.row.method: layout for layout in self.layouts}
        self.by_index: dict[bytes, MethodLayout] = {layout.prefix: layout for layout in self.layouts}
        self.class_ids = frozenset(layout.row.class_id for layout in self.layouts)

    def find(self, payload: bytes) -> MethodLayout:
        """Find the layout of a method frame's payload.

        Raises:
            RemoteProtocolError: no such class or method.
        """
        layout = self.by_index.get(payload[:4])
        if layout is None:
            raise self._unknown(payload)
        return layout

    def _unknown(self, payload: bytes) -> PeerError:
        if len(payload) < 4:
            return PeerError(501, f"cannot decode {show_octets(payload)}")
        class_id, method_id = _INDEX.unpack_from(payload)
        # Section 1.2: 540 is for what the server does not implement; an extension class is tried and answered so.
        if class_id not in self.class_ids:
            return PeerError(540, f"unknown class {class_id}", class_id, method_id)
        return PeerError(540, f"unknown method {method_id} of class {class_id}", class_id, method_id)

    def decode(self, payload: bytes) -> Method:
        """Read the payload of a method frame.

        Raises:
            RemoteProtocolError: it is none.
        """
        layout = self.find(payload)
        row = layout.row
        try:
            return layout.read(payload)
        except (IndexError, struct.error):
            text = f"cannot decode {show_octets(payload[4:])}"
            raise PeerError(501, text, row.class_id, row.method_id) from None
        except RemoteProtocolError as error:
            raise PeerError(502, f"{error} in {row.name}", row.class_id, row.method_id) from None

    def encode(self, method: Method) -> bytes:
        """Write the payload of a method frame.

        Raises:
            LocalProtocolError: a value does not fit its field, or the table does not know this method.
        """
        layout = self.by_type.get(type(method))
        if layout is None:
            raise LocalProtocolError(f"{type(method).__name__} is in no row of this engine's method table")
        try:
            return layout.write(method)
        except LocalProtocolError as error:
            raise LocalProtocolError(f"{layout.row.name}: {error}") from None


AMQP_METHODS = MethodTable(METHODS)
