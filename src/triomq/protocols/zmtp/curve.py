"""CURVE: how a connection is encrypted, and how both sides show who they are (RFC 26).

    client ── HELLO: C', a box from C' to S ──────────────► server     S, C: keys that last; S', C': of this connection
           ◄── WELCOME: a box from S to C': S', a cookie ──
           ── INITIATE: cookie, a box from C' to S': C, a vouch that C has for C' and S, properties ──►
           ◄── READY: a box from S' to C': properties ─────
           ◄══ each frame of a message in a box of its own, commands too ══►

The cookie, by which a server could forget a client until INITIATE, means nothing here: the connection remembers all.
libzmq sends MESSAGE as an ordinary frame and not as a command, as the RFC has it; both are taken. Numbers in nonces
only grow, so that nothing can be sent twice by somebody in between.

Needs PyNaCl, which is loaded with the first connection that wants it.
"""

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final

from triomq.errors import ConfigError
from triomq.protocols.zmtp.codes import PeerError
from triomq.protocols.zmtp.frames import LONG, WEIGHT, Frames
from triomq.protocols.zmtp.settings import KEY_SIZE, LONGEST_COMMAND

_VERSION: Final = b"\1\0"
_FILLER: Final = bytes(72)
_NUMBER: Final = 8  # octets of a short nonce
_CHANCE: Final = 16  # octets of a long one
_MAC: Final = 16
_COOKIE: Final = 96
_VOUCH: Final = 96

_HELLO_SIZE: Final = len(_VERSION) + len(_FILLER) + KEY_SIZE + _NUMBER + 64 + _MAC
_WELCOME_SIZE: Final = _CHANCE + KEY_SIZE + _COOKIE + _MAC
_INITIATE_SIZE: Final = _COOKIE + _NUMBER + KEY_SIZE + _VOUCH + _MAC

_SERVER_PREFIX: Final = b"CurveZMQMESSAGES"
_CLIENT_PREFIX: Final = b"CurveZMQMESSAGEC"

_MESSAGE: Final = b"\x07MESSAGE"
_BEFORE_BOX: Final = len(_MESSAGE) + _NUMBER

OVERHEAD: Final = _BEFORE_BOX + _MAC + 1
"""Octets that a sealed frame has more than its content."""

_SEALED_MORE: Final = 1
_SEALED_COMMAND: Final = 2

_pack_number = struct.Struct("!Q").pack


@cache
def _sodium() -> Any:
    """Load the library.

    Raises:
        ConfigError: It is not there.
    """
    try:
        from nacl import bindings
    except ImportError:
        raise ConfigError(
            "CURVE needs PyNaCl, which the extra `curve` brings: pip install 'triomq[curve]'; or choose 'plain'"
        ) from None
    return bindings


def require_curve() -> None:
    """See that CURVE can be spoken.

    Raises:
        ConfigError: PyNaCl is not there; the text says how to get it.
    """
    _sodium()


def public_key_of(secret_key: bytes) -> bytes:
    """Return the public key that belongs to a secret one."""
    key: bytes = _sodium().crypto_scalarmult_base(secret_key)
    return key


def _opened(open_box: Callable[..., bytes], what: str, *args: bytes) -> bytes:
    try:
        return open_box(*args)
    except Exception:  # the library has an error of its own, and ValueError for boxes that are too short
        raise PeerError("MALFORMED", f"{what} cannot be opened: it is damaged, or sealed with another key") from None


class Traffic:
    """What seals and opens frames of an open connection; owned by an engine.

    Args:
        key: Of both sides' keys of this connection.
        is_server: Whether our side is that.
        sent: The last number that our side has used.
        received: The last one that the peer has.
    """

    __slots__ = ("_key", "_ours", "_theirs", "received", "sent")

    def __init__(self, key: bytes, *, is_server: bool, sent: int, received: int) -> None:
        self._key = key
        self._ours = _SERVER_PREFIX if is_server else _CLIENT_PREFIX
        self._theirs = _CLIENT_PREFIX if is_server else _SERVER_PREFIX
        self.sent = sent
        self.received = received

    def open(self, sealed: bytes) -> tuple[int, bytes]:
        """Return the flags and the content of a frame.

        Raises:
            PeerError: It is none, or not the peer's, or comes a second time.
        """
        number = int.from_bytes(sealed[len(_MESSAGE) : _BEFORE_BOX], "big")
        if not sealed.startswith(_MESSAGE) or number <= self.received:
            raise PeerError("MALFORMED", "a frame is not sealed as it should be")
        self.received = number
        nonce = self._theirs + sealed[len(_MESSAGE) : _BEFORE_BOX]
        content = _opened(_sodium().crypto_box_open_afternm, "a frame", sealed[_BEFORE_BOX:], nonce, self._key)
        if not content:
            raise PeerError("MALFORMED", "a sealed frame has no flags")
        return content[0], content[1:]

    def seal(self, flags: int, content: bytes) -> bytes:
        """Return a whole frame with a sealed one in it."""
        self.sent += 1
        number = _pack_number(self.sent)
        box = _sodium().crypto_box_afternm(bytes((flags,)) + content, self._ours + number, self._key)
        size = _BEFORE_BOX + len(box)
        head = bytes((0, size)) if size < 256 else bytes((LONG,)) + size.to_bytes(8, "big")
        return b"".join((head, _MESSAGE, number, box))

    def encode(self, messages: Iterable[Sequence[bytes]]) -> list[bytes]:
        """Write messages."""
        return [
            self.seal(_SEALED_MORE if number < len(frames) else 0, frame)
            for frames in messages
            for number, frame in enumerate(frames, 1)
        ]

    def encode_command(self, name: bytes, data: bytes) -> bytes:
        """Write a command."""
        return self.seal(_SEALED_COMMAND, bytes((len(name),)) + name + data)


class SealedReader:
    """Makes messages and commands of opened frames, within the limits that the reader of plain ones has.

    Args:
        traffic: Opens them.
        largest_message: Octets, as for ``FrameReader``.
        most_parts: Frames that are kept of a message.
    """

    __slots__ = ("_gathered", "_largest", "_most_parts", "_parts", "_traffic")

    def __init__(self, traffic: Traffic, largest_message: int, most_parts: int) -> None:
        self._traffic = traffic
        self._largest = largest_message
        self._most_parts = most_parts
        self._parts: Frames = []
        self._gathered = 0

    @property
    def unfinished(self) -> int:
        """How many octets are here of a message that is not whole."""
        return sum(map(len, self._parts))

    @property
    def is_between(self) -> bool:
        """Whether no message has begun."""
        return not self._parts

    def read(self, sealed: bytes, found: list[Frames]) -> bytes | None:
        """Add a message to what was found if a frame completes it; return a command.

        Raises:
            PeerError: The frame cannot be opened, or its message is too large.
        """
        flags, content = self._traffic.open(sealed)
        if flags & _SEALED_COMMAND:
            if len(content) > LONGEST_COMMAND:
                raise PeerError("TOO_LARGE", f"a command has {len(content)} octets; at most {LONGEST_COMMAND} may be")
            return content
        self._gathered += len(content) + WEIGHT
        if self._gathered > self._largest:
            raise PeerError("TOO_LARGE", f"a message has more than {self._largest} octets")
        if len(self._parts) < self._most_parts:
            self._parts.append(content)
        if not flags & _SEALED_MORE:
            found.append(self._parts)
            self._parts, self._gathered = [], 0
        return None


class CurveServer:
    """The handshake of one connection, as the server sees it.

    Args:
        secret_key: The server's.
    """

    __slots__ = ("_cookie", "_key", "_peer", "_public", "_received", "_secret", "_secret_key")

    def __init__(self, secret_key: bytes) -> None:
        self._secret_key = secret_key
        self._peer = b""
        self._cookie = b""
        self._key = b""
        self._received = 0

    def welcome(self, hello: bytes) -> bytes:
        """Return the data of WELCOME that answers those of HELLO; raises PeerError."""
        if len(hello) != _HELLO_SIZE or not hello.startswith(_VERSION):
            raise PeerError("MALFORMED", f"HELLO has {len(hello)} octets, and not the {_HELLO_SIZE} of version 1.0")
        sodium = _sodium()
        start = len(_VERSION) + len(_FILLER)
        self._peer, rest = hello[start : start + KEY_SIZE], hello[start + KEY_SIZE :]
        number, box = rest[:_NUMBER], rest[_NUMBER:]
        nonce = b"CurveZMQHELLO---" + number
        if any(_opened(sodium.crypto_box_open, "HELLO", box, nonce, self._peer, self._secret_key)):
            raise PeerError("MALFORMED", "HELLO has something else in its box than nothing")
        self._received = int.from_bytes(number, "big")
        self._public, self._secret = sodium.crypto_box_keypair()
        self._cookie = os.urandom(_COOKIE)
        chance = os.urandom(_CHANCE)
        box = sodium.crypto_box(self._public + self._cookie, b"WELCOME-" + chance, self._peer, self._secret_key)
        return chance + bytes(box)

    def initiate(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the client's key, which it has shown to own, and its properties; raises PeerError."""
        if len(data) < _INITIATE_SIZE:
            raise PeerError("MALFORMED", f"INITIATE has {len(data)} octets, and not {_INITIATE_SIZE} at least")
        sodium = _sodium()
        cookie, number, box = data[:_COOKIE], data[_COOKIE : _COOKIE + _NUMBER], data[_COOKIE + _NUMBER :]
        if cookie != self._cookie or int.from_bytes(number, "big") <= self._received:
            raise PeerError("MALFORMED", "INITIATE belongs to another connection")
        self._received = int.from_bytes(number, "big")
        self._key = sodium.crypto_box_beforenm(self._peer, self._secret)
        nonce = b"CurveZMQINITIATE" + number
        content = _opened(sodium.crypto_box_open_afternm, "INITIATE", box, nonce, self._key)
        key, vouch = content[:KEY_SIZE], content[KEY_SIZE : KEY_SIZE + _VOUCH]
        nonce = b"VOUCH---" + vouch[:_CHANCE]
        vouched = _opened(sodium.crypto_box_open, "INITIATE", vouch[_CHANCE:], nonce, key, self._secret)
        if vouched != self._peer + public_key_of(self._secret_key):
            raise PeerError("MALFORMED", "INITIATE vouches for another connection")
        return key, content[KEY_SIZE + _VOUCH :]

    def ready(self, properties: bytes) -> bytes:
        """Return the data of READY."""
        number = _pack_number(1)
        box: bytes = _sodium().crypto_box_afternm(properties, b"CurveZMQREADY---" + number, self._key)
        return number + box

    def traffic(self) -> Traffic:
        """Return what seals and opens from now on."""
        return Traffic(self._key, is_server=True, sent=1, received=self._received)


class CurveClient:
    """The handshake of one connection, as the client sees it.

    Args:
        secret_key: The client's.
        server_key: The public key of the server that it is to be.
    """

    __slots__ = ("_key", "_public", "_received", "_secret", "_secret_key", "_server_key")

    def __init__(self, secret_key: bytes, server_key: bytes) -> None:
        self._secret_key = secret_key
        self._server_key = server_key
        self._public, self._secret = _sodium().crypto_box_keypair()
        self._key = b""
        self._received = 0

    def hello(self) -> bytes:
        """Return the data of HELLO."""
        number = _pack_number(1)
        box = _sodium().crypto_box(bytes(64), b"CurveZMQHELLO---" + number, self._server_key, self._secret)
        return b"".join((_VERSION, _FILLER, self._public, number, box))

    def initiate(self, welcome: bytes, properties: bytes) -> bytes:
        """Return the data of INITIATE that answers those of WELCOME; raises PeerError."""
        if len(welcome) != _WELCOME_SIZE:
            raise PeerError("MALFORMED", f"WELCOME has {len(welcome)} octets, and not {_WELCOME_SIZE}")
        sodium = _sodium()
        nonce = b"WELCOME-" + welcome[:_CHANCE]
        content = _opened(sodium.crypto_box_open, "WELCOME", welcome[_CHANCE:], nonce, self._server_key, self._secret)
        peer, cookie = content[:KEY_SIZE], content[KEY_SIZE:]
        self._key = sodium.crypto_box_beforenm(peer, self._secret)
        chance, number = os.urandom(_CHANCE), _pack_number(2)
        vouch = sodium.crypto_box(self._public + self._server_key, b"VOUCH---" + chance, peer, self._secret_key)
        shown = public_key_of(self._secret_key) + chance + vouch + properties
        return b"".join((cookie, number, sodium.crypto_box_afternm(shown, b"CurveZMQINITIATE" + number, self._key)))

    def ready(self, data: bytes) -> bytes:
        """Return the server's properties; raises PeerError."""
        number, box = data[:_NUMBER], data[_NUMBER:]
        self._received = int.from_bytes(number, "big")
        return _opened(_sodium().crypto_box_open_afternm, "READY", box, b"CurveZMQREADY---" + number, self._key)

    def traffic(self) -> Traffic:
        """Return what seals and opens from now on."""
        return Traffic(self._key, is_server=False, sent=2, received=self._received)
