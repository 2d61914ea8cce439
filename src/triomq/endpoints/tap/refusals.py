"""From a refusal to the code that tap sends."""

from triomq.errors import AccessRefused, NotFound, OtherStream, OutOfRange, TriomqError, UnknownStage
from triomq.protocols.tap import RefusalCode

_CODES: tuple[tuple[type[TriomqError], RefusalCode], ...] = (
    (OutOfRange, "OUT_OF_RANGE"),
    (OtherStream, "OTHER_STREAM"),
    (UnknownStage, "UNKNOWN_STAGE"),
    (NotFound, "UNKNOWN_STREAM"),
    (AccessRefused, "FORBIDDEN"),
)


def code_of(error: TriomqError) -> RefusalCode:
    """Return the code for a refusal; what has none of its own is REFUSED."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), "REFUSED")
