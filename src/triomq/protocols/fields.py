"""Field tables and arrays of AMQP 0-9-1 (section 4.2.5.5), read and written.

A type octet stands before each value. The specification's list and what brokers and clients really send differ; where
they do, what is really sent wins, as RabbitMQ documents it: ``s`` is a signed 16 bit integer (not a short string) and
``l`` a signed 64 bit one.

======  ===========================  ==========================  =========================
octet   on the wire                  read as                     written for
======  ===========================  ==========================  =========================
``t``   boolean                      ``bool``                    ``bool``
``b``   signed 8 bits                ``int``
``B``   unsigned 8 bits              ``int``
``s``   signed 16 bits               ``int``
``U``   signed 16 bits               ``int``
``u``   unsigned 16 bits             ``int``
``I``   signed 32 bits               ``int``                     ``int`` that fits
``i``   unsigned 32 bits             ``int``
``l``   signed 64 bits               ``int``                     ``int`` that fits only here
``L``   signed 64 bits               ``int``
``f``   32 bit float                 ``float``
``d``   64 bit float                 ``float``                   ``float``
``D``   decimal                      ``decimal.Decimal``         ``decimal.Decimal``
``S``   long string                  ``str``, or ``bytes``       ``str``
                                     where it is not UTF-8
``A``   array                        ``list``                    ``list``
``T``   seconds since 1970           ``Timestamp``               ``Timestamp``
``F``   table                        ``dict``                    ``dict``
``V``   nothing                      ``None``                    ``None``
``x``   octets                       ``bytes``                   ``bytes``
======  ===========================  ==========================  =========================

``Typed("B", 7)`` is written as the type it names. Reading with ``typed=True`` gives a ``Typed`` wherever the plain
value would be written as another type, so that reading and writing again changes nothing.

Rules:

- Nothing here recurses, neither reading nor writing. 128 KiB of a peer's octets nest 20,000 tables, and a recursive
  reader would end in ``RecursionError`` far before that. A list of the containers that are open takes its place. Where
  deep nesting has no use, in the arguments of methods, the caller sets a limit.
- 128 KiB have room for 130,000 values, which take a twentieth of a second. So a broker sets a limit for these as well.
- Octets of a peer are a table or raise ``RemoteProtocolError``; a table takes exactly the octets that its length has.
  A value of our own that cannot be written raises ``LocalProtocolError``.
- Names need not be UTF-8: they are decoded with ``surrogateescape``, and leave as they came. String values that are not
  UTF-8 become ``bytes``, since they are for programs, which would fail over surrogates.
- The broker decodes few tables: headers of messages are checked (``check_table``) and passed on as octets.
"""

import re
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TypeAlias

import msgspec

from triomq.errors import LocalProtocolError, RemoteProtocolError


class Timestamp(msgspec.Struct, frozen=True, gc=False):
    """A point in time as AMQP sends it: whole seconds since 1970, 64 bits without sign."""

    seconds: int


class Typed(msgspec.Struct, frozen=True):
    """A value that is to be written as the type whose octet is ``code``, such as ``Typed("B", 7)``."""

    code: str
    value: "FieldValue"


FieldValue: TypeAlias = (
    bool | int | float | str | bytes | Decimal | Timestamp | Typed | list["FieldValue"] | dict[str, "FieldValue"] | None
)
Table: TypeAlias = dict[str, FieldValue]

_TABLE, _ARRAY = ord("F"), ord("A")
_LONG = struct.Struct(">I")
_DECIMAL = struct.Struct(">Bi")

# The types whose values have one size, as struct calls them.
_FIXED = {
    ord(code): struct.Struct(form)
    for code, form in {
        "t": ">?",
        "b": ">b",
        "B": ">B",
        "s": ">h",
        "U": ">h",
        "u": ">H",
        "I": ">i",
        "i": ">I",
        "l": ">q",
        "L": ">q",
        "f": ">f",
        "d": ">d",
    }.items()
}


# Reading


def _read_string(data: bytes, position: int) -> tuple[FieldValue, int]:
    octets, position = _read_octets(data, position)
    try:
        return octets.decode(), position
    except UnicodeDecodeError:
        return octets, position


def _read_octets(data: bytes, position: int) -> tuple[bytes, int]:
    start = position + 4
    stop = start + _LONG.unpack_from(data, position)[0]
    return data[start:stop], stop


def _read_decimal(data: bytes, position: int) -> tuple[FieldValue, int]:
    scale, unscaled = _DECIMAL.unpack_from(data, position)
    # scaleb would round to the context's precision; the tuple is exact.
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale)), position + 5


def _read_timestamp(data: bytes, position: int) -> tuple[FieldValue, int]:
    return Timestamp(int.from_bytes(data[position : position + 8], "big")), position + 8


def _read_nothing(data: bytes, position: int) -> tuple[FieldValue, int]:
    return None, position


VALUE_SIZES = {code: form.size for code, form in _FIXED.items()} | {ord("D"): 5, ord("T"): 8, ord("V"): 0}
"""How many octets a value takes by its type octet, where that does not depend on the value."""


_READERS: dict[int, Callable[[bytes, int], tuple[FieldValue, int]]] = {
    ord("S"): _read_string,
    ord("x"): _read_octets,
    ord("D"): _read_decimal,
    ord("T"): _read_timestamp,
    ord("V"): _read_nothing,
}


def _read_value(code: int, data: bytes, position: int) -> tuple[FieldValue, int]:
    """Read a value that is neither table nor array."""
    form = _FIXED.get(code)
    if form is not None:
        value: FieldValue = form.unpack_from(data, position)[0]
        return value, position + form.size
    reader = _READERS.get(code)
    if reader is None:
        raise RemoteProtocolError(f"unknown field type {chr(code)!r}; known are tbBsUuIilLfdDSATFVx")
    return reader(data, position)


MOST_VALUES = 4_096
"""Values that a broker looks into in a message's headers, 1 to 5 ms for as many. 128 KiB have room for 130,000."""


_NOTHING = ord("V")


class TooManyFields(RemoteProtocolError):
    """A table has more values than its reader takes."""


def read_table(
    data: bytes, position: int = 0, *, typed: bool = False, deepest: int | None = None, most: int = 0, cut: bool = False
) -> tuple[dict[str, FieldValue], int]:
    """Read the table that begins with its length at ``position``; give it and the position behind it.

    Args:
        data: octets that hold the table, and perhaps more.
        position: where the table's four octets of length stand.
        typed: give ``Typed`` values where plain ones would be written as another type.
        deepest: how many levels may nest inside one another; ``None`` for as many as there are.
        most: how many values there may be, those inside of others included; 0 for as many as there are. What is behind
            them is not looked at.
        cut: give the first so many, and do not raise; what is behind them has to be in order.

    Raises:
        TooManyFields: there are more.
        RemoteProtocolError: the octets are no table.
    """
    try:
        return _read_table(data, position, typed, deepest, most or -1, cut)
    except (struct.error, IndexError):
        raise RemoteProtocolError("a table ends in the middle of a field") from None


def _read_table(
    data: bytes, position: int, typed: bool, deepest: int | None, room: int, cut: bool
) -> tuple[dict[str, FieldValue], int]:
    root: dict[str, FieldValue] = {}
    position, stop = _enter(data, position, len(data))
    end = stop
    container: dict[str, FieldValue] | list[FieldValue] = root
    outer: list[tuple[dict[str, FieldValue] | list[FieldValue], int]] = []
    while True:
        while position == stop:
            if not outer:
                return root, stop
            container, stop = outer.pop()
        room -= 1
        if room == -1:
            if cut:
                return root, end
            raise TooManyFields(_TOO_MANY)
        key = ""
        if type(container) is dict:
            start = position + 1
            position = start + data[position]
            key = data[start:position].decode("utf-8", "surrogateescape")
        code = data[position]
        value: FieldValue
        if code in (_TABLE, _ARRAY):
            inner: dict[str, FieldValue] | list[FieldValue] = {} if code == _TABLE else []
            _put(container, key, inner)
            outer.append((container, stop))
            if deepest is not None and len(outer) > deepest:
                raise RemoteProtocolError(f"a table nests deeper than {deepest} levels")
            container = inner
            position, stop = _enter(data, position + 1, stop)
            continue
        if code == _NOTHING:  # the shortest of all, so there may be most of them
            _put(container, key, None)
            position += 1
            continue
        value, position = _read_value(code, data, position + 1)
        if position > stop:
            raise RemoteProtocolError("a field is longer than the table that holds it")
        if typed and _natural_code(value) != code:
            value = Typed(chr(code), value)
        _put(container, key, value)


def _enter(data: bytes, position: int, limit: int) -> tuple[int, int]:
    """Read the length of a table or array: where its fields start and stop."""
    start = position + 4
    stop: int = start + _LONG.unpack_from(data, position)[0]
    if stop > limit:
        raise RemoteProtocolError("a table is longer than what holds it")
    return start, stop


def _put(container: dict[str, FieldValue] | list[FieldValue], key: str, value: FieldValue) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.append(value)


def decode_table(data: bytes, *, typed: bool = False) -> dict[str, FieldValue]:
    """Read a whole table, its four octets of length included; see ``read_table``."""
    table, stop = read_table(data, typed=typed)
    if stop != len(data):
        raise RemoteProtocolError(f"{len(data) - stop} octets stand behind the end of a table")
    return table


def check_table(data: bytes, position: int, most: int = 0) -> int:
    """Return where the table at ``position`` ends, once every octet of it was found to be in order.

    It finds what ``read_table`` would, without making any value of it: in a third of the time, and neighbours in an
    array in a tenth.

    Args:
        data: octets that hold the table, and perhaps more.
        position: where the table's four octets of length stand.
        most: as for ``read_table``.

    Raises:
        TooManyFields: there are more values.
        RemoteProtocolError: the octets are no table.
    """
    try:
        return _check_table(data, position, most or len(data))
    except (struct.error, IndexError):
        raise RemoteProtocolError("a table ends in the middle of a field") from None


def _check_table(data: bytes, position: int, room: int) -> int:
    in_table = True
    position, stop = _enter(data, position, len(data))
    outer: list[tuple[bool, int]] = []
    while True:
        while position == stop:
            if not outer:
                return stop
            in_table, stop = outer.pop()
        if in_table:
            position += 1 + data[position]
        elif data[position] in VALUE_SIZES:
            run = _RUN.match(data, position, stop)
            if run is None:
                raise RemoteProtocolError("a field is longer than the table that holds it")
            room -= len(_ONE.findall(data, position, run.end()))
            if room < 0:
                raise TooManyFields(_TOO_MANY)
            position = run.end()
            continue
        room -= 1
        if room < 0:
            raise TooManyFields(_TOO_MANY)
        code = data[position]
        size = VALUE_SIZES.get(code)
        if size is not None:
            position += 1 + size
        elif code in _INSIDE:
            outer.append((in_table, stop))
            in_table = code == _TABLE
            position, stop = _enter(data, position + 1, stop)
            continue
        elif code in _STRINGS:
            position += 5 + _LONG.unpack_from(data, position + 1)[0]
        else:
            raise RemoteProtocolError(f"unknown field type {chr(code)!r}; known are tbBsUuIilLfdDSATFVx")
        if position > stop:
            raise RemoteProtocolError("a field is longer than the table that holds it")


_TOO_MANY = "a table has more values than its reader takes"
_INSIDE = frozenset((_TABLE, _ARRAY))
_STRINGS = frozenset((ord("S"), ord("x")))

_ONE = re.compile(
    b"|".join(re.escape(bytes((code,))) + b".{%d}" % size for code, size in VALUE_SIZES.items()), re.DOTALL
)
_RUN = re.compile(b"(?:" + _ONE.pattern + b"){1,65536}+", re.DOTALL)
"""Values of an array whose sizes their types tell."""


# Writing


def _natural_code(value: FieldValue) -> int:
    """Choose the type octet for a value that does not name one."""
    kind = type(value)
    if kind is int:
        return ord("I") if -0x80000000 <= value <= 0x7FFFFFFF else ord("l")  # type: ignore[operator]  # an int
    code = _NATURAL.get(kind)
    if code is None:
        raise LocalProtocolError(f"a table cannot hold {value!r}; it holds {', '.join(k.__name__ for k in _NATURAL)}")
    return code


_NATURAL: dict[type, int] = {
    bool: ord("t"),
    int: ord("I"),
    float: ord("d"),
    Decimal: ord("D"),
    str: ord("S"),
    bytes: ord("x"),
    Timestamp: ord("T"),
    type(None): ord("V"),
    list: _ARRAY,
    dict: _TABLE,
}


def _octets(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{text[:40]!r} cannot be written in UTF-8: {error.reason}") from None


def _write_string(value: FieldValue) -> bytes:
    octets = _octets(value) if isinstance(value, str) else value
    if not isinstance(octets, bytes):
        raise LocalProtocolError(f"a string field needs str or bytes, not {value!r}")
    return _LONG.pack(len(octets)) + octets


def _write_decimal(value: FieldValue) -> bytes:
    if not isinstance(value, Decimal) or not value.is_finite():
        raise LocalProtocolError(f"a decimal field needs a finite Decimal, not {value!r}")
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 9:
        raise LocalProtocolError(f"{value!r} does not fit a decimal field of 32 bits")
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    return _DECIMAL.pack(max(-exponent, 0), -unscaled if sign else unscaled)


def _write_timestamp(value: FieldValue) -> bytes:
    if not isinstance(value, Timestamp):
        raise LocalProtocolError(f"a timestamp field needs a Timestamp, not {value!r}")
    return struct.pack(">Q", value.seconds)


def _write_nothing(value: FieldValue) -> bytes:
    return b""


_WRITERS: dict[int, Callable[[FieldValue], bytes]] = {
    ord("S"): _write_string,
    ord("x"): _write_string,
    ord("D"): _write_decimal,
    ord("T"): _write_timestamp,
    ord("V"): _write_nothing,
}


def _write_value(code: int, value: FieldValue) -> bytes:
    form = _FIXED.get(code)
    try:
        if form is not None:
            return form.pack(value)
        if code in _WRITERS:
            return _WRITERS[code](value)
    except (struct.error, OverflowError) as error:
        raise LocalProtocolError(f"{value!r} does not fit field type {chr(code)!r}: {error}") from None
    raise LocalProtocolError(f"{chr(code)!r} is no field type that can be forced on {value!r}")


def encode_short_string(text: str) -> bytes:
    """Write a length octet and the text in UTF-8; octets that were no UTF-8 when read come out as they were."""
    octets = _octets(text)
    if len(octets) > 255:
        raise LocalProtocolError(f"a short string holds 255 octets, {len(octets)} were given: {text[:40]!r}…")
    return bytes((len(octets),)) + octets


_Entries: TypeAlias = Iterator[tuple[str | None, FieldValue]]


def _entries(value: "dict[str, FieldValue] | list[FieldValue]") -> _Entries:
    if isinstance(value, dict):
        return iter(value.items())
    return ((None, element) for element in value)


def encode_table(table: Table) -> bytes:
    """Write a table, its four octets of length first.

    Raises:
        LocalProtocolError: a value has no field type, or does not fit the one that it was forced into.
    """
    out = bytearray(4)
    open_tables: list[tuple[int, _Entries]] = [(0, _entries(table))]
    while open_tables:
        start, entries = open_tables[-1]
        for key, value in entries:
            if key is not None:
                out += encode_short_string(key)
            code, value = (ord(value.code), value.value) if isinstance(value, Typed) else (_natural_code(value), value)
            out.append(code)
            if isinstance(value, dict | list) and code == _natural_code(value):
                open_tables.append((len(out), _entries(value)))
                out += b"\0\0\0\0"
                break
            out += _write_value(code, value)
        else:
            _LONG.pack_into(out, start, len(out) - start - 4)
            open_tables.pop()
    return bytes(out)
