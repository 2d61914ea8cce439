"""Arguments of the Connection class, read: what is missing, of another type or unknown is named for people.

Keys that nobody knows are passed over. Names of commands, profiles and mechanisms are compared without case; those of
virtual hosts and resources, and keys, with it.
"""

import binascii
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from triomq.errors import RemoteProtocolError
from triomq.protocols.mtl.events import ConfirmModel, DataLeaseAsked, LeaseReleased, OpenReceived, ProfileChosen
from triomq.protocols.mtl.headers import LONGEST_TEXT, is_printable

PROTOCOL_NAME: Final = "MTL"
PROTOCOL_VERSION: Final = 1

DEFAULT_HOST: Final = "/"
"""The virtual host of clients that name none."""

LONGEST_BLOB: Final = 8192
"""Bytes of a response or a challenge."""

_MOST_PREFETCH: Final = 65_535

_MODELS: Final[tuple[ConfirmModel, ...]] = ("none", "full")


class ArgumentFault(RemoteProtocolError):
    """Arguments that are well formed and wrong; never leaves an engine."""

    def __init__(self, text: str, code: int = 400, fields: Mapping[str, object] | None = None) -> None:
        self.text = text
        self.code = code
        self.fields = fields or {}
        super().__init__(text)


def read_open(arguments: Mapping[str, Any]) -> OpenReceived:
    """Read Connection.Open."""
    protocol = arguments.get("protocol")
    version = protocol.get("version") if isinstance(protocol, dict) else None
    if not isinstance(protocol, dict) or protocol.get("name") != PROTOCOL_NAME or type(version) is not int:
        raise ArgumentFault(f'protocol has to be {{"name": "{PROTOCOL_NAME}", "version": {PROTOCOL_VERSION}}}')
    if version != PROTOCOL_VERSION:
        raise ArgumentFault("this version is not spoken here", 505, {"version": PROTOCOL_VERSION})
    return OpenReceived(_read_name(arguments, "virtual-host", DEFAULT_HOST))


def read_authorize(arguments: Mapping[str, Any], mechanisms: Sequence[str]) -> tuple[str, bytes | None]:
    """Read Connection.Authorize: a mechanism, as it is offered, and the response."""
    mechanism = _find(_read_name(arguments, "mechanism"), mechanisms)
    if mechanism is None:
        raise ArgumentFault("this mechanism is not offered", 401)
    text = arguments.get("response")
    return mechanism, None if text is None else decode_blob(text)


def read_profile(arguments: Mapping[str, Any], profiles: Sequence[str]) -> ProfileChosen:
    """Read Connection.Profile."""
    profile = _find(_read_name(arguments, "profile"), profiles)
    if profile is None:
        raise ArgumentFault(f"there is no such profile for you here; there are {', '.join(profiles) or 'none'}")
    return ProfileChosen(profile)


def read_lease_request(arguments: Mapping[str, Any], is_reader: bool, most: int) -> DataLeaseAsked:
    """Read Connection.Reader or Connection.Writer."""
    names = arguments.get("resources")
    if not isinstance(names, list):
        raise ArgumentFault("resources has to be a list of names, empty for all")
    if len(names) > most:
        raise ArgumentFault(f"resources has {len(names)} names; at most {most} are allowed")
    if not all(isinstance(name, str) and name and is_short_text(name) for name in names):
        raise ArgumentFault(f"a resource has a name of 1 to {LONGEST_TEXT} octets without control characters")
    confirm = arguments.get("confirm", _MODELS[0])
    if confirm not in _MODELS:
        raise ArgumentFault('confirm has to be "none" or "full"')
    prefetch = arguments.get("prefetch", 0)
    if type(prefetch) is not int or not 0 <= prefetch <= _MOST_PREFETCH:
        raise ArgumentFault(f"prefetch has to be a number from 0 to {_MOST_PREFETCH}")
    lease = _read_name(arguments, "lease", "")
    return DataLeaseAsked("reader" if is_reader else "writer", tuple(dict.fromkeys(names)), confirm, prefetch, lease)


def read_release(arguments: Mapping[str, Any]) -> LeaseReleased:
    """Read Connection.Release."""
    return LeaseReleased(_read_name(arguments, "lease"))


def _read_name(arguments: Mapping[str, Any], key: str, default: str | None = None) -> str:
    name = arguments.get(key, default)
    if not isinstance(name, str) or not is_short_text(name):
        raise ArgumentFault(f"{key} has to be a text of at most {LONGEST_TEXT} octets without control characters")
    return name


def is_short_text(text: str) -> bool:
    """Return whether a text can be a short string."""
    octets = text.encode("utf-8", "replace")
    return len(octets) <= LONGEST_TEXT and is_printable(octets)


def _find(name: str, names: Iterable[str]) -> str | None:
    """Find a name without regard to case, and return it as it is spelt here."""
    wanted = name.lower()
    return next((each for each in names if each.lower() == wanted), None)


def decode_blob(text: object) -> bytes:
    """Read BASE64, which may have no other characters in it.

    Raises:
        ArgumentFault: It is none, or too long.
    """
    try:
        octets = binascii.a2b_base64(text.encode("ascii"), strict_mode=True) if isinstance(text, str) else None
    except (binascii.Error, UnicodeEncodeError):
        octets = None
    if octets is None or len(octets) > LONGEST_BLOB:
        raise ArgumentFault(f"response has to be BASE64 of at most {LONGEST_BLOB} octets")
    return octets


def encode_blob(octets: bytes) -> str:
    """Write BASE64."""
    return b64encode(octets).decode("ascii")
