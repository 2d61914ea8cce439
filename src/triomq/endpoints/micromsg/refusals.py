"""Which code of an ERROR frame, or of an answer to a command, a refusal has."""

from collections.abc import Mapping
from typing import Final

from triomq.core import UserLimitReached
from triomq.endpoints.micromsg.destinations import BadDestination
from triomq.errors import AccessRefused, ActorError, LimitExceeded, NotFound, PreconditionFailed, TriomqError


class TooMuch(LimitExceeded):
    """A client asks for more than one may have: filters, conditions."""


_CODES: Final[Mapping[type[TriomqError], int]] = {
    TooMuch: 413,
    BadDestination: 400,
    AccessRefused: 403,
    NotFound: 404,
    PreconditionFailed: 412,
    UserLimitReached: 503,
    LimitExceeded: 503,
    ActorError: 500,
}


def code_of(error: TriomqError) -> int:
    """Return the code; 400 for a refusal that has none of its own."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), 400)
