r"""Messages of RestMS and AMQP's basic properties, both ways (4/AMQP9, properties).

============================  ====================  ==============================================================
attribute, or element         property              as text
============================  ====================  ==============================================================
delivery_mode, priority       the same              a number of one octet
timestamp                     the same              a date of HTTP; seconds since 1970 where there is no date
correlation_id, reply_to,     the same              as it is
expiration, message_id,
type, user_id, app_id
sender_id                     cluster_id            as it is; the fourteenth, which 0-9-1 calls reserved
content_encoding              the same              as it is; an addition, since no attribute has it
content/@type                 content_type          as it is; empty is absent
header                        headers               by the rule below
content/@encoding             none                  how the document has the body, and no more
============================  ====================  ==============================================================

All headers that come are texts (long strings). Those that go may have any of AMQP's types, and become texts so:

============================  ====================================================================================
text                          as it is
octets                        as UTF-8; those that are not by ``escaped``, inside of JSON as ``\xff``
true, false                   ``true``, ``false``
numbers                       in decimal, as Python writes them
timestamps                    as above
nothing                       the empty text
tables, arrays                as JSON, with all this inside
============================  ====================================================================================

The type is lost on this way: what a reader posts again has texts, and a binding that asks for a number does not match
them. What readers would refuse is left out: a header with an empty name, and a delivery mode that is neither 1 nor 2.
"""

import binascii
from base64 import b64encode
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final

import msgspec

from triomq.protocols.dates import http_date, parse_http_date
from triomq.protocols.fields import FieldValue, Timestamp, Typed
from triomq.protocols.properties import BasicProperties
from triomq.protocols.restms.documents import ContentElement, HeaderElement, MessageElement
from triomq.protocols.restms.problems import Problem, shown

_TEXTS: Final = (
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "content_encoding",
    "sender_id",
)
_texts_of: Final = attrgetter(*_TEXTS)
_MODES: Final = (1, 2)
_NUMBERS: Final = {"delivery_mode": _MODES, "priority": (0, 255)}

_LONGEST: Final = 255  # bytes of a short string
_DEEPEST: Final = 32
"""Levels of tables and arrays in a header that are written; deeper ones become null."""
_MOST_SECONDS: Final = (1 << 64) - 1

# What stands in a text as it is, besides what makes up UTF-8: all else of a body is a reason for base64.
_PLAIN: Final = bytes((9, 10, 13, *range(32, 256)))


def basic_properties(message: MessageElement) -> BasicProperties | Problem:
    """Return the properties of a message that was posted; what the server makes itself is not looked at.

    That its user may claim what it claims is checked by the one who knows the user.
    """
    found: dict[str, Any] = {}
    address = message.address
    if address is not None and len(address) * 3 > _LONGEST and _size(address) > _LONGEST:
        return _too_long("address", _size(address))
    for name, text in zip(_TEXTS, _texts_of(message), strict=True):
        if text is not None:
            if len(text) * 3 > _LONGEST and _size(text) > _LONGEST:
                return _too_long(name, _size(text))
            found[name] = text
    if "sender_id" in found:
        found["cluster_id"] = found.pop("sender_id")
    for name, limits in _NUMBERS.items():
        if text := getattr(message, name):
            value = _number(name, text, *limits)
            if isinstance(value, Problem):
                return value
            found[name] = value
    if message.timestamp:
        seconds = _seconds(message.timestamp)
        if isinstance(seconds, Problem):
            return seconds
        found["timestamp"] = seconds
    if message.headers:
        headers = headers_table(message.headers)
        if isinstance(headers, Problem):
            return headers
        found["headers"] = headers
    if message.contents and message.contents[0].type:
        kind = message.contents[0].type
        if _size(kind) > _LONGEST:
            return _too_long("type of the content", _size(kind))
        found["content_type"] = kind
    return BasicProperties(**found)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _too_long(name: str, size: int) -> Problem:
    text = f"the {name} has {size:,} bytes; AMQP has room for {_LONGEST}; send a shorter one, or put it into a header"
    return Problem("bad-property", text)


def _number(name: str, text: str, least: int, most: int) -> int | Problem:
    if text.isascii() and text.isdigit() and len(text) < 4 and least <= int(text) <= most:
        return int(text)
    return Problem(
        "bad-property", f"{name} is {shown(text)}; it takes {least} to {most}; send one of these, or leave it out"
    )


def _seconds(text: str) -> int | Problem:
    seconds = parse_http_date(text)
    if seconds is None and text.isascii() and text.isdigit() and len(text) < 21:
        seconds = int(text)
    if seconds is not None and 0 <= seconds <= _MOST_SECONDS:
        return seconds
    shape = "a date such as 'Sun, 06 Nov 1994 08:49:37 GMT', from 1970 on"
    return Problem("bad-property", f"timestamp is {shown(text)}; it takes {shape}; send one, or leave it out")


def headers_table(headers: tuple[HeaderElement, ...]) -> dict[str, FieldValue] | Problem:
    """Return headers as AMQP has them, of a message or of a join; each name can be there once."""
    table: dict[str, FieldValue] = {}
    for header in headers:
        name, value = header.name, header.value or ""
        if not name:
            return Problem("incomplete", f"a header with the value {shown(value)} has no name; send name=NAME with it")
        if name in table:
            text = f"there are two headers {shown(name)}; AMQP has one value for each; send one, or another name"
            return Problem("bad-property", text)
        if _size(name) > _LONGEST:
            return _too_long("name of a header", _size(name))
        table[name] = value if value.isascii() else _long_string(value)
    return table


def _long_string(value: str) -> FieldValue:
    try:
        value.encode()
    except UnicodeEncodeError:
        return Typed("S", value.encode("utf-8", "surrogateescape"))
    return value


def content_body(message: MessageElement) -> tuple[bytes, str | None] | str | Problem | None:
    """Return the body of a message that was posted.

    Returns:
        The body and its MIME type; or the URI of a content that was staged; or None, if there is no content.
    """
    if not message.contents:
        return None
    if len(message.contents) > 1:
        # 4/AMQP9: servers SHOULD take one.
        text = f"the message has {len(message.contents)} contents; AMQP has room for one; send several messages"
        return Problem("several", text)
    (content,) = message.contents
    if content.href:
        return content.href
    if content.encoding == "base64":
        return _decoded(content)
    if content.encoding in (None, "", "plain"):
        return content.value.encode("utf-8", "surrogateescape"), content.type or None
    text = (
        f"the encoding of the content is {shown(content.encoding)}; it can be plain or base64; send it as one of these"
    )
    return Problem("unknown-type", text)


def _decoded(content: ContentElement) -> tuple[bytes, str | None] | Problem:
    try:
        # Clients of 2009 break it into lines, and indent these.
        return binascii.a2b_base64("".join(content.value.split()), strict_mode=True), content.type or None
    except ValueError as error:
        text = f"the content is no base64: {error}; send it by RFC 4648, section 4, with its padding"
        return Problem("bad-property", text)


def embedded(body: bytes, content_type: str | None) -> ContentElement:
    """Return a content with its body in it: as text if it is purely that, which 2/RestMS wants, and in base64 if not.

    Both attributes are always there: without any, clients of 2009 lose the text.
    """
    text = _text_of(body)
    if text is None:
        return ContentElement(type=content_type or "", encoding="base64", value=b64encode(body).decode())
    return ContentElement(type=content_type or "", encoding="plain", value=text)


def _text_of(body: bytes) -> str | None:
    if body.translate(None, _PLAIN):
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    # These two are characters that XML does not have.
    return None if len(text) != len(body) and ("\ufffe" in text or "\uffff" in text) else text


def message_of(
    properties: BasicProperties, body: bytes, *, address: str, redelivered: bool = False, href: str | None = None
) -> MessageElement:
    """Return a message as it is delivered, with one content.

    Args:
        properties: As AMQP has them; of a message of another protocol as AMQP would have them.
        body: Of the message; an empty one without a type is no content.
        address: The routing key.
        redelivered: Whether it was given to another pipe before.
        href: Where it is, if it does not stand at its own URI.
    """
    mode, priority, at = properties.delivery_mode, properties.priority, properties.timestamp
    return MessageElement(
        href=href,
        address=address,
        message_id=properties.message_id,
        reply_to=properties.reply_to,
        delivery_mode=str(mode) if mode in _MODES else None,
        priority=None if priority is None else str(priority),
        correlation_id=properties.correlation_id,
        expiration=properties.expiration,
        timestamp=None if at is None else _date(at),
        type=properties.type,
        user_id=properties.user_id,
        app_id=properties.app_id,
        sender_id=properties.cluster_id,
        content_encoding=properties.content_encoding,
        redelivered="1" if redelivered else None,
        headers=header_elements(properties.headers) if properties.headers else (),
        contents=(embedded(body, properties.content_type),) if body or properties.content_type else (),
    )


def header_elements(table: dict[str, FieldValue]) -> tuple[HeaderElement, ...]:
    """Return headers as texts, but for one whose name is empty: a reader would refuse the document."""
    return tuple(
        HeaderElement(name, value if type(value) is str else _text(value)) for name, value in table.items() if name
    )


def _text(value: FieldValue) -> str:
    plain = _plain(value)
    match plain:
        case str():
            return plain
        case None:
            return ""
        case bool() | list() | dict():
            return msgspec.json.encode(plain).decode()
        case _:
            return str(plain)


def _plain(value: FieldValue, depth: int = 0) -> Any:
    """Return a value in terms of JSON; a date and a decimal are texts."""
    match value:
        case Typed():
            return _plain(value.value, depth)
        case str() if depth:
            return _unicode(value)
        case Timestamp():
            return _date(value.seconds)
        case bytes():
            text = value.decode("utf-8", "surrogateescape")
            return _unicode(text) if depth else text
        case Decimal():
            return str(value)
        case list() | dict() if depth == _DEEPEST:
            return None
        case list():
            return [_plain(item, depth + 1) for item in value]
        case dict():
            return {_unicode(name): _plain(item, depth + 1) for name, item in value.items()}
        case _:
            return value


def _unicode(text: str) -> str:
    r"""Write octets that are not UTF-8 as ``\xff``: inside of JSON there is no other way."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _date(seconds: int) -> str:
    try:
        return http_date(seconds)
    except ValueError:  # of a 64-bit number most are beyond the year 9999
        return str(seconds)
