"""Which code of MTL a refusal has."""

from collections.abc import Mapping
from typing import Final

from triomq.core import UserLimitReached
from triomq.endpoints.mtl.profile import BadRequest, TooLarge
from triomq.errors import (
    AccessRefused,
    ActorError,
    Inequivalent,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    ResourceLocked,
    TriomqError,
)

_CODES: Final[Mapping[type[TriomqError], int]] = {
    BadRequest: 400,
    TooLarge: 413,
    AccessRefused: 403,
    NotFound: 404,
    Inequivalent: 409,
    ResourceLocked: 409,
    PreconditionFailed: 412,
    UserLimitReached: 503,
    LimitExceeded: 503,
    ActorError: 500,
}


def code_of(error: TriomqError) -> int:
    """Return the code; 400 for a refusal that has none of its own."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), 400)
