"""SASL mechanisms (RFC 4422): from what a client says, in one step or several, to who it is.

A mechanism is made for each log-in and forgotten when it has said ``Accepted`` or ``Denied``. It knows no wire: an
endpoint carries responses to it and challenges back, as often as the mechanism asks.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from triomq.errors import ProtocolError
from triomq.security.users import Users


class Challenge(msgspec.Struct, frozen=True, gc=False):
    """One more response is needed; this is what the client is asked."""

    challenge: bytes


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The client is this user."""

    user: str


class Denied(msgspec.Struct, frozen=True, gc=False):
    """The client is not who it says it is; ``name`` is what it called itself, empty if that cannot be read."""

    name: str


class Pending(msgspec.Struct, frozen=True, gc=False):
    """The answer takes a while to work out: ``work`` is to be called in a thread, and what it returns comes next.

    Args:
        name: What the client calls itself.
        work: Gives the answer.
    """

    name: str
    work: Callable[[], "Step"]


Step: TypeAlias = Challenge | Accepted | Denied | Pending


class Mechanism(Protocol):
    """One log-in by one mechanism."""

    def first(self, response: bytes) -> Step:
        """Judge the initial response; ``b""`` is that of a client that waits to be asked."""

    def next(self, response: bytes) -> Step:
        """Judge the answer to the challenge that was given last."""


MakeMechanism: TypeAlias = Callable[[Users], Mechanism]
"""Begins a log-in, with the users that there are."""


class Credentials(msgspec.Struct, frozen=True, gc=False):
    """What a client says to prove who it is."""

    name: str
    password: bytes

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"Credentials({self.name!r}, …)"


class Plain:
    """PLAIN (RFC 4616): name and password in one response; a client that begins with none is asked for it.

    Args:
        users: Who may log in.
    """

    def __init__(self, users: Users) -> None:
        self._users = users

    def first(self, response: bytes) -> Step:
        """Judge the response, or ask for it: the challenge is empty (RFC 4422 section 5, a client-first mechanism)."""
        return self.next(response) if response else Challenge(b"")

    def next(self, response: bytes) -> Step:
        """Judge the response."""
        return self.judge(read_plain(response))

    def judge(self, credentials: Credentials | None) -> Step:
        """Judge a name and a password; None is a response that could not be read."""
        return _judge(self._users, credentials)


class AMQPlain:
    """AMQPLAIN (the AMQP 0-9-1 brokers' own): name and password in a field table.

    Args:
        users: Who may log in.
        decode_table: Decodes a field table's octets, which come without its length, and raises ProtocolError if it
            cannot.
    """

    def __init__(self, users: Users, decode_table: Callable[[bytes], Mapping[str, object]]) -> None:
        self._users = users
        self._decode_table = decode_table

    def first(self, response: bytes) -> Step:
        """Judge the response."""
        return _judge(self._users, read_amqplain(response, self._decode_table))

    def next(self, response: bytes) -> Step:
        """Deny: nothing was asked."""
        return Denied("")


class External:
    """EXTERNAL (RFC 4422 appendix A): the transport has said who the client is, by its certificate.

    Args:
        users: Who may log in.
        name: Who the transport says it is.
    """

    def __init__(self, users: Users, name: str) -> None:
        self._users = users
        self._name = name

    def first(self, response: bytes) -> Step:
        """Judge the response, which may name the same user or nobody: acting for somebody else is not offered."""
        asked = response.decode("utf-8", "surrogateescape").strip("\0 ")
        known = asked in ("", self._name) and self._users.get(self._name) is not None
        return Accepted(self._name) if known else Denied(self._name)

    def next(self, response: bytes) -> Step:
        """Deny: nothing was asked."""
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
    """Read a PLAIN response, ``[authzid] NUL authcid NUL password`` (RFC 4616 section 2); None if it is not one."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        return None
    name = parts[1].decode("utf-8", "surrogateescape")
    # Acting for somebody else is not offered.
    return None if parts[0] not in (b"", parts[1]) else Credentials(name, parts[2])


def read_amqplain(response: bytes, decode_table: Callable[[bytes], Mapping[str, object]]) -> Credentials | None:
    """Read an AMQPLAIN response, a field table with LOGIN and PASSWORD but without its length; None if it is not one.

    Args:
        response: The octets that the client sent.
        decode_table: Decodes a field table's octets, raises ProtocolError if it cannot.
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
