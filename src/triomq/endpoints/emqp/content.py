"""What the broker knows of a REQUEST beside its payload: where it came from, and how it is to be done.

    content = properties (this file, MessagePack) + payload, as it came

All that is needed to answer the requester stands in the message itself, so that it is there after a restart as well. A
consumer behind another endpoint sees the core's properties, and a message that came over another wire becomes a REQUEST
(``as_request``); docs/topics/emqp.rst has what is lost in both directions.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from triomq.core import HeaderValue, Properties, pack_arguments, unpack_arguments
from triomq.errors import ProtocolError
from triomq.protocols.emqp import NO_EXTENSION, Headers, decode_extension, encode_extension, make_headers, parse_headers

EMQP_CODEC: Final = 2
"""The codec tag of properties as this file writes them."""

TOPICS: Final = "emqp.topic"
"""The sink of what is published, by its topic."""

JSON: Final = "application/json"

_ORIGINS: Final = 1024
"""Origins of one endpoint that are remembered: a few for each client that sends many jobs."""


class RequestProperties(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The properties of a REQUEST or a PUBLISH.

    Args:
        msgid: Its id, which only its requester makes sure to be unique.
        headers: As they stood in their frame.
        identity: Whom to answer; empty if nobody waits for it.
        user: As whom the requester was let in, so that no other one gets the answer.
        extension: Its extension frame, empty if there was none.
        added: Headers that the broker has set, such as x-death; packed, empty if there are none.
    """

    msgid: bytes
    headers: bytes = b""
    identity: bytes = b""
    user: str = ""
    extension: bytes = b""
    added: bytes = b""


encode_request: Final = msgspec.msgpack.Encoder().encode
"""Encode the properties."""

decode_request: Final = msgspec.msgpack.Decoder(RequestProperties).decode
"""Decode the properties."""


PREFIXES: Final = [b"\x96\xc4%c" % size for size in range(256)]
"""What stands before the id, by its length: MessagePack's marks of an array of six, and of bytes."""


def split_request(encoded: bytes) -> tuple[bytes, bytes]:
    """Return the id in encoded properties, and what follows it: that is the same for all jobs of a requester that want
    the same.
    """
    behind = 3 + encoded[2]
    return encoded[3:behind], encoded[behind:]


class Origin:
    """Where jobs came from, and how they are to be done; the same object for all that agree in that.

    Args:
        found: The properties of one of them; their id does not matter.
    """

    __slots__ = ("_frames", "extension", "headers", "identity", "replying", "user")

    def __init__(self, found: RequestProperties) -> None:
        self.headers = parse_headers(found.headers)
        self.replying = self.headers.replying().frame
        """The headers as a worker gets them."""
        self.identity = found.identity
        self.user = found.user
        self.extension = decode_extension(found.extension) if found.extension else NO_EXTENSION
        self._frames: dict[int, bytes] = {}

    def extension_frame(self, attempt: int) -> bytes:
        """Return the extension frame for a worker, which is to know which attempt it makes."""
        return self._frames.get(attempt) or self._add(attempt)

    def _add(self, attempt: int) -> bytes:
        frame = self._frames[attempt] = encode_extension(msgspec.structs.replace(self.extension, attempt=attempt))
        return frame


class RequestOrigins:
    """The origins of an endpoint's jobs; made by it, for all its workers."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[bytes, Origin] = {}

    def find(self, suffix: bytes) -> Origin:
        """Return the origin that stands behind an id (``split_request``)."""
        return self._found.get(suffix) or self._add(suffix)

    def _add(self, suffix: bytes) -> Origin:
        if len(self._found) >= _ORIGINS:
            self._found.clear()
        origin = self._found[suffix] = Origin(decode_request(PREFIXES[0] + suffix))
        return origin


def from_emqp(encoded: bytes) -> Properties:
    """Decode the properties of a REQUEST into the core's form."""
    try:
        found = decode_request(encoded)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"these are no properties of a REQUEST: {error}") from None
    return from_properties(found)


def from_properties(found: RequestProperties) -> Properties:
    """Return properties in the core's form."""
    headers = parse_headers(found.headers)
    named: dict[str, HeaderValue] = {
        "reply-requested": headers.reply_requested or None,
        "guarantee": headers.guarantee or None,
        "retry-count": headers.retry_count or None,
        "timeout": headers.timeout or None,
    }
    present = {name: value for name, value in named.items() if value is not None}
    return Properties(
        content_type=JSON,
        headers={**present, **unpack_added(found.added)} or None,
        persistent=headers.guarantee,
        message_id=found.msgid.decode("utf-8", "replace"),
        user_id=found.user or None,
    )


def amend_emqp(
    encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool, without: Collection[str] = ()
) -> tuple[bytes, int]:
    """Set headers of the broker's own; see ``core.Amend``."""
    found = decode_request(encoded)
    merged = {**unpack_added(found.added), **headers}
    kept = {name: value for name, value in merged.items() if name not in without}
    changed = msgspec.structs.replace(found, added=pack_arguments(kept) if kept else b"")
    return encode_request(changed), 0


def unpack_added(added: bytes) -> dict[str, HeaderValue]:
    """Return the headers that the broker has set."""
    return unpack_arguments(added) if added else {}


def as_request(properties: Properties, new_id: bytes) -> tuple[bytes, Headers]:
    """Return the id and the headers of the REQUEST that a message of another wire becomes.

    Args:
        properties: The message's.
        new_id: The id of one that has none.
    """
    named = properties.headers or {}
    headers = make_headers(
        reply_requested=properties.reply_to is not None,
        guarantee=True,  # its publisher expects that it comes back if its consumer fails
        retry_count=_number(named.get("retry-count")),
        timeout=_number(named.get("timeout")),
    )
    return (properties.message_id or "").encode("utf-8", "replace")[:255] or new_id, headers


def _number(value: HeaderValue) -> int:
    """Return a header's number; what is none counts as none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31 else 0
