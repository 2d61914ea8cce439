"""Documents in JSON (1/RestTL, JSON documents): ``{"restms": {CLASS: [{ATTRIBUTE: "text", CLASS: […]}]}}``.

msgspec reads the documents that are as they should be. It passes over what it does not know, and takes the last of two
equal keys, which would lose messages without a word. So the document is written again: nothing was passed over if it
has as many quotation marks as before. That costs less than half of the reading.

All others are read by the standard library, which can show every key and every number as it was written:

- a number, or true and false, is a text: ``"priority": 5`` is ``"priority": "5"``;
- one child may stand without an array, null is as if it were not there, and what is not known is passed over;
- there may be fewer texts and values in them than in the others, since it takes ten times as long;
- the same key twice in one object, and half of a surrogate pair, are refused: others would read something else there.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import msgspec

from triomq.protocols.restms.documents import KINDS, Document, Element, FeedElement, JSONRoot
from triomq.protocols.restms.escapes import MARK, NOT_IN_JSON, escape, unescape
from triomq.protocols.restms.limits import MOST_ELEMENTS, MOST_PIECES, Unreadable, refuse_elements, refuse_pieces
from triomq.protocols.restms.problems import Problem, shown

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_decoder: Final = msgspec.json.Decoder(JSONRoot)
_encoder: Final = msgspec.json.Encoder()

_Pairs = list[tuple[str, Any]]


def parse_json(body: bytes) -> Document | Problem:
    """Read a document."""
    # RFC 8259, section 8.1: "implementations that parse JSON texts MAY ignore the presence of a byte order mark".
    body = body.removeprefix(_BYTE_ORDER_MARK)
    # An escaped quotation mark can be written in two ways, which would spoil the counting.
    if body.count(b"{") <= MOST_ELEMENTS and b"\\u0022" not in body:
        try:
            root = _decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            if _encoder.encode(root).count(b'"') == body.count(b'"'):
                return root.restms
    return _parse_carefully(body)


def _parse_carefully(body: bytes) -> Document | Problem:
    if _count_pieces(body) > MOST_PIECES:
        return refuse_pieces().problem
    try:
        return _parse(body.decode())
    except Unreadable as error:
        return error.problem
    except msgspec.ValidationError as error:
        reason = f"no document of RestMS: {error}"
    except RecursionError:
        return Problem(
            "too-large", "objects and arrays are nested too deep; RestMS has 10 levels; leave the others out"
        )
    except ValueError as error:  # of UTF-8, and of JSON
        reason = f"no JSON: {error}"
    return Problem(
        "unreadable", f'the document is {reason}; send {{"restms": {{CLASS: [{{ATTRIBUTE: "text"}}]}}}} in UTF-8'
    )


def _count_pieces(body: bytes) -> int:
    """Count texts, and commas outside of them, which takes a twentieth of what reading a document takes."""
    if body.count(b'"') + body.count(b",") <= MOST_PIECES:
        return 0
    # Quotation marks in texts are escaped, and so are backslashes, which would make others look so.
    marks = body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body
    texts = marks.count(b'"') // 2
    if texts > MOST_PIECES:
        return texts
    return texts + sum([between.count(b",") for between in marks.split(b'"')[::2]])


def _parse(text: str) -> Document:
    count = 0

    def pairs(found: _Pairs) -> dict[str, Any]:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS:
            raise refuse_elements()
        return _object(found)

    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    tree = decoder.decode(text)
    if not isinstance(tree, dict) or not isinstance(tree.get("restms"), dict):
        raise ValueError('there is no object "restms" in an object')
    _tidy(tree["restms"], Document)
    return msgspec.convert(tree["restms"], Document)


def _object(pairs: _Pairs) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise Unreadable(Problem("unreadable", f"an object has the key {shown(twice)} twice; each can be there once"))
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no value of JSON")


def _tidy(element: dict[str, Any], kind: type[Element]) -> None:
    """Bring an element, and what is in it, to the types that its struct has; what cannot be brought is left."""
    for name, value in list(element.items()):
        if value is None:
            del element[name]
        elif isinstance(value, bool):
            element[name] = "true" if value else "false"
        elif isinstance(value, str) and not value.isascii() and NOT_IN_JSON.search(value):
            text = f"{shown(name)} is {shown(value)}, which has half of a surrogate pair; send both halves, or none"
            raise Unreadable(Problem("unreadable", text))
    if MARK in element:
        unescape(element)
    for name, child_kind in KINDS[kind].items():
        children = element.get(name, [])
        if isinstance(children, dict):
            element[name] = children = [children]
        for child in children if isinstance(children, list) else []:
            if isinstance(child, dict):
                _tidy(child, child_kind)


def render_json(document: Document) -> bytes:
    """Write a document."""
    try:
        return _encoder.encode(JSONRoot(document))
    except UnicodeEncodeError:
        tree = msgspec.to_builtins(document)
        _escape(tree)
        return _encoder.encode({"restms": tree})


def feeds_as_json(feeds: Sequence[FeedElement]) -> bytes:
    """Write feeds as they stand in an array, without its brackets."""
    try:
        return _encoder.encode(feeds)[1:-1]
    except UnicodeEncodeError:
        trees = msgspec.to_builtins(feeds)
        for tree in trees:
            _escape(tree)
        return _encoder.encode(trees)[1:-1]


def _escape(element: dict[str, Any]) -> None:
    """Escape what JSON cannot carry, in an element and in what is in it."""
    texts = {name: value for name, value in element.items() if isinstance(value, str)}
    if escaped := [name for name, text in texts.items() if NOT_IN_JSON.search(text)]:
        element |= {name: escape(texts[name], NOT_IN_JSON) for name in escaped}
        element[MARK] = " ".join(escaped)
    for children in element.values():
        for child in children if isinstance(children, tuple) else ():
            _escape(child)
