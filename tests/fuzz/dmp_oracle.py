"""What a direct connection comes to, read in the simplest way there is, to hold the engine against."""

from typing import NamedTuple

from triomq.errors import RemoteProtocolError
from triomq.protocols.dmp import CODE_NAMES, PROTOCOL_HEADER
from triomq.protocols.properties import check_properties

MAX_MESSAGE = 4500


class Message(NamedTuple):
    """One message, taken apart."""

    exchange: bytes
    key: bytes
    properties: bytes
    options: int
    body: bytes


class Verdict(NamedTuple):
    """The messages before the end, and how far the conversation comes."""

    messages: list[Message]
    ending: str


class _Wrong(Exception):
    """What follows is no message; the code says why."""


def judge(role: str, target: str, accepted: bool, data: bytes) -> Verdict:
    """Return the messages and the ending that an engine of this role must come to."""
    return _server(target, accepted, data) if role == "server" else _client(target, data)


def _server(target: str, accepted: bool, data: bytes) -> Verdict:
    if data[:8] != PROTOCOL_HEADER:
        return Verdict([], "waiting" if PROTOCOL_HEADER.startswith(data) else "failed 501")
    lease, rest = take_word(data[8:])
    if lease is None:
        return Verdict([], "leasing")
    if not lease:
        return Verdict([], "failed 502")
    if not accepted:
        return Verdict([], "closed")
    return Verdict([], "writing") if target == "feed" else _messages(rest)


def _client(target: str, data: bytes) -> Verdict:
    for state in ("waiting", "leasing"):
        if state == "waiting" and data.startswith(b"AMQP"):
            return Verdict([], "failed 540")
        word, data = take_word(data)
        if word is None:
            return Verdict([], state)
        if not word.startswith(b"200"):
            return Verdict([], _refusal(word))
    if target == "feed":
        return _messages(data)
    word, _ = take_word(data)
    return Verdict([], "writing" if word is None else _refusal(word))


def _refusal(word: bytes) -> str:
    code = int(word[:3]) if word[:3].isdigit() else 0
    return f"refused {code}" if code in CODE_NAMES and code != 200 else "failed 502"


def take_word(data: bytes) -> tuple[bytes | None, bytes]:
    """Return the short string that octets begin with, None if it is not whole, and the rest."""
    if not data or len(data) <= data[0]:
        return None, data
    return data[1 : 1 + data[0]], data[1 + data[0] :]


def _messages(data: bytes) -> Verdict:
    found: list[Message] = []
    while len(data) >= 4:
        size = int.from_bytes(data[:4], "big")
        if size and size < 8:
            return Verdict(found, "failed 502")
        if size > MAX_MESSAGE:
            return Verdict(found, "failed 530")
        if len(data) < 4 + size:
            break
        if size:
            try:
                found.append(read(data[4 : 4 + size]))
            except (_Wrong, RemoteProtocolError, IndexError):
                return Verdict(found, "failed 502")
        data = data[4 + size :]
    return Verdict(found, "reading")


def read(octets: bytes) -> Message:
    """Parse one message, behind its size."""
    key_at = 1 + octets[0]
    flags_at = key_at + 1 + octets[key_at]
    # Properties have no length: that is where options and a length that is true follow them.
    for stop in range(flags_at + 2, len(octets) - 3):
        if int.from_bytes(octets[stop + 1 : stop + 4], "big") == len(octets) - stop - 4 and _fit(
            octets, flags_at, stop
        ):
            properties, body = octets[flags_at:stop], octets[stop + 4 :]
            return Message(octets[1:key_at], octets[key_at + 1 : flags_at], properties, octets[stop], body)
    raise _Wrong


def _fit(octets: bytes, start: int, stop: int) -> bool:
    try:
        check_properties(octets[:stop], start, stop)
    except RemoteProtocolError:
        return False
    return True
