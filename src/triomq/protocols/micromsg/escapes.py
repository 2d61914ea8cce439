"""Percent escapes, as values of handshakes, properties and commands have them.

Read strictly: a spoilt escape would be another value. ``+`` is a plus, since these are no forms.
"""

import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from triomq.errors import LocalProtocolError
from triomq.protocols.micromsg.codes import PeerError

_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def unescape(text: str, what: str) -> str:
    """Return what an escaped text stands for.

    Args:
        text: ASCII.
        what: what it is, for the error.

    Raises:
        PeerError: an escape is spoilt, or the octets are not UTF-8.
    """
    if "%" not in text:
        return text
    if found := _BAD_ESCAPE.search(text):
        raise PeerError(400, f"{what}: {text[found.start() :][:3]!r} is no escape; it takes % and two digits")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise PeerError(400, f"{what}: the escaped octets are not UTF-8") from None


@lru_cache(maxsize=1024)
def escape(text: str) -> str:
    """Return a text with escapes for all but letters, digits and ``-_.~``.

    Raises:
        LocalProtocolError: it is not Unicode that can be written.
    """
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{text[:40]!r} cannot be written in UTF-8: {error.reason}") from None
