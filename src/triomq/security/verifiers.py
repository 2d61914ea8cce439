"""Verifiers: stored instead of a password, and used to check one.

Two kinds. SCRAM's (RFC 5803, in PostgreSQL's text form) serve both SCRAM, where the client never sends its password,
and PLAIN. RabbitMQ's salted hashes are one round of SHA-2: they let imported users log in, and are never created here.
"""

import base64
import binascii
import hashlib
import hmac
import os
from typing import Final, TypeAlias

import msgspec

ITERATIONS: Final = 65_536
"""Rounds of PBKDF2: 15 ms, which a thread spends once a minute for each user that logs in by PLAIN."""

LEAST_ITERATIONS: Final = 4_096
"""The least that RFC 7677 section 4 allows."""

MOST_ITERATIONS: Final = 10_000_000
"""Two seconds of a processor; a verifier that asks for more is a mistake, or an attack."""

SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Mechanism to hash function."""

_RABBITMQ_HASHES: Final = {"RABBITMQ-SHA-256": "sha256", "RABBITMQ-SHA-512": "sha512"}

_LEGACY_SALT = 4  # bytes

_SALT = 16  # bytes, as PostgreSQL has it


class ScramVerifier(msgspec.Struct, frozen=True, gc=False):
    """The verifier of a password for SCRAM (RFC 5802 section 3).

    Args:
        mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        iterations: Rounds of PBKDF2.
        salt: Random bytes.
        stored_key: A client's proof is checked against it.
        server_key: The key of the server's proof.
    """

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def matches(self, password: bytes) -> bool:
        """Return whether this is the password; takes the time of the iterations."""
        return hmac.compare_digest(self._again(password).stored_key, self.stored_key)

    def _again(self, password: bytes) -> "ScramVerifier":
        return make_verifier(password, mechanism=self.mechanism, iterations=self.iterations, salt=self.salt)

    def __str__(self) -> str:
        """Return PostgreSQL's text form."""
        keys = f"{_to_text(self.stored_key)}:{_to_text(self.server_key)}"
        return f"{self.mechanism}${self.iterations}:{_to_text(self.salt)}${keys}"

    def __repr__(self) -> str:
        """Hide from logs what passwords can be tried against."""
        return f"ScramVerifier({self.mechanism!r}, {self.iterations}, …)"


class SaltedHash(msgspec.Struct, frozen=True, gc=False):
    """A password's hash in RabbitMQ's form: the hash of a salt of four bytes and the password.

    Args:
        kind: ``RABBITMQ-SHA-256`` or ``RABBITMQ-SHA-512``.
        salt: Four bytes.
        digest: The hash.
    """

    kind: str
    salt: bytes
    digest: bytes

    def matches(self, password: bytes) -> bool:
        """Return whether this is the password."""
        return hmac.compare_digest(hashlib.new(_RABBITMQ_HASHES[self.kind], self.salt + password).digest(), self.digest)

    def __str__(self) -> str:
        """Return ``KIND$`` and the ``password_hash`` of RabbitMQ's definitions."""
        return f"{self.kind}${_to_text(self.salt + self.digest)}"

    def __repr__(self) -> str:
        """Hide from logs what passwords can be tried against."""
        return f"SaltedHash({self.kind!r}, …)"


Verifier: TypeAlias = ScramVerifier | SaltedHash


def make_verifier(
    password: bytes,
    *,
    mechanism: str = "SCRAM-SHA-256",
    iterations: int = ITERATIONS,
    salt: bytes | None = None,
) -> ScramVerifier:
    """Return a new verifier of a password; takes the time of the iterations.

    Args:
        password: The password, in UTF-8.
        mechanism: ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``.
        iterations: Rounds of PBKDF2.
        salt: Random bytes; new ones if None.
    """
    name = SCRAM_HASHES[mechanism]
    salt = os.urandom(_SALT) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(name, prepared(password), salt, iterations)
    stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramVerifier(mechanism, iterations, salt, stored_key, hmac.digest(salted, b"Server Key", name))


def read_verifier(text: str) -> Verifier:
    """Parse a verifier's text form.

    Raises:
        ValueError: It is not one; the error does not show the text.
    """
    kind, _, rest = text.partition("$")
    try:
        if kind in _RABBITMQ_HASHES:
            return _read_salted(kind, rest)
        if kind in SCRAM_HASHES:
            return _read_scram(kind, rest)
    except (ValueError, binascii.Error):
        pass  # raised below, without the verifier
    kinds = ", ".join((*SCRAM_HASHES, *_RABBITMQ_HASHES))
    raise ValueError(f"found no verifier such as 'SCRAM-SHA-256$65536:salt$keys'; those of {kinds} are known")


def _read_scram(mechanism: str, rest: str) -> ScramVerifier:
    head, keys = rest.split("$")
    iterations, salt = head.split(":")
    stored_key, server_key = keys.split(":")
    found = ScramVerifier(mechanism, int(iterations), *map(_from_text, (salt, stored_key, server_key)))
    size = hashlib.new(SCRAM_HASHES[mechanism]).digest_size
    if not LEAST_ITERATIONS <= found.iterations <= MOST_ITERATIONS or len(found.salt) < 12:
        raise ValueError
    if len(found.stored_key) != size or len(found.server_key) != size:
        raise ValueError
    return found


def _read_salted(kind: str, rest: str) -> SaltedHash:
    data = _from_text(rest)
    if len(data) != _LEGACY_SALT + hashlib.new(_RABBITMQ_HASHES[kind]).digest_size:
        raise ValueError
    return SaltedHash(kind, data[:_LEGACY_SALT], data[_LEGACY_SALT:])


def prepared(password: bytes) -> bytes:
    """Return a password prepared for SCRAM (SASLprep, RFC 4013); one that cannot be prepared stays as it is."""
    if password.isascii():
        return password  # nothing to do but for control characters, which then stay
    from scramp.utils import ScramException, saslprep  # with what it brings 2 MB, and few passwords need it

    try:
        return str(saslprep(password.decode())).encode()
    except (UnicodeDecodeError, ScramException):
        return password


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_text(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
