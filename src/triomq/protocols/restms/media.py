"""Media types: what a request's body is, and what its answer is to be.

Three are RestMS's own: ``application/restms+xml``, ``application/restms+json``, and ``text/xml``, which means the same
as no type at all. Programs of today ask for others, so these are taken for one of the three:

    */*  text/*                          as if nothing had been asked for: curl and browsers always say it
    application/xml                      text/xml, of which it is an alias (RFC 7303); browsers show it
    application/json                     application/restms+json
    application/*                        application/restms+xml

What cannot be met is 501, where HTTP has 406 and 415 (1/RestTL: SHOULD).

At a feed the type of a body also says what it is for: with one of RestMS's own three it is a document of messages, with
any other a content that is staged. So the aliases do not hold there: ``application/json`` is a content.
"""

import re
from functools import lru_cache
from typing import Final

import msgspec

from triomq.protocols.restms.problems import Problem, shown


class MediaType(msgspec.Struct, frozen=True, gc=False):
    """A form that documents have.

    Args:
        name: The MIME type.
        tag: One letter, by which entity tags of different types differ.
        charset: What a request's Content-Type says of the encoding; empty for nothing.
    """

    name: str
    tag: str
    charset: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the document is JSON; if not, it is XML."""
        return self.tag == "j"


XML: Final = MediaType("application/restms+xml", "x")
TEXT_XML: Final = MediaType("text/xml", "t")
JSON: Final = MediaType("application/restms+json", "j")
EVENTS: Final = MediaType("text/event-stream", "e")
"""Messages of a pipe as server-sent events: an addition, for GET of a pipe alone."""

OURS: Final = (XML, TEXT_XML, JSON)

_OWN: Final = {media.name: media for media in OURS}
_DOCUMENTS: Final = _OWN | {"application/xml": TEXT_XML, "application/json": JSON}
_ACCEPTED: Final = _DOCUMENTS | {"application/*": XML}
_DEFAULTS: Final = ("*/*", "text/*")

_CHARSETS: Final = {
    False: ("", "utf-8", "us-ascii", "iso-8859-1", "utf-16"),  # what expat reads by itself
    True: ("", "utf-8", "us-ascii"),  # RFC 8259, section 8.1: JSON is UTF-8
}

_NAME: Final = re.compile(r"[ \t]*([!#-'*+.^_`|~0-9a-zA-Z-]+/[!#-'*+.^_`|~0-9a-zA-Z-]+)[ \t]*")
_PARAMETER: Final = re.compile(r'[ \t]*;[ \t]*(?:([!#-\'*+.^_`|~0-9a-zA-Z-]+)=("(?:[^"\\]|\\.)*"|[^ \t;,"]*))?[ \t]*')
_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
_LONGEST: Final = 2048
"""Characters of a field that is read: what browsers send has some 150. It bounds what is remembered, too."""


def accepted(accept: str | None, default: MediaType = TEXT_XML, *, events: bool = False) -> MediaType | Problem:
    """Choose the form of an answer.

    Args:
        accept: The request's field; None or empty if it has none.
        default: If nothing or everything is acceptable: after POST and PUT the type of the request's own document.
        events: Whether this resource can be sent as events.
    """
    if not accept or accept == "*/*":
        return _OWN.get(default.name, default)
    if len(accept) > _LONGEST:
        return Problem(
            "media-type", f"Accept has {len(accept):,} characters; at most {_LONGEST:,} are read; send fewer"
        )
    return _accepted(accept, default, events)


@lru_cache(maxsize=256)
def _accepted(accept: str, default: MediaType, events: bool) -> MediaType | Problem:
    best, weight = None, 0.0
    for name, value in _weighted(accept):
        media = _answer_to(name, default, events)
        # The first of equals: whoever lists two likes the first better.
        if media is not None and value > weight and _weight_of(media, accept) > 0:
            best, weight = media, value
    if best is not None:
        return best
    names = ", ".join(media.name for media in (*OURS, *([EVENTS] if events else [])))
    return Problem("media-type", f"Accept is {shown(accept)}; this can be sent as {names}; ask for one of these")


def _answer_to(name: str, default: MediaType, events: bool) -> MediaType | None:
    if name in _DEFAULTS:
        return default
    if events and name == EVENTS.name:
        return EVENTS
    return _ACCEPTED.get(name)


def _weight_of(media: MediaType, accept: str) -> float:
    """Return what is said of just this type, which may be that it is not acceptable; 1 if nothing is."""
    return next((value for name, value in _weighted(accept) if name == media.name), 1.0)


def _weighted(accept: str) -> list[tuple[str, float]]:
    """Read names and weights; parts that are none are passed over."""
    found = []
    for part in _split(accept):
        if name := _NAME.match(part):
            weight = _parameters(part[name.end() :]).get("q", "1")
            found.append((name[1].lower(), float(weight) if _WEIGHT.fullmatch(weight) else 0.0))
    return found


def _split(accept: str) -> list[str]:
    """Split at commas that are not quoted."""
    if '"' not in accept:
        return accept.split(",")
    return re.findall(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', accept)


def _parameters(text: str) -> dict[str, str]:
    found, position = {}, 0
    while (match := _PARAMETER.match(text, position)) is not None:
        if match[1]:
            found[match[1].lower()] = match[2].strip('"')
        position = match.end()
    return found


def document_type(content_type: str | None) -> MediaType | Problem:
    """Say what a document is, that is put, or posted to a domain or to a pipe; without a type it is ``text/xml``."""
    if not content_type or content_type.isspace():
        return TEXT_XML
    media = _media_of(content_type, _DOCUMENTS)
    if media is None:
        names = ", ".join(_OWN)
        text = f"Content-Type is {shown(content_type)}; a document is one of {names}; send it as one of these"
        return Problem("media-type", text)
    return media


def message_type(content_type: str | None) -> MediaType | Problem | None:
    """Say what is posted to a feed: a document of messages in this form, or with None a content that is to be staged.

    No type at all is a content: clients of 2009 send one so (C10).
    """
    return _media_of(content_type or "", _OWN)


def content_coding(content_encoding: str) -> Problem | None:
    """Say what is wrong with the content codings of a body, as gzip is one: none is undone here, and none is kept.

    2/RestMS: of what is staged the content type alone reaches the message. So a coding that was taken without a word
    would be lost, and a reader would take what is compressed for what it was; AMQP's property can say it.

    Args:
        content_encoding: The request's field.
    """
    found = [coding.strip().lower() for coding in content_encoding.split(",")]
    if all(coding in ("", "identity") for coding in found):
        return None
    text = (
        f"Content-Encoding is {shown(content_encoding)}; bodies are taken as they are; send it unpacked, or "
        "a content without the field, and content_encoding with its message"
    )
    return Problem("media-type", text)


def _media_of(content_type: str, known: dict[str, MediaType]) -> MediaType | Problem | None:
    """Find the type that a Content-Type names; None if it is not among the known ones."""
    if content_type in known:
        return known[content_type]
    match = _NAME.match(content_type)
    media = known.get(match[1].lower()) if match else None
    if match is None or media is None:
        return None
    charset = _parameters(content_type[match.end() : _LONGEST]).get("charset", "").lower()
    if charset in _CHARSETS[media.is_json]:
        return MediaType(media.name, media.tag, charset) if charset else media
    allowed = ", ".join(_CHARSETS[media.is_json][1:])
    text = f"the charset of {media.name} is {shown(charset)}; it can be {allowed}; send UTF-8, and leave it out"
    return Problem("media-type", text)
