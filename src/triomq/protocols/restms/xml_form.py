"""Documents in XML (1/RestTL, XML documents): attributes for properties, elements for children.

Read by expat, with handlers that build what JSON would have held; from there on both forms are one. What could make
a small document large is refused at its first word: a DOCTYPE, and with it entities. Namespaces are passed over, since
the clients of 2009 have another one than the specification: a prefix is cut off, and attributes with one are unknown.

Written out of what JSON would have held as well: an element a line, attributes in the order of the structs.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from xml.parsers import expat

import msgspec

from triomq.protocols.restms.documents import KINDS, ContentElement, Document, Element, FeedElement
from triomq.protocols.restms.escapes import MARK, NOT_IN_XML, escape, unescape
from triomq.protocols.restms.limits import (
    DEEPEST,
    MOST_ATTRIBUTES,
    MOST_ELEMENTS,
    Unreadable,
    refuse_attributes,
    refuse_depth,
    refuse_elements,
)
from triomq.protocols.restms.problems import Problem, shown

NAMESPACE: Final = "http://www.restms.org/schema/restms"

_ENCODINGS: Final = ("utf-8", "us-ascii", "iso-8859-1", "utf-16")
"""What expat reads by itself; for any other it would ask Python's codecs, some of which do more than decode."""

# Attributes that would be taken for children, or for the text of a content, and are unknown.
_RESERVED: Final = {kind: frozenset(children) for kind, children in KINDS.items()} | {
    ContentElement: frozenset({"value"})
}
_ROOT: Final[dict[str, type[Element]]] = {"restms": Document}
_IN_CONTENT: Final = KINDS[ContentElement]

_BEGIN: Final = f'<?xml version="1.0" encoding="UTF-8"?>\n<restms xmlns="{NAMESPACE}">\n'

# In UTF-8: what XML can carry, what needs no quoting in an element's text, and in an attribute.
_CARRIED: Final = bytes((9, 10, 13, *range(32, 256)))
_PLAIN_TEXT: Final = bytes(sorted(set(_CARRIED) - set(b"&<>\r")))
_PLAIN: Final = bytes(sorted(set(_PLAIN_TEXT) - set(b'"\t\n')))
_TAG: Final = re.compile(rb"""[^"'>]*+(?:"[^"]*+"?[^"'>]*+|'[^']*+'?[^"'>]*+)*+""")
"""The rest of a tag behind its ``<``, before its ``>``."""

_NONCHARACTERS: Final = re.compile(b"\xef\xbf[\xbe\xbf]")  # U+FFFE and U+FFFF


def parse_xml(body: bytes, charset: str = "") -> Document | Problem:
    """Read a document.

    Args:
        body: All of it.
        charset: What the media type says of its encoding, which precedes what it says itself (RFC 7303).
    """
    try:
        return _parse(body, charset or None)
    except Unreadable as error:
        return error.problem
    except expat.ExpatError as error:
        where = f"line {error.lineno}, column {error.offset + 1}"
        reason = expat.ErrorString(error.code)
    except (ValueError, LookupError) as error:  # a byte that the encoding does not have
        where, reason = "an unknown place", str(error)
    return Problem("unreadable", f"the document is no XML: {reason} at {where}; send well-formed XML in UTF-8")


def _has_wide_tag(body: bytes) -> bool:
    """Return whether there may be a tag with too many attributes; expat reports one when it has read all of them."""
    if body.count(b"=") <= MOST_ATTRIBUTES:
        return False
    # No attribute has a "<" in it. Behind the tag there may be text, with any number of "=".
    return any(
        part.count(b"=") > MOST_ATTRIBUTES and _TAG.match(part)[0].count(b"=") > MOST_ATTRIBUTES  # type: ignore[index]
        for part in body.split(b"<")
    )


def _parse(body: bytes, charset: str | None) -> Document:
    if _has_wide_tag(body):
        raise refuse_attributes()
    reader = _TreeBuilder()
    parser = expat.ParserCreate(charset)
    parser.StartElementHandler = reader.start if body.count(b"=") <= MOST_ATTRIBUTES else reader.start_counting
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.texts.append
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.XmlDeclHandler = _check_encoding
    parser.Parse(body, True)
    (root,) = reader.root["restms"]
    return msgspec.convert(root, Document)


class _TreeBuilder:
    """Builds dictionaries out of what expat reports.

    ``path`` has what was open around each open element, and the kinds of its children; ``skipped`` is how deep it is in
    one that is passed over, and ``mark`` how many pieces of text there were before.
    """

    __slots__ = ("attributes", "count", "current", "kinds", "mark", "path", "root", "skipped", "texts")

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.current = self.root
        self.kinds = _ROOT
        self.path: list[tuple[dict[str, Any], dict[str, type[Element]]]] = []
        self.texts: list[str] = []
        self.count = self.attributes = self.skipped = self.mark = 0

    def start(self, name: str, attributes: dict[str, Any]) -> None:
        self.count += 1
        if self.count > MOST_ELEMENTS:
            raise refuse_elements()
        kind = None if self.skipped else self.kinds.get(name)
        if kind is None:
            name = name.rpartition(":")[2]
            kind = None if self.skipped else self.kinds.get(name)
            if kind is None:
                self._skip(name)
                return
        if not _RESERVED[kind].isdisjoint(attributes):
            attributes = {key: text for key, text in attributes.items() if key not in _RESERVED[kind]}
        parent = self.current
        if name in parent:
            parent[name].append(attributes)
        else:
            parent[name] = [attributes]
        self.path.append((parent, self.kinds))
        self.current, self.kinds = attributes, KINDS[kind]
        self.texts.clear()

    def start_counting(self, name: str, attributes: dict[str, Any]) -> None:
        """Do the same in a document that may have too many attributes."""
        self.attributes += len(attributes)
        if self.attributes > MOST_ATTRIBUTES:
            raise refuse_attributes()
        self.start(name, attributes)

    def _skip(self, name: str) -> None:
        if not self.path:
            text = f"the root of the document is {shown(name)}; it must be restms; put the resources into <restms>"
            raise Unreadable(Problem("unreadable", text))
        if not self.skipped:
            self.mark = len(self.texts)
        self.skipped += 1
        if self.skipped + len(self.path) > DEEPEST:
            raise refuse_depth()

    def end(self, _name: str) -> None:
        if self.skipped:
            self.skipped -= 1
            del self.texts[self.mark :]
            return
        element = self.current
        if self.kinds is _IN_CONTENT:
            element["value"] = "".join(self.texts)
        if MARK in element:
            unescape(element)
        self.texts.clear()
        self.current, self.kinds = self.path.pop()


def _refuse_doctype(*_: object) -> None:
    text = "the document has a DOCTYPE, which can declare entities; RestMS has neither; take the declaration out"
    raise Unreadable(Problem("unreadable", text))


def _check_encoding(_version: str, encoding: str | None, _standalone: int) -> None:
    if encoding and encoding.lower() not in _ENCODINGS:
        text = f"the document says that it is {shown(encoding)}; it can be {', '.join(_ENCODINGS)}; send UTF-8"
        raise Unreadable(Problem("unreadable", text))


def render_xml(document: Document) -> bytes:
    """Write a document, with its declaration."""
    pieces = [_BEGIN]
    _write_children(msgspec.to_builtins(document), pieces.append)
    pieces.append("</restms>\n")
    return "".join(pieces).encode()


def feeds_as_xml(feeds: Sequence[FeedElement]) -> bytes:
    """Write feeds as they stand in a domain."""
    pieces: list[str] = []
    _write_children({"feed": tuple(map(msgspec.to_builtins, feeds))}, pieces.append)
    return "".join(pieces).encode()


def _write_children(element: dict[str, Any], write: Callable[[str], None]) -> None:
    for name, children in element.items():
        if type(children) is tuple:
            for child in children:
                _write(name, child, write)


def _write(name: str, element: dict[str, Any], write: Callable[[str], None]) -> None:
    text = element.pop("value", "") if name == "content" else ""
    attributes = [f' {key}="{value}"' for key, value in element.items() if type(value) is str]
    has_children = len(attributes) != len(element)
    begin = f"<{name}{''.join(attributes)}"
    # All attributes are looked at together: of what is plain nothing is left but our own markup.
    if _left(begin, _PLAIN) != b"<" + b'""' * len(attributes) or (text and _left(text, _PLAIN_TEXT)):
        begin, text = _quoted(name, element, text)
    if text:
        write(f"{begin}>{text}</{name}>\n")
    elif has_children:
        write(f"{begin}>\n")
        _write_children(element, write)
        write(f"</{name}>\n")
    else:
        write(f"{begin}/>\n")


def _left(text: str, plain: bytes) -> bytes:
    """Return what is not plain in a text; twenty times as fast as a regular expression where it is long."""
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        return b"surrogates"
    left = octets.translate(None, plain)
    return b"noncharacters" if len(octets) != len(text) and _NONCHARACTERS.search(octets) else left


def _quoted(name: str, element: dict[str, Any], text: str) -> tuple[str, str]:
    """Return the begin of an element, and its text, with all of them quoted; what XML cannot carry is escaped."""
    values = {key: value for key, value in element.items() if type(value) is str}
    if escaped := [key for key, value in values.items() if _left(value, _CARRIED)]:
        values |= {key: escape(values[key], NOT_IN_XML) for key in escaped}
    if _left(text, _CARRIED):
        text = escape(text, NOT_IN_XML)
        escaped.append("value")
    if escaped:
        values[MARK] = " ".join(escaped)
    begin = "".join(f' {key}="{_quote(value).translate(_IN_ATTRIBUTE)}"' for key, value in values.items())
    return f"<{name}{begin}", _quote(text)


def _quote(text: str) -> str:
    # Section 2.11: an end of line that is written as it is would be read as another one.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


# Section 3.3.3: written as they are, tabs and ends of lines in attributes would be read as spaces.
_IN_ATTRIBUTE: Final = str.maketrans({'"': "&quot;", "\n": "&#10;", "\t": "&#9;"})
