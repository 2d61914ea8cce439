"""What an engine reports: frozen Structs, in the order of the wire."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec


class RequestHead(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A client's request, without its body; answer it, or read its body first. Each is itself alone: nothing is equal.

    Args:
        method: Such as ``GET``, as sent.
        target: As sent.
        path: The part of the target that the path is, percent-encoded as sent; ``*`` for the whole server.
        query: What stands behind its question mark; empty also where there is none.
        headers: By names in lower case. What came several times is joined by commas, cookies by semicolons.
        length: Bytes of the body, 0 if there is none; None where it comes in chunks and nobody knows.
        version: 0 for HTTP/1.0, 1 for HTTP/1.1.
        keep_alive: Whether the client wants the connection to stay.
        expects_continue: Whether the client waits with the body until it is asked for it.
    """

    method: str
    target: str
    path: str
    query: str
    headers: Mapping[str, str]
    length: int | None
    version: int
    keep_alive: bool
    expects_continue: bool

    def __repr__(self) -> str:
        """Show no header: some are secrets, and representations end up in logs."""
        return f"RequestHead({self.method} {self.target})"


class RequestBody(msgspec.Struct, frozen=True, gc=False):
    """The body of the request, or the next piece of it; ``ended`` is whether it was the last, which may be empty."""

    data: bytes
    ended: bool


class ResponseHead(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A server's answer to the request that was sent first of those unanswered, without its body.

    Args:
        status: Its code.
        reason: The words behind it.
        headers: By names in lower case, as with a request.
        length: Bytes of the body; None where nobody knows.
        version: 0 for HTTP/1.0, 1 for HTTP/1.1.
        keep_alive: Whether the connection stays.
    """

    status: int
    reason: str
    headers: Mapping[str, str]
    length: int | None
    version: int
    keep_alive: bool


class ResponseBody(msgspec.Struct, frozen=True, gc=False):
    """The body of the answer, or the next piece of it; ``ended`` is whether it was the last, which may be empty."""

    data: bytes
    ended: bool


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The peer broke a rule, or took too long. A server's engine has answered, where it could; the engine has ended."""

    status: int
    text: str


class EndOfStream(msgspec.Struct, frozen=True, gc=False):
    """The peer sends nothing more; whether it still reads cannot be known.

    Args:
        unanswered: How many requests are without an answer, or without the whole of it.
    """

    unanswered: int = 0


ServerEvent: TypeAlias = RequestHead | RequestBody | Failed | EndOfStream
ClientEvent: TypeAlias = ResponseHead | ResponseBody | Failed | EndOfStream
