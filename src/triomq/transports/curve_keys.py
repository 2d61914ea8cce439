"""Keys for CURVE (RFC 26): how a ZeroMQ socket is encrypted, and how each side shows who it is.

A pair stands in one file, in the form (ZPL) that ZeroMQ's own tools write and read; a file may also have the public key
alone. Keys are texts of 40 characters (Z85), so that they can stand in configurations.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

from triomq.errors import ConfigError

_LINE: Final = re.compile(r'^\s*(public|secret)-key\s*=\s*"(\S{40})"\s*$', re.MULTILINE)

_OWNER_ALONE: Final = 0o600


class CurveKeys(msgspec.Struct, frozen=True, gc=False):
    """A pair of keys, or a public one.

    Args:
        public: What others know the owner by.
        secret: What the owner alone has; empty where only the public key is known.
    """

    public: str
    secret: str = ""

    def __repr__(self) -> str:
        return f"CurveKeys(public={self.public!r})"


def make_curve_keys() -> CurveKeys:
    """Make a new pair; loads pyzmq."""
    import zmq

    public, secret = zmq.curve_keypair()
    return CurveKeys(public.decode(), secret.decode())


def write_curve_keys(path: Path, keys: CurveKeys) -> None:
    """Write a pair to a new file, which its owner alone may read.

    Raises:
        ConfigError: There is such a file, or it cannot be written.
    """
    text = f'curve\n    public-key = "{keys.public}"\n    secret-key = "{keys.secret}"\n'
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ALONE)
    except OSError as error:
        raise ConfigError(f"cannot write the keys to {path}: {error.strerror}; name a file that is not there") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def read_curve_keys(path: Path) -> CurveKeys:
    """Read a file of keys.

    Raises:
        ConfigError: It cannot be read, or has no public key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the keys in {path}: {error}") from None
    found = dict(_LINE.findall(text))
    if "public" not in found:
        raise ConfigError(f'{path} has no line `public-key = "…"`; `triomq user curve` makes such files')
    return CurveKeys(found["public"], found.get("secret", ""))


def read_curve_pair(path: Path) -> CurveKeys:
    """Read a file that must have both keys.

    Raises:
        ConfigError: It cannot be read, or has the public key alone.
    """
    keys = read_curve_keys(path)
    if not keys.secret:
        raise ConfigError(f"{path} has the public key alone; name the file with both")
    return keys
