"""From the code of an ERROR, or of an answer to a command, to the error that a caller can catch."""

from typing import Final

from triomq.errors import (
    AccessRefused,
    Disconnected,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    Refused,
    RemoteProtocolError,
    ResourceLocked,
    TriomqError,
)

AGAIN: Final = frozenset({0, 408, 500, 503})
"""Codes of an ERROR after which it makes sense to come back: the peer was busy, is ending, or gives no code at all."""

_ERRORS: Final[dict[int, type[TriomqError]]] = {
    0: Disconnected,
    401: AccessRefused,
    403: AccessRefused,
    404: NotFound,
    408: Disconnected,
    409: ResourceLocked,
    412: PreconditionFailed,
    413: LimitExceeded,
    500: Disconnected,
    501: Refused,
    503: LimitExceeded,
}


def error_of(code: int, text: str) -> TriomqError:
    """Make the error for what a peer has ended the connection with, or refused a subscription with.

    Codes that say that a rule of the protocol was broken become ``RemoteProtocolError``.
    """
    return _ERRORS.get(code, RemoteProtocolError)(f"{code} {text}" if code else text)
