"""What an engine sends, as bytes, until its driver takes them; and heads of what is sent."""

import re
from collections.abc import Mapping
from typing import Final

from triomq.errors import LocalProtocolError

_FIELDS: Final = re.compile(r"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+: [\t -~\x80-\xff]*\r\n)*")

LARGE: Final = 16 * 1024
"""Bytes from which a body is handed out as it is: copying it would cost more than one more element to write."""


class _Spellings(dict[str, str]):
    """Names of header fields as people write them: by the standard any case will do, but not for every old client."""

    def __missing__(self, name: str) -> str:
        spelled = self[name] = "-".join(map(str.capitalize, name.split("-"))) if name.islower() else name
        return spelled


_SPELLINGS: Final = _Spellings({"etag": "ETag", "www-authenticate": "WWW-Authenticate"})
"""Grows with the names that are sent, which are ours."""


class Outbox:
    """Owned by one engine, and looked at by its driver in each turn: attributes, because a property costs a call.

    ``unsent`` is how many bytes wait. ``finished`` is whether nothing follows them: then the transport is shut.
    """

    __slots__ = ("_pieces", "finished", "unsent")

    def __init__(self) -> None:
        self._pieces: list[bytes | memoryview] = []
        self.unsent = 0
        self.finished = False

    def take(self) -> list[bytes | memoryview]:
        """Remove and return what waits."""
        pieces, self._pieces = self._pieces, []
        self.unsent = 0
        return pieces

    def put(self, piece: bytes | memoryview) -> None:
        """Add bytes."""
        self._pieces.append(piece)
        self.unsent += len(piece)

    def put_with_body(self, head: bytes, body: bytes | memoryview) -> None:
        """Add a head and its body, which may be empty."""
        if len(body) < LARGE:
            self.put(head + body)
        else:
            self.put(head)
            self.put(body)


def encode_fields(headers: Mapping[str, str]) -> str:
    """Return header fields as lines.

    Raises:
        LocalProtocolError: One cannot be written; a line's end in a value would be the begin of another field.
    """
    lines = "".join([f"{_SPELLINGS[name]}: {value}\r\n" for name, value in headers.items()])
    if _FIELDS.fullmatch(lines) is None or lines.count("\n") != len(headers):
        raise LocalProtocolError(
            f"one of the header fields {sorted(headers)} has a name that is no token, or a value with a control "
            "character or one beyond Latin-1; use `field_value` for values that are not yours"
        )
    return lines
