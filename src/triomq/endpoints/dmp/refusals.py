"""From a refusal to the code that a direct connection sends (6/DMP, response codes)."""

from triomq.core import LeaseInvalid
from triomq.endpoints.content import InvalidProperties
from triomq.errors import AccessRefused, NotFound, Refused, TriomqError


class LeaseDenied(Refused):
    """The endpoint refuses, and ends the connection."""

    def __init__(self, code: int, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(f"{code} {text}")


_CODES: tuple[tuple[type[Refused], int], ...] = (
    (LeaseInvalid, 402),
    (AccessRefused, 403),
    (NotFound, 404),
    (InvalidProperties, 502),
)


def denial_of(error: TriomqError) -> LeaseDenied:
    """Return the refusal with its code."""
    if isinstance(error, LeaseDenied):
        return error
    code = next((code for kind, code in _CODES if isinstance(error, kind)), 541)
    return LeaseDenied(code, str(error))
