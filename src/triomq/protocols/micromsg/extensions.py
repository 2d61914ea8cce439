"""Extensions as handshakes list them: ``name:key=value,key=value;name``, in ASCII, with escapes in values.

Rules:

- Written strictly, read with patience: blanks, empty items and a ``:`` where the ``=`` belongs are passed over, for the
  specification's own examples have them.
- A name that breaks the rule for names is an unknown extension, no fault: only who requires it hears about it.
- Of two with one name the first counts; a required one before an optional one.
- ``pub-sub`` is also called ``pubsub``, and is answered under the name that the peer has for it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.escapes import escape, unescape

MOST_EXTENSIONS: Final = 255
"""Extensions of a connection: their number in a frame is one octet."""

DEFAULT_WINDOW: Final = 10
"""Messages that may be unacknowledged with ``batch-ack`` if nobody says a number (Batch-ack, properties)."""

LARGEST_WINDOW: Final = 32767
"""Half of all sequence numbers, so that a number of this round is told from one of the last."""

BATCH_ACK, ACK, JSON, DOTNET, PUB_SUB = "batch-ack", "ack", "json", "dotnet", "pub-sub"
HEARTBEAT, REPLY, SASL = "x-heartbeat", "x-reply", "x-sasl"
OFFICIAL: Final = frozenset((BATCH_ACK, ACK, JSON, DOTNET, PUB_SUB))
OWN: Final = frozenset((HEARTBEAT, REPLY, SASL))
"""Vendor extensions that the engine itself knows."""

SHARPMESSAGING_COUNT: Final = "messagesperack"
"""The property by which SharpMessaging is known."""
SHARPMESSAGING_HANDSHAKE: Final = 256
"""Octets of its buffer for a list of extensions."""

_ALIASES: Final = {"pubsub": PUB_SUB}
_COUNT_NAMES: Final = ("max-count", "count", "batch-max", SHARPMESSAGING_COUNT)
_NAME: Final = re.compile("[a-z0-9-]+")


class HandshakeExtension(msgspec.Struct, frozen=True):
    """One extension of a handshake.

    Args:
        name: ``x-…`` unless it is one of the specification's; a-z, 0-9 and hyphens.
        properties: what is said about it.
    """

    name: str
    properties: Mapping[str, str] = {}

    @property
    def canonical(self) -> str:
        """The one name of an extension that has several."""
        return _ALIASES.get(self.name, self.name)

    @property
    def window(self) -> int | None:
        """How many messages may be unacknowledged; None if it does not say.

        Raises:
            RemoteProtocolError: it says no number, or one out of bounds.
        """
        for name in _COUNT_NAMES:
            text = self.properties.get(name)
            if text is not None:
                return _count(f"{name} of {self.name}", text, 1, LARGEST_WINDOW)
        return None

    @property
    def interval(self) -> float:
        """Seconds between heartbeats; 0 if it does not say.

        Raises:
            RemoteProtocolError: it says no number, or one out of bounds.
        """
        text = self.properties.get("interval")
        # Below a tenth of a second heartbeats would be a load; no timer needs more than a day.
        return 0.0 if text is None else _count(f"interval of {self.name}", text, 100, 86_400_000) / 1000

    @property
    def is_sharpmessaging(self) -> bool:
        """Whether only SharpMessaging writes it so."""
        return SHARPMESSAGING_COUNT in self.properties


def _count(what: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or not least <= int(text) <= most:
        raise PeerError(400, f"{what} is {text[:20]!r}; it takes {least} to {most}")
    return int(text)


def find_extension(extensions: Iterable[HandshakeExtension], name: str) -> HandshakeExtension | None:
    """Return the extension of a name, whatever it is called."""
    return next((each for each in extensions if each.canonical == name), None)


def parse_extensions(octets: bytes) -> tuple[HandshakeExtension, ...]:
    """Read a list of extensions.

    Raises:
        PeerError: it is none.
    """
    try:
        text = octets.decode("ascii")
    except UnicodeDecodeError:
        raise PeerError(400, "a list of extensions is not ASCII") from None
    found: dict[str, HandshakeExtension] = {}
    for item in text.split(";"):
        item = item.strip(" ")
        if item:
            name, _, written = item.partition(":")
            extension = HandshakeExtension(name.rstrip(" "), _parse_properties(name, written))
            found.setdefault(extension.canonical, extension)
    if len(found) > MOST_EXTENSIONS:
        raise PeerError(400, f"{len(found)} extensions; at most {MOST_EXTENSIONS} can be numbered")
    return tuple(found.values())


def _parse_properties(name: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in text.split(","):
        item = item.strip(" ")
        if not item:
            continue
        key, mark, value = item.partition("=" if "=" in item else ":")
        key = key.strip(" ").lower()
        if not mark or not key:
            raise PeerError(400, f"property {item[:40]!r} of extension {name[:40]!r} is no name=value")
        found.setdefault(key, unescape(value.strip(" "), f"property {key[:40]} of {name[:40]}"))
    return found


def format_extensions(extensions: Sequence[HandshakeExtension]) -> bytes:
    """Write a list of extensions."""
    return ";".join(map(_format_extension, extensions)).encode("ascii")


def _format_extension(extension: HandshakeExtension) -> str:
    pairs = ",".join(f"{key}={escape(value)}" for key, value in extension.properties.items())
    return f"{extension.name}:{pairs}" if pairs else extension.name


def check_own_extension(extension: HandshakeExtension) -> None:
    """Refuse an extension of a configuration that nobody could speak.

    Raises:
        LocalProtocolError: its name or the name of a property cannot be written, or it is none of the specification's
            and does not begin with ``x-``.
    """
    name = extension.name
    if _NAME.fullmatch(name) is None or not (name in OFFICIAL or name.startswith("x-")):
        known = ", ".join(sorted(OFFICIAL))
        raise LocalProtocolError(f"{name!r} is no extension; there are {known}, and your own, which begin with x-")
    for key in extension.properties:
        if _NAME.fullmatch(key) is None:
            raise LocalProtocolError(f"{key!r} is no property of extension {name}; a-z, 0-9 and '-' make one")
