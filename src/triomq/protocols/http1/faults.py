"""The first fault of a head that is none, and of one that has begun and cannot become one.

Looked for line by line, and only then: what is said of a line depends on it and on those before it alone, so it is the
same however the bytes were cut.
"""

import re
from typing import Final, Literal, TypeAlias

from triomq.protocols.http1.codes import PeerError
from triomq.protocols.http1.grammar import REQUEST_LINE, STATUS_LINE, TOKEN, VALUE
from triomq.protocols.http1.settings import Settings

HeadKind: TypeAlias = Literal["request", "response"]

_REQUEST_START: Final = re.compile(rf"{TOKEN}(?: |\Z)")
_STATUS_START: Final = re.compile(r"(?:H(?:T(?:T(?:P(?:/(?:1(?:\.(?:[0-9](?: .*)?)?)?)?)?)?)?)?)?\Z", re.DOTALL)
_ANY_REQUEST: Final = re.compile(rf"{TOKEN} [!-~]+ HTTP/[0-9]\.[0-9]")
_NAME: Final = re.compile(rf"({TOKEN})?([ \t]*)(:?)")


def check_begun(data: bytes, kind: HeadKind, settings: Settings) -> None:
    """Raise PeerError if a head that has begun cannot become one."""
    start = _REQUEST_START if kind == "request" else _STATUS_START
    limit = settings.max_line if kind == "request" else settings.max_head
    if len(data) > limit or b"\n" in data or not start.match(data[:limit].decode("latin-1")):
        fault = _first_fault(data.decode("latin-1"), kind, settings)
        if fault is not None:
            raise fault


def fault_of(text: str, kind: HeadKind, settings: Settings) -> PeerError:
    """Return why a whole head is none."""
    fault = _first_fault(text, kind, settings)
    assert fault is not None, text  # otherwise it would have matched
    return fault


def _first_fault(text: str, kind: HeadKind, settings: Settings) -> PeerError | None:
    """Return the first fault of a head, which may not be whole; None if there is none yet.

    What is said of a line depends on it and on those before it alone.
    """
    fault = _fault_of_first_line(text, kind, settings)
    end = text.find("\n", 0, settings.max_head)
    number = 0
    while fault is None and end >= 0:
        start, end = end + 1, text.find("\n", end + 1, settings.max_head)
        line = text[start : end + 1]
        if line == "\r\n":
            return None
        if end >= 0:
            number += 1
            fault = _fault_of_field(line, number, settings)
    if fault is None and len(text) > settings.max_head:
        return PeerError(431, f"the head has more than {settings.max_head} bytes")
    return fault


def _fault_of_first_line(text: str, kind: HeadKind, settings: Settings) -> PeerError | None:
    if kind == "response":
        line, end, _ = text[: settings.max_head].partition("\n")
        if re.fullmatch(STATUS_LINE + "\r", line) if end else _STATUS_START.match(line):
            return None
        return PeerError(400, "an answer does not begin with HTTP/1.1 and a status")
    wrong = PeerError(400, "a request does not begin with its method, its target and HTTP/1.1, a space between them")
    if not _REQUEST_START.match(text):
        return wrong
    end_of_line = text.find("\n", 0, settings.max_line)
    if end_of_line < 0:
        too_long = len(text) > settings.max_line
        return PeerError(414, f"the request line has more than {settings.max_line} bytes") if too_long else None
    line = text[: end_of_line + 1]
    if not line.endswith("\r\n"):
        return PeerError(400, "the request line ends with LF alone; lines end with CR LF")
    if not _ANY_REQUEST.fullmatch(line[:-2]):
        return wrong
    if re.fullmatch(REQUEST_LINE, line[:-2]):
        return None
    if "#" in line.split(" ")[1]:
        return PeerError(400, "the target has a fragment, which clients keep to themselves")
    return PeerError(505, "this version of HTTP is not spoken here; use HTTP/1.1")


def _fault_of_field(line: str, number: int, settings: Settings) -> PeerError | None:
    """Return what is wrong with a line behind the first one."""
    if not line.endswith("\r\n"):
        return PeerError(400, "a line of the head ends with LF alone; lines end with CR LF")
    if number > settings.max_fields:
        return PeerError(431, f"the head has more than {settings.max_fields} header fields")
    if line[0] in " \t":
        return PeerError(400, "a header field is folded over lines; send it in one")
    name = _NAME.match(line)
    assert name is not None  # all of it is optional
    if not name[1] or not name[3]:
        return PeerError(400, "a line of the head is no header field, which has a name and a colon")
    if name[2]:
        return PeerError(400, "there is a space between the name of a header field and its colon")
    if re.fullmatch(VALUE, line[name.end() : -2]) is None:
        return PeerError(400, "a header field has a control character in its value")
    return None
