"""Packing: arguments in MessagePack, such that they come back as they were."""

from msgspec.msgpack import Decoder, Encoder

from triomq.properties import from_extension, packable

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
