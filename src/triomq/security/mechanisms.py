"""SASL mechanisms (RFC 4422): from a client's responses, one or several, to its user name.

A mechanism is created for each login and dropped when it has returned ``Accepted`` or ``Denied``. It knows no wire: an
endpoint passes responses to it and challenges back, as often as the mechanism asks.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from triomq.errors import ProtocolError
from triomq.security.users import Users


class Challenge(msgspec.Struct, frozen=True, gc=False):
    """One more response is needed, to this challenge."""

    challenge: bytes


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The client is this user."""

    user: str


class Denied(msgspec.Struct, frozen=True, gc=False):
    """The client has not proved its name; ``name`` is the one that it gave, empty if that cannot be parsed."""

    name: str


class Pending(msgspec.Struct, frozen=True, gc=False):
    """Judging takes a while: ``work`` is to be called in a thread, and its result is the next step.

    Args:
        name: The name that the client gives.
        work: Returns the next step.
    """

    name: str
    work: Callable[[], "Step"]


Step: TypeAlias = Challenge | Accepted | Denied | Pending


class Mechanism(Protocol):
    """One login by one mechanism."""

    def first(self, response: bytes) -> Step:
        """Judge the initial response; ``b""`` is that of a client that waits for a challenge."""

    def next(self, response: bytes) -> Step:
        """Judge the response to the last challenge."""


MakeMechanism: TypeAlias = Callable[[Users], Mechanism]
"""Creates the mechanism for one login, with the users of the broker."""


class Credentials(msgspec.Struct, frozen=True, gc=False):
    """A name and a password."""

    name: str
    password: bytes

    def __repr__(self) -> str:
        """Hide the password from logs."""
        return f"Credentials({self.name!r}, …)"


class Plain:
    """PLAIN (RFC 4616): name and password in one response; a client that begins with none gets a challenge.

    Args:
        users: The users of the broker.
    """

    def __init__(self, users: Users) -> None:
        self._users = users

    def first(self, response: bytes) -> Step:
        """Judge the response; without one return an empty challenge (RFC 4422 section 5, a client-first mechanism)."""
        return self.next(response) if response else Challenge(b"")

    def next(self, response: bytes) -> Step:
        """Judge the response."""
        return self.judge(read_plain(response))

    def judge(self, credentials: Credentials | None) -> Step:
        """Judge a name and a password; None is a response that could not be parsed."""
        return _judge(self._users, credentials)


class AMQPlain:
    """AMQPLAIN (the AMQP 0-9-1 brokers' own): name and password in a field table.

    Args:
        users: The users of the broker.
        decode_table: Decodes a field table without its length; raises ProtocolError if it cannot.
    """

    def __init__(self, users: Users, decode_table: Callable[[bytes], Mapping[str, object]]) -> None:
        self._users = users
        self._decode_table = decode_table

    def first(self, response: bytes) -> Step:
        """Judge the response."""
        return _judge(self._users, read_amqplain(response, self._decode_table))

    def next(self, response: bytes) -> Step:
        """Deny: there was no challenge."""
        return Denied("")


class External:
    """EXTERNAL (RFC 4422 appendix A): the transport knows the client's name, by its certificate.

    Args:
        users: The users of the broker.
        name: The name in the certificate.
    """

    def __init__(self, users: Users, name: str) -> None:
        self._users = users
        self._name = name

    def first(self, response: bytes) -> Step:
        """Judge the response, which has the same name or none: acting for another user is not offered."""
        asked = response.decode("utf-8", "surrogateescape").strip("\0 ")
        known = asked in ("", self._name) and self._users.get(self._name) is not None
        return Accepted(self._name) if known else Denied(self._name)

    def next(self, response: bytes) -> Step:
        """Deny: there was no challenge."""
        return Denied(self._name)


def _judge(users: Users, credentials: Credentials | None) -> Step:
    if credentials is None:
        return Denied("")
    right = users.check_nowait(credentials.name, credentials.password)
    if right is None:
        return Pending(credentials.name, lambda: _judged(users, credentials))
    return Accepted(credentials.name) if right else Denied(credentials.name)


def _judged(users: Users, credentials: Credentials) -> Step:
    right = users.check(credentials.name, credentials.password)
    return Accepted(credentials.name) if right else Denied(credentials.name)


def read_plain(response: bytes) -> Credentials | None:
    """Parse a PLAIN response, ``[authzid] NUL authcid NUL password`` (RFC 4616 section 2); None if it is not one."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        return None
    name = parts[1].decode("utf-8", "surrogateescape")
    # Acting for another user is not offered.
    return None if parts[0] not in (b"", parts[1]) else Credentials(name, parts[2])


def read_amqplain(response: bytes, decode_table: Callable[[bytes], Mapping[str, object]]) -> Credentials | None:
    """Parse an AMQPLAIN response, a field table with LOGIN and PASSWORD but without its length; None if it is not one.

    Args:
        response: As the client has sent it.
        decode_table: Decodes a field table without its length; raises ProtocolError if it cannot.
    """
    try:
        table = decode_table(response)
    except ProtocolError:
        return None
    name, password = table.get("LOGIN"), table.get("PASSWORD")
    if isinstance(password, str):
        password = password.encode("utf-8", "surrogateescape")
    if not isinstance(name, str) or not isinstance(password, bytes):
        return None
    return Credentials(name, password)
