r"""Heads: the grammar of RFC 9112, in regular expressions, for requests and answers.

    POST /restms/feed/news HTTP/1.1\r\n        request line
    Host: example.org\r\n                      header fields, each a line
    Content-Length: 5\r\n
    \r\n                                       the head's end

Rules:

- A head that is not exactly this is refused. Whatever can be read in two ways is: a line that ends with LF alone, a
  field that is folded over lines, a space before its colon, a control character, a length that is given twice, or
  beside chunks. A proxy in front of us may have read it in the other way, and would take the rest of one client's body
  for the next request of another (request smuggling; RFC 9112 section 11.2).
- A head is matched as a whole, in C. Only one that does not match, or does not end, is looked at line by line, for the
  first fault in it. What is found there does not depend on how the bytes came in pieces.
- What begins wrong is refused at once, and not when its end has come, which may never be: ``AMQP`` and TLS begin
  without a line.
- A client sends the same header fields with each request of a connection, to the octet, but for the length of the
  body. So those of the last request are remembered, and looked at again only when they are others (``RequestReader``).

What was tried, as microseconds for a POST with seven fields on one core: h11 31, and 48 with its answer; llhttp by way
of httptools 1.8; this 3.5, and 8.3 with its answer. Both would need the same look at every byte in front of them. h11
lets pass LF alone, folded fields, a length beside chunks and extensions of chunks. llhttp lets pass a second ``Host``
and a missing one, two spaces, ``gzip, chunked``, and it neither pauses between two requests nor tells where one has
ended. Both are asked in the tests about the same bytes: what one of them refuses is refused here, but for what
``docs/topics/http.rst`` lists.
"""

import re
from typing import Final, NamedTuple

import msgspec

from triomq.protocols.http1.codes import PeerError
from triomq.protocols.http1.events import RequestHead, ResponseHead
from triomq.protocols.http1.faults import HeadKind, fault_of
from triomq.protocols.http1.grammar import REQUEST_LINE, STATUS_LINE, TOKEN, VALUE
from triomq.protocols.http1.settings import Settings

HEAD_END: Final = b"\r\n\r\n"

_BEHIND_TARGET: Final = len(" HTTP/1.1\r\n")

_FIELDS: Final = rf"((?:{TOKEN}:{VALUE}\r\n)*+)\r\n"
_REQUEST_LINE: Final = re.compile(REQUEST_LINE)
_REQUEST: Final = re.compile(rf"{REQUEST_LINE}\r\n{_FIELDS}")
_RESPONSE: Final = re.compile(rf"{STATUS_LINE}\r\n{_FIELDS}")
_TRAILER: Final = re.compile(_FIELDS)

_ABSOLUTE: Final = re.compile(r"https?://([^/?@]+)(/[^?]*)?(?:\?(.*))?", re.IGNORECASE)
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~%!$&'()*+,;=]*)(?::[0-9]{0,5})?")
_MOST_DIGITS: Final = 15
"""Digits of a body's length: more bytes do not fit on any disk."""
_LENGTH: Final = re.compile(rf"[0-9]{{1,{_MOST_DIGITS}}}")

_ONCE: Final = frozenset(("host", "content-length", "transfer-encoding", "authorization", "content-type", "expect"))
"""Fields that may be there once only: two of them can be read in two ways."""


_LENGTH_FIELD: Final = b"\r\nContent-Length: "
"""How most clients write it. No value has an end of line in it, so wherever this stands it begins the field."""


class BodyFraming(NamedTuple):
    """How a body ends: ``length`` bytes, or chunks; with neither, by the end of the stream."""

    length: int | None
    chunked: bool


class RequestReader:
    """Reads the heads of one connection, and remembers the last one: its header fields mostly come again.

    Args:
        settings: The limits.
    """

    __slots__ = ("_head", "_last", "_settings", "_split")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._head = b""  # as it came
        self._last: RequestHead | None = None  # what it says
        self._split = _Split(0, 0, 0)

    def read(self, head: bytes) -> RequestHead:
        """Return what a whole head says; raises PeerError if that is not in order."""
        if head == self._head and self._last is not None:
            return msgspec.structs.replace(self._last)  # another one, though it says the same
        split, last, known = _split(head), self._split, self._head
        request: RequestHead | None = None
        if (
            head[split.fields : split.length] == known[last.fields : last.length]
            and head[split.rest :] == known[last.rest :]
            and len(head) <= self._settings.max_head
        ):
            request = self._read_repeated(head, split)
        if request is None:
            request = read_request(head.decode("latin-1"), self._settings)
        if request.target[0] == "/":  # otherwise it has another host than the fields say
            self._head, self._last, self._split = head, request, split
        return request

    def _read_repeated(self, head: bytes, split: "_Split") -> RequestHead | None:
        """Return what a head with the last one's fields says; None if it has to be looked at as a whole."""
        last = self._last
        assert last is not None  # there is no head without fields
        match = _REQUEST_LINE.fullmatch(head[: split.fields].decode("latin-1"))
        if match is None or split.fields + len("\r\n") > self._settings.max_line:
            return None
        method, target, minor = match.groups()
        if target[0] != "/" or int(minor) != last.version:
            return None
        length, headers = last.length, last.headers
        if split.length < len(head):
            digits = head[split.length : split.rest]
            if not digits.isdigit() or len(digits) > _MOST_DIGITS:
                return None
            length = int(digits)
            headers = {**headers, "content-length": digits.decode()}
        path, _, query = target.partition("?")
        return RequestHead(
            method=method,
            target=target,
            path=path,
            query=query,
            headers=headers,
            length=length,
            version=last.version,
            keep_alive=last.keep_alive,
            expects_continue=last.expects_continue,
        )


class _Split(NamedTuple):
    """Where in a head the header fields begin, and where the digits of the body's length begin and end."""

    fields: int
    length: int
    rest: int


def _split(head: bytes) -> _Split:
    """Look for the length; where there is none, or it is written in another way, it is at the end."""
    fields = head.find(b"\r\n")
    length = head.find(_LENGTH_FIELD, fields)
    if length < 0:
        return _Split(fields, len(head), len(head))
    length += len(_LENGTH_FIELD)
    return _Split(fields, length, head.find(b"\r\n", length))


def read_request(text: str, settings: Settings) -> RequestHead:
    """Return what a whole head says; raises PeerError if that is not in order."""
    match = _REQUEST.fullmatch(text)
    if match is None or match.end(2) > settings.max_line - _BEHIND_TARGET or len(text) > settings.max_head:
        raise fault_of(text, "request", settings)
    method, target, minor, lines = match.groups()
    headers = _read_fields(lines, text, "request", settings)
    version = int(minor)
    path, query = _read_target(method, target, headers, version)
    framing = _framing(headers)
    if framing.chunked and not version:
        raise PeerError(400, "HTTP/1.0 knows no Transfer-Encoding; send Content-Length")
    connection = headers.get("connection", "").lower()
    return RequestHead(
        method=method,
        target=target,
        path=path,
        query=query,
        headers=headers,
        length=None if framing.chunked else framing.length or 0,
        version=version,
        keep_alive=_has(connection, "keep-alive") if not version else not (connection and _has(connection, "close")),
        expects_continue=_read_expect(headers, version),
    )


def read_response(text: str, settings: Settings) -> ResponseHead:
    """Return what the head of an answer says; raises PeerError if that is not in order."""
    match = _RESPONSE.fullmatch(text)
    if match is None or len(text) > settings.max_head:
        raise fault_of(text, "response", settings)
    minor, status, reason, lines = match.groups()
    headers = _read_fields(lines, text, "response", settings)
    version = int(minor)
    framing = _framing(headers)
    connection = headers.get("connection", "").lower()
    return ResponseHead(
        status=int(status),
        reason=reason or "",
        headers=headers,
        length=None if framing.chunked else framing.length,
        version=version,
        keep_alive=_has(connection, "keep-alive") if not version else not _has(connection, "close"),
    )


def check_trailer(text: str) -> None:
    """Raise PeerError unless this is what may stand behind the last chunk; nobody reads it."""
    if _TRAILER.fullmatch(text) is None:
        raise PeerError(400, "what stands behind the last chunk are no header fields")


# What the fields say


def _read_fields(lines: str, text: str, kind: HeadKind, settings: Settings) -> dict[str, str]:
    """Return the fields by their names in lower case."""
    headers: dict[str, str] = {}
    found = lines.split("\r\n")
    if len(found) - 1 > settings.max_fields:
        raise fault_of(text, kind, settings)
    found.pop()
    for line in found:
        name, _, value = line.partition(":")
        name = name.lower()
        value = value.strip(" \t")
        if name not in headers:
            headers[name] = value
        elif name in _ONCE:
            raise PeerError(400, f"{name} is there more than once; send it once")
        else:
            headers[name] += ("; " if name == "cookie" else ", ") + value
    return headers


def _read_target(method: str, target: str, headers: dict[str, str], version: int) -> tuple[str, str]:
    """Return path and query, and have ``host`` say where the request goes (RFC 9112 section 3.2)."""
    host = headers.get("host")
    if host is None and version:
        raise PeerError(400, "there is no Host; HTTP/1.1 has one in every request")
    if host and _HOST.fullmatch(host) is None:
        raise PeerError(400, "Host is not a name or an address, with or without a port")
    if target[0] == "/":
        path, _, query = target.partition("?")
        return path, query
    if method == "CONNECT":
        raise PeerError(501, "CONNECT is not offered: this is no proxy")
    if target == "*" and method == "OPTIONS":
        return target, ""
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or _HOST.fullmatch(absolute[1]) is None:
        raise PeerError(400, "the target is neither a path, which begins with /, nor a URI of http or https")
    headers["host"] = absolute[1]  # "MUST ignore the received Host header field (if any)", section 3.2.2
    return absolute[2] or "/", absolute[3] or ""


def _framing(headers: dict[str, str]) -> BodyFraming:
    """Return how the body ends (RFC 9112 section 6.3)."""
    length = headers.get("content-length")
    coding = headers.get("transfer-encoding")
    if coding is not None:
        if length is not None:
            raise PeerError(400, "Content-Length and Transfer-Encoding are both there; send one of them")
        if coding.lower() != "chunked":
            raise PeerError(501, "Transfer-Encoding is not chunked alone, which is all that is read here")
        return BodyFraming(None, True)
    if length is None:
        return BodyFraming(None, False)
    if _LENGTH.fullmatch(length) is None:
        raise PeerError(400, f"Content-Length is not a number of at most {_MOST_DIGITS} digits")
    return BodyFraming(int(length), False)


def _read_expect(headers: dict[str, str], version: int) -> bool:
    """Return whether the client waits to be asked for the body; one of HTTP/1.0 cannot (RFC 9110 section 10.1.1)."""
    expect = headers.get("expect")
    if expect is None or not version:
        return False
    if expect.lower() != "100-continue":
        raise PeerError(417, "Expect is not 100-continue, which is all that can be expected here")
    return True


def _has(connection: str, option: str) -> bool:
    """Return whether a list has an option."""
    return connection == option or option in [found.strip(" \t") for found in connection.split(",")]
