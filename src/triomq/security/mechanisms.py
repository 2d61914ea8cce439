"""SASL mechanisms with one step: from a client's response to a name and a password."""

from collections.abc import Callable, Mapping

import msgspec

from triomq.errors import ProtocolError

__all__ = ["Credentials", "read_amqplain", "read_plain"]


class Credentials(msgspec.Struct, frozen=True, gc=False):
    """What a client says to prove who it is."""

    name: str
    password: bytes

    def __repr__(self) -> str:
        """Keep the secret out of logs."""
        return f"Credentials({self.name!r}, …)"


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
