"""From a refusal to the code that a direct connection says (6/DMP, response codes)."""

from triomq.core import LeaseInvalid
from triomq.endpoints.amqp_answers import AnswerError
from triomq.errors import AccessRefused, NotFound, Refused

__all__ = ["Denied", "denial_of"]


class Denied(Exception):
    """The endpoint says no, and ends the connection; caught where events are worked off."""

    def __init__(self, code: int, text: str) -> None:
        """Keep what the goodbye will say."""
        self.code = code
        self.text = text
        super().__init__(f"{code} {text}")


_CODES: tuple[tuple[type[Refused], int], ...] = (
    (LeaseInvalid, 402),
    (AccessRefused, 403),
    (NotFound, 404),
)

_AMQP_CODES = {403: 403, 404: 404, 406: 502}
"""What AMQP refuses in a message: a user-id that is not the user's, or properties that make no sense."""


def denial_of(error: Refused | AnswerError) -> Denied:
    """Find the code for a refusal of the core's, or of what AMQP and we check alike."""
    if isinstance(error, AnswerError):
        return Denied(_AMQP_CODES.get(error.answer.code, 541), error.answer.text)
    code = next((code for kind, code in _CODES if isinstance(error, kind)), 541)
    return Denied(code, str(error))
