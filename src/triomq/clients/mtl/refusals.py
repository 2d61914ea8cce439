"""From the code of a reply or a Response to the error that a caller can catch."""

from typing import Final

from triomq.errors import AccessRefused, LimitExceeded, NotFound, PreconditionFailed, Refused

_ERRORS: Final[dict[int, type[Refused]]] = {
    401: AccessRefused,
    403: AccessRefused,
    404: NotFound,
    409: PreconditionFailed,
    412: PreconditionFailed,
    413: LimitExceeded,
    503: LimitExceeded,
}


def refusal_of(code: int, text: str) -> Refused:
    """Make the error for a code; those that say no more than that it was refused become ``Refused``."""
    return _ERRORS.get(code, Refused)(f"{code} {text}")
