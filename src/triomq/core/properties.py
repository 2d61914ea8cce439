"""Properties in a form that no wire owns, and the table that leads to it from every wire's own form.

Properties travel encoded as they came. They are decoded only when a headers sink, a predicate or a consumer behind
another endpoint asks.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from triomq.core.message import CORE_CODEC, Message
from triomq.core.packing import from_extension, packable

__all__ = ["Codecs", "HeaderValue", "Properties", "decode_core", "encode_core"]

HeaderValue = object
"""A header's value: None, bool, int, float, str, bytes, Decimal, datetime, or a list or dict of these."""


class Properties(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a publisher says about a message, beside its body and its routing key.

    Args:
        content_type: MIME type of the body.
        content_encoding: MIME encoding of the body.
        headers: The application's own values by name.
        persistent: Whether the message should survive a restart, in a queue that does.
        priority: 0 (lowest) to 255.
        correlation_id: Names the request that this answers.
        reply_to: Where answers should go, usually a queue.
        expiration: Seconds after which the message is worthless; None keeps it for ever.
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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Properties, ext_hook=from_extension)
_NONE = Properties()


def encode_core(properties: Properties) -> bytes:
    """Encode properties in the core's own form (MessagePack), nothing at all when there are none."""
    if properties == _NONE:
        return b""
    if properties.headers:
        properties = msgspec.structs.replace(properties, headers=packable(properties.headers))
    return _encoder.encode(properties)


def decode_core(encoded: bytes) -> Properties:
    """Decode what ``encode_core`` made."""
    return _decoder.decode(encoded) if encoded else _NONE


class Codecs:
    """The table from a head's codec tag to the function that decodes its properties.

    Created by whoever opens a broker, who registers one decoder for each wire; handed to domains; never changed later.
    """

    def __init__(self) -> None:
        """Start with the core's own form alone."""
        self._decoders: dict[int, Callable[[bytes], Properties]] = {CORE_CODEC: decode_core}

    def register(self, codec: int, decode: Callable[[bytes], Properties]) -> None:
        """Add a wire's decoder under its tag.

        Raises:
            ValueError: The tag is taken; tags are written to disk and never reused.
        """
        if codec in self._decoders:
            raise ValueError(f"codec tag {codec} is taken already; give each properties format a tag of its own")
        self._decoders[codec] = decode

    def decode(self, message: Message) -> Properties:
        """Decode a message's properties, whichever wire it came from."""
        return self._decoders[message.head.codec](message.properties)
