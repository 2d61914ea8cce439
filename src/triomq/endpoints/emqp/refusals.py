"""Refusals of the broker, and which code of ERROR says them."""

from collections.abc import Mapping
from typing import Final

from triomq.errors import AccessRefused, LimitExceeded, LocalProtocolError, NotFound, QueueLocked, Refused, TriomqError
from triomq.protocols.emqp import Code

_CODES: Final[Mapping[type[TriomqError], Code]] = {
    AccessRefused: "forbidden",
    QueueLocked: "forbidden",
    LimitExceeded: "full",
    NotFound: "unknown",
    Refused: "malformed",
    LocalProtocolError: "malformed",
}


def code_of(error: TriomqError) -> Code:
    """Return the code of an error, by the first class in the table that it is of."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), "unknown")
