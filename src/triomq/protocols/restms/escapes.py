"""Texts that a form cannot carry, and how they are carried all the same.

XML has no way to write U+0000 to U+001F but tab, line feed and carriage return, nor U+FFFE and U+FFFF; neither form has
one for bytes that are not UTF-8, which names and identifiers of AMQP may hold. In such a text what cannot stand there
is percent-encoded, and so is ``%`` itself; the attribute ``escaped`` of the same element names the attributes that
are, with ``value`` for the text of a content:

    <message address="a.b" correlation_id="%01%FFok" escaped="correlation_id">

So nothing is lost, and what can be written as it is looks as ever. Bytes that are not UTF-8 are surrogates in Python's
texts (``surrogateescape``), as everywhere here.
"""

import re
from collections.abc import MutableMapping
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

MARK: Final = "escaped"
"""The attribute that names others; both forms have it, and no document outside of them."""

NOT_IN_XML: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML 1.0 cannot carry (section 2.2)."""
NOT_IN_JSON: Final = re.compile("[\ud800-\udfff]")

_ESCAPED_IN: Final = {form: re.compile(f"%|{form.pattern}") for form in (NOT_IN_XML, NOT_IN_JSON)}


def escape(text: str, form: re.Pattern[str]) -> str:
    """Percent-encode what a form cannot carry."""
    return _ESCAPED_IN[form].sub(_encode, text)


def _encode(found: re.Match[str]) -> str:
    try:
        octets = found[0].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, which came from a program of our own and from no wire
        octets = "\ufffd".encode()
    return quote_from_bytes(octets, safe="") if octets != b"%" else "%25"


def unescape(attributes: MutableMapping[str, object]) -> None:
    """Give an element the texts that the attribute ``escaped`` says are encoded, and take that attribute off."""
    for name in set(str(attributes.pop(MARK)).split()):
        text = attributes.get(name)
        if isinstance(text, str):
            attributes[name] = unquote_to_bytes(text).decode("utf-8", "surrogateescape")
