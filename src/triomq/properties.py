"""Properties of a message in a form that no wire owns, and the bytes of that form.

The core has its own messages in it, and whoever stages records for a stream writes it: so it knows nothing of a broker.
It is MessagePack, which has no word for decimals, nor for a date and time without a zone; these are extensions of it.
"""

from datetime import datetime
from decimal import Decimal, InvalidOperation

import msgspec

CORE_CODEC = 0
"""The codec tag of properties in this form; written to disk and to chunks."""

EXPIRES_MARK, PRIORITY_MARK, PERSISTENT_MARK = 1 << 32, 1 << 33, 1 << 34
"""In the mark of a run of records of a stream, so that nobody has to decode properties to find it out."""

HeaderValue = object
"""A header's value: None, bool, int, float, str, bytes, Decimal, datetime, or a list or dict of these."""


class Properties(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a publisher states about a message, beside its body and its routing key.

    Args:
        content_type: MIME type of the body.
        content_encoding: MIME encoding of the body.
        headers: The application's own values by name.
        persistent: Whether the message should survive a restart, in a queue that does.
        priority: 0 (lowest) to 255.
        correlation_id: Names the request that this answers.
        reply_to: Where answers should go, usually a queue.
        expiration: Seconds after which the message expires; None for never.
        message_id: The application's own identifier.
        timestamp: When the application made it.
        type: The application's name for this kind of message.
        user_id: The user who claims to have published it.
        app_id: The application that published it.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, HeaderValue] | None = None
    persistent: bool = True
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: float | None = None
    message_id: str | None = None
    timestamp: datetime | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None


_DECIMAL = 1
_LOCAL_TIME = 2
"""Numbers of the extensions; written to disk, so never reused."""


def packable(value: object) -> object:
    """Return the same value with extensions for what MessagePack has no word for."""
    match value:
        case Decimal():
            return msgspec.msgpack.Ext(_DECIMAL, str(value).encode())
        case datetime(tzinfo=None):
            return msgspec.msgpack.Ext(_LOCAL_TIME, value.isoformat().encode())
        case dict():
            return {name: packable(item) for name, item in value.items()}
        case list() | tuple():
            return [packable(item) for item in value]
        case _:
            return value


def from_extension(code: int, data: memoryview) -> object:
    """Return the value that an extension stands for; msgspec's ``ext_hook``.

    Raises:
        ValueError: It stands for none.
    """
    text = bytes(data).decode()
    if code == _DECIMAL:
        try:
            return Decimal(text)
        except InvalidOperation:
            raise ValueError(f"{text!r} is no decimal") from None
    if code == _LOCAL_TIME:
        return datetime.fromisoformat(text)
    raise ValueError(f"extension {code} of MessagePack means nothing here; {_DECIMAL} and {_LOCAL_TIME} do")


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Properties, ext_hook=from_extension)
_NONE = Properties()


def encode_core(properties: Properties) -> bytes:
    """Encode properties in this form, nothing at all when there are none."""
    if properties == _NONE:
        return b""
    if properties.headers:
        properties = msgspec.structs.replace(properties, headers=packable(properties.headers))
    return _encoder.encode(properties)


def decode_core(encoded: bytes) -> Properties:
    """Decode what ``encode_core`` made."""
    return _decoder.decode(encoded) if encoded else _NONE
