"""Packing: header values and arguments in MessagePack, such that they come back as they were.

MessagePack has no word for decimals, nor for a date and time without a zone; they are packed as extensions.
"""

from datetime import datetime
from decimal import Decimal

from msgspec.msgpack import Decoder, Encoder, Ext

_DECIMAL = 1
_LOCAL_TIME = 2
"""Numbers of the extensions; written to disk, so never reused."""


def packable(value: object) -> object:
    """Return the same value with extensions for what MessagePack has no word for."""
    match value:
        case Decimal():
            return Ext(_DECIMAL, str(value).encode())
        case datetime(tzinfo=None):
            return Ext(_LOCAL_TIME, value.isoformat().encode())
        case dict():
            return {name: packable(item) for name, item in value.items()}
        case list() | tuple():
            return [packable(item) for item in value]
        case _:
            return value


def from_extension(code: int, data: memoryview) -> object:
    """Return the value that an extension stands for; msgspec's ``ext_hook``."""
    text = bytes(data).decode()
    return Decimal(text) if code == _DECIMAL else datetime.fromisoformat(text)


_encoder = Encoder(order="deterministic")
_decoder = Decoder(dict[str, object], ext_hook=from_extension)


def pack_arguments(arguments: dict[str, object]) -> bytes:
    """Pack arguments; equal ones give equal bytes, whatever their order.

    Raises:
        OverflowError, TypeError, UnicodeEncodeError: A value cannot be packed.
    """
    return _encoder.encode(packable(arguments))


def unpack_arguments(packed: bytes) -> dict[str, object]:
    """Return what ``pack_arguments`` was given."""
    return _decoder.decode(packed)
