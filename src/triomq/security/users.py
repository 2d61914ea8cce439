"""Users and their passwords; what is kept is a salted hash, never the password."""

import hashlib
import hmac
import os
from collections.abc import Mapping

import msgspec

__all__ = ["UserChanges", "Users"]

_ITERATIONS = 4096  # the least that RFC 7677 section 4 allows; 1 ms, since a log-in is checked on the broker's own loop


class _Verifier(msgspec.Struct, frozen=True, gc=False):
    salt: bytes
    hashed: bytes


class UserChanges(msgspec.Struct, frozen=True, gc=False):
    """What became different when all users were given anew: names, sorted."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class Users:
    """Who may log in; created by whoever opens a broker, asked by endpoints.

    Args:
        passwords: The first users, name to password.
    """

    def __init__(self, passwords: Mapping[str, str] | None = None) -> None:
        """Hash the passwords of the first users."""
        self._verifiers: dict[str, _Verifier] = {}
        self._unknown = _make_verifier(b"nobody")
        for name, password in (passwords or {}).items():
            self.add(name, password)

    def add(self, name: str, password: str) -> None:
        """Add a user, or change a user's password."""
        self._verifiers[name] = _make_verifier(password.encode())

    def replace(self, passwords: Mapping[str, str]) -> UserChanges:
        """Let these be the users, with these passwords, and no others."""
        changes = UserChanges(
            tuple(sorted(passwords.keys() - self._verifiers.keys())),
            tuple(sorted(name for name in passwords.keys() & self._verifiers.keys() if self._differs(name, passwords))),
            tuple(sorted(self._verifiers.keys() - passwords.keys())),
        )
        for name in changes.added + changes.changed:
            self.add(name, passwords[name])
        for name in changes.removed:
            del self._verifiers[name]
        return changes

    def _differs(self, name: str, passwords: Mapping[str, str]) -> bool:
        return not self.check(name, passwords[name].encode())

    @property
    def names(self) -> list[str]:
        """Who may log in, sorted."""
        return sorted(self._verifiers)

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
