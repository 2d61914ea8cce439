"""The table that leads from every wire's own form of properties to the one that no wire owns.

Properties travel encoded as they came. They are decoded only when a headers sink, a predicate or a consumer behind
another endpoint asks.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

import msgspec

from triomq.core.message import Head, QueueMessage, traits_of
from triomq.errors import ProtocolError
from triomq.properties import CORE_CODEC, HeaderValue, Properties, decode_core, encode_core


class Amend(Protocol):
    """Sets headers in encoded properties, and leaves everything else as the publisher's wire had it."""

    def __call__(
        self,
        encoded: bytes,
        headers: Mapping[str, HeaderValue],
        *,
        drop_expiration: bool,
        without: Collection[str] = (),
    ) -> tuple[bytes, int]:
        """Return the new properties in the same encoding, and the head's ``flags`` for them.

        Args:
            encoded: The properties as they came.
            headers: What to set; other headers stay.
            drop_expiration: Whether the message is to lose its expiration.
            without: Headers that it is to lose.
        """


def core_message(
    sink: str, key: str, body: bytes, properties: Properties, *, publisher: int, expendable: bool = False
) -> tuple[Head, bytes]:
    """Return the head and the content of a message in the core's own form.

    Args:
        sink: Where it is published.
        key: By which key.
        body: Its body.
        properties: What is known of it.
        publisher: Number of the session.
        expendable: Whether no publisher is told what becomes of it.
    """
    encoded = encode_core(properties)
    start = len(encoded)
    head = Head(
        sink,
        key,
        0,
        start,
        start,
        traits=traits_of(
            publisher=publisher,
            has_expiration=properties.expiration is not None,
            has_priority=properties.priority is not None,
            persistent=properties.persistent,
            expendable=expendable,
        ),
    )
    return head, encoded + body


def amend_core(
    encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool, without: Collection[str] = ()
) -> tuple[bytes, int]:
    """Set headers in properties in the core's own form; see ``Amend``."""
    properties = decode_core(encoded)
    merged = {**(properties.headers or {}), **headers}
    changed = msgspec.structs.replace(
        properties,
        headers={name: value for name, value in merged.items() if name not in without} or None,
        expiration=None if drop_expiration else properties.expiration,
    )
    return encode_core(changed), 0


def _decode_unknown(encoded: bytes) -> Properties:
    return _NONE


def _amend_unknown(
    encoded: bytes, headers: Mapping[str, HeaderValue], *, drop_expiration: bool, without: Collection[str] = ()
) -> tuple[bytes, int]:
    return encoded, 0


_NONE = Properties()
_UNKNOWN: tuple[Callable[[bytes], Properties], Amend] = _decode_unknown, _amend_unknown
"""For messages in a store whose wire was uninstalled: their bodies are worth more than a queue that crashes."""


class Codecs:
    """The table from a head's codec tag to the functions that decode and amend its properties.

    Created by the code that opens a broker, which registers each wire's; handed to domains. More can be registered
    later, before the first message of their wire comes.
    """

    def __init__(self) -> None:
        self._codecs: dict[int, tuple[Callable[[bytes], Properties], Amend]] = {CORE_CODEC: (decode_core, amend_core)}

    def register(self, codec: int, decode: Callable[[bytes], Properties], amend: Amend) -> None:
        """Add a wire's functions under its tag; the same ones a second time change nothing.

        Raises:
            ValueError: The tag is taken by others; tags are written to disk and never reused.
        """
        if self._codecs.get(codec, (decode, amend)) != (decode, amend):
            raise ValueError(f"codec tag {codec} is taken already; give each properties format a tag of its own")
        self._codecs[codec] = decode, amend

    def _of(self, codec: int) -> tuple[Callable[[bytes], Properties], Amend]:
        return self._codecs.get(codec, _UNKNOWN)

    def decode(self, message: QueueMessage) -> Properties:
        """Decode a message's properties, whichever wire it came from; empty ones if its wire is not registered."""
        return self._of(message.head.traits.codec)[0](message.properties)

    def read(self, message: QueueMessage) -> Properties | None:
        """Decode a message's properties; None if they cannot be decoded: they are carried as they came, whatever they
        are.

        For the core's own decisions, which no publisher may make crash.
        """
        return self.read_encoded(message.head.traits.codec, message.properties)

    def read_encoded(self, codec: int, encoded: bytes) -> Properties | None:
        """Decode properties that were cut out of a message; otherwise as ``read``."""
        try:
            return self._of(codec)[0](encoded)
        except (ProtocolError, msgspec.DecodeError):
            return None

    def amend(
        self,
        message: QueueMessage,
        headers: Mapping[str, HeaderValue],
        *,
        drop_expiration: bool = True,
        without: Collection[str] = (),
    ) -> tuple[bytes, int]:
        """Set headers of a message, whichever wire it came from; see ``Amend``."""
        amend = self._of(message.head.traits.codec)[1]
        return amend(message.properties, headers, drop_expiration=drop_expiration, without=without)
