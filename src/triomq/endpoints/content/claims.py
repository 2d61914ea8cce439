"""Properties that the broker answers for, and which messages have to be looked into at all."""

import re
from collections.abc import Sequence

from triomq.endpoints.content.heads import HAS_EXPIRATION, HAS_HEADERS, HAS_REPLY_TO, HAS_USER_ID, PropertiesShape
from triomq.endpoints.content.properties import InvalidProperties
from triomq.endpoints.content.reply_to import REPLY_TO
from triomq.endpoints.content.sender_selected import CC
from triomq.protocols import decode_properties

CHECKED = HAS_EXPIRATION | HAS_USER_ID
"""Flags of properties that the broker itself answers for."""
LOOKED_INTO = CHECKED | HAS_HEADERS | HAS_REPLY_TO
"""The same with those in which something may stand that concerns it."""

_SOUGHT = ((HAS_HEADERS, CC), (HAS_REPLY_TO, REPLY_TO.encode()))
"""Which octets, in which property, make it worth to decode what is not decoded anyway."""

_LONGEST_TIME = 10 * 365 * 24 * 60 * 60 * 1000
"""Milliseconds that a message may wait at most, as with RabbitMQ: ten years."""

_INTEGER = re.compile(r"([+-]?[0-9]+)(.*)", re.DOTALL)
"""An integer as RabbitMQ reads one from text, and what is left of the text."""


def suspects(shape: PropertiesShape, contents: Sequence[bytes]) -> Sequence[int]:
    """Number the contents of a shape whose properties have to be decoded."""
    flags, start, stop = shape.flags, shape.properties_start, shape.properties_stop
    if flags & CHECKED:
        return range(len(contents))
    found: set[int] = set()
    for flag, octets in _SOUGHT:
        if flags & flag:
            found.update([number for number, content in enumerate(contents) if content.find(octets, start, stop) >= 0])
    return sorted(found)


def check_claims(encoded: bytes, user: str) -> None:
    """Check properties that the broker itself answers for.

    Raises:
        InvalidProperties: A user-id is not the user's, or an expiration is no number of milliseconds.
    """
    properties = decode_properties(encoded)
    if properties.user_id is not None and properties.user_id != user:
        text = f"user_id property set to '{properties.user_id}' but authenticated user was '{user}'"
        raise InvalidProperties(text)
    check_expiration(properties.expiration)


def check_expiration(expiration: str | None) -> None:
    """Check the expiration property, milliseconds as text.

    Raises:
        InvalidProperties: It is no number, negative, or longer than ten years.
    """
    if expiration is None:
        return
    found = _INTEGER.match(expiration)
    if found is None:
        wrong = "no_integer"
    elif found[2]:
        wrong = f'{{leftover_string,"{found[2]}"}}'
    elif int(found[1]) < 0:
        wrong = f"{{value_negative,{int(found[1])}}}"
    elif int(found[1]) > _LONGEST_TIME:
        wrong = f"{{value_too_large,{int(found[1])}}}"
    else:
        return
    raise InvalidProperties(f"invalid expiration '{expiration}': {wrong}")
