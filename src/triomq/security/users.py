"""Users and their passwords; what is kept is a salted hash, never the password."""

import hashlib
import hmac
import os

import msgspec

__all__ = ["Users"]

_ITERATIONS = 4096  # the least that RFC 7677 section 4 allows; 1 ms, since a log-in is checked on the broker's own loop


class _Verifier(msgspec.Struct, frozen=True, gc=False):
    salt: bytes
    hashed: bytes


class Users:
    """Who may log in; created by whoever opens a broker, asked by endpoints.

    Args:
        passwords: The first users, name to password.
    """

    def __init__(self, passwords: dict[str, str] | None = None) -> None:
        """Hash the passwords of the first users."""
        self._verifiers: dict[str, _Verifier] = {}
        self._unknown = _make_verifier(b"nobody")
        for name, password in (passwords or {}).items():
            self.add(name, password)

    def add(self, name: str, password: str) -> None:
        """Add a user, or change a user's password."""
        self._verifiers[name] = _make_verifier(password.encode())

    def check(self, name: str, password: bytes) -> bool:
        """Tell whether a user has this password; takes the same time for a user that does not exist."""
        verifier = self._verifiers.get(name, self._unknown)
        same = hmac.compare_digest(_hash(password, verifier.salt), verifier.hashed)
        return same and name in self._verifiers


def _make_verifier(password: bytes) -> _Verifier:
    salt = os.urandom(16)
    return _Verifier(salt, _hash(password, salt))


def _hash(password: bytes, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password, salt, _ITERATIONS)
