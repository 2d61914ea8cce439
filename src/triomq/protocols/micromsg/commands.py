"""Commands, answers to them and the frames of a log-in: what stands in COMMAND frames and in those of our extensions.

subscribe;destination=topic%2Forders,filter=priority%3EN5,id=s1
unsubscribe;id=s1
0001 200 done                     x-reply: which command, a code, a text
01 PLAIN 00 …                     x-sasl: START, a mechanism and a response; then octets alone
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError
from triomq.protocols.micromsg.escapes import escape, unescape
from triomq.protocols.micromsg.events import CommandAnswered, SASLStarted, SubscribeAsked, UnsubscribeAsked
from triomq.protocols.micromsg.filters import FilterCondition, format_filter, parse_filter
from triomq.protocols.micromsg.settings import LONGEST_COMMAND

COMMANDS: Final = 65535
"""Commands are numbered 1 to this and 1 again, as messages are."""

LONGEST_ANSWER: Final = 1024
"""Octets of the text of an answer."""

START, CHALLENGE, RESPONSE, OUTCOME = 1, 2, 3, 4
SASL_NAMES: Final = {START: "START", CHALLENGE: "CHALLENGE", RESPONSE: "RESPONSE", OUTCOME: "OUTCOME"}
"""The first octet of a frame of ``x-sasl``."""

_OF_SUBSCRIBE: Final = ("destination", "filter", "id")
_NAME: Final = re.compile("[A-Za-z0-9-]+")
_ANSWER: Final = re.compile("([0-9]{3})(?: (.*))?", re.DOTALL)


def parse_command(octets: bytes, number: int, most_conditions: int) -> SubscribeAsked | UnsubscribeAsked:
    """Read a command.

    Args:
        octets: what a COMMAND frame carries.
        number: of the command on its connection.
        most_conditions: how many conditions a filter may have.

    Raises:
        PeerError: it is none that is known, or something in it is not in order.
    """
    try:
        text = octets.decode("ascii")
    except UnicodeDecodeError:
        raise PeerError(400, "a command is not ASCII; other characters are to be escaped") from None
    written, _, rest = text.partition(";")
    name = written.strip(" ").lower()
    if name not in ("subscribe", "unsubscribe"):
        raise PeerError(501, f"command {written[:40]!r} is unknown; there are subscribe and unsubscribe")
    values = _parse_values(name, rest)
    destination, subscription_id = values.get("destination", ""), values.get("id", "")
    if name == "unsubscribe":
        if not (destination or subscription_id):
            raise PeerError(400, "unsubscribe names nothing; it takes a destination or an id")
        return UnsubscribeAsked(number, destination, subscription_id)
    if not destination:
        raise PeerError(400, "subscribe names no destination; it takes a topic or a queue")
    conditions = parse_filter(values.get("filter", ""), most_conditions)
    options = {key: value for key, value in values.items() if key not in _OF_SUBSCRIBE}
    return SubscribeAsked(number, destination, conditions, subscription_id, options)


def _parse_values(name: str, text: str) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for part in text.rstrip("; ").split(","):
        part = part.strip(" ")
        if not part:
            continue
        key, mark, value = part.partition("=")
        key = key.strip(" ").lower()
        if not mark or _NAME.fullmatch(key) is None:
            raise PeerError(400, f"{part[:40]!r} in command {name} is no key=value")
        if key in values:
            raise PeerError(400, f"{key} stands in command {name} twice")
        values[key] = unescape(value.strip(" "), f"{key[:40]} of command {name}")
    return values


def subscribe_command(
    destination: str,
    conditions: Iterable[FilterCondition],
    subscription_id: str,
    options: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Write ``subscribe``.

    Raises:
        LocalProtocolError: it cannot be written.
    """
    if not destination:
        raise LocalProtocolError("a subscription needs a destination, a topic or a queue")
    wrong = [key for key in options if key in _OF_SUBSCRIBE or _NAME.fullmatch(key) is None]
    if wrong:
        raise LocalProtocolError(f"{wrong[0]!r} is no option of a subscription; letters, digits and '-' make its name")
    return _command(
        "subscribe", destination=destination, filter=format_filter(conditions), id=subscription_id, **options
    )


def unsubscribe_command(destination: str, subscription_id: str) -> bytes:
    """Write ``unsubscribe``.

    Raises:
        LocalProtocolError: it cannot be written.
    """
    if not (destination or subscription_id):
        raise LocalProtocolError("unsubscribe takes a destination or an id")
    return _command("unsubscribe", destination=destination, id=subscription_id)


def _command(name: str, **values: str) -> bytes:
    pairs = ",".join(f"{key}={escape(value)}" for key, value in values.items() if value)
    octets = f"{name};{pairs}".encode()
    if len(octets) > LONGEST_COMMAND:
        raise LocalProtocolError(f"a command of {len(octets)} octets; servers take {LONGEST_COMMAND}")
    return octets


def answer_payload(number: int, code: int, text: str) -> bytes:
    """Write an answer to a command, its text cut where it would be too long."""
    octets = f"{code:03} {text}".encode("utf-8", "replace")[: LONGEST_ANSWER + 4]
    return number.to_bytes(2, "big") + octets


def parse_answer(octets: bytes) -> CommandAnswered:
    """Read an answer to a command.

    Raises:
        PeerError: it is none.
    """
    found = _ANSWER.fullmatch(octets[2:].decode("utf-8", "replace"))
    if found is None:
        raise PeerError(400, f"{octets[:40]!r} is no answer; it takes two octets, three digits and a text")
    return CommandAnswered(int.from_bytes(octets[:2], "big"), int(found[1]), found[2] or "")


def start_payload(mechanism: str, response: bytes) -> bytes:
    """Write the frame that a log-in begins with.

    Raises:
        LocalProtocolError: the mechanism has no name that can be written.
    """
    if not mechanism or not mechanism.isascii() or "\0" in mechanism:
        raise LocalProtocolError(f"{mechanism!r} is no name of a mechanism")
    return b"\1" + mechanism.encode() + b"\0" + response


def parse_start(octets: bytes) -> SASLStarted:
    """Read what stands behind the first octet of it.

    Raises:
        PeerError: it names no mechanism.
    """
    name, zero, response = octets.partition(b"\0")
    if not zero or not name or not name.isascii():
        raise PeerError(400, "the log-in names no mechanism; its name is ASCII and ends with a zero octet")
    return SASLStarted(name.decode(), response)
