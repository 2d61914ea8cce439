"""From an ERROR of tap to the error that a caller can catch."""

from triomq.errors import (
    AccessRefused,
    NotFound,
    OtherStream,
    OutOfRange,
    Refused,
    TriomqError,
    UnknownStage,
)
from triomq.protocols.tap import RequestRefused

_ERRORS: dict[str, type[TriomqError]] = {
    "UNKNOWN_STREAM": NotFound,
    "OTHER_STREAM": OtherStream,
    "UNKNOWN_STAGE": UnknownStage,
    "FORBIDDEN": AccessRefused,
}


def error_of(refused: RequestRefused, stream: str = "", offset: int = 0) -> TriomqError:
    """Make the error for a request that is refused; a code that is not known is ``Refused``.

    Args:
        refused: The answer.
        stream: What was asked for.
        offset: From which offset.
    """
    bounds = refused.bounds
    if refused.code == "OUT_OF_RANGE" and bounds is not None:
        return OutOfRange(stream, offset, bounds.first, bounds.next)
    return _ERRORS.get(refused.code, Refused)(refused.text)
