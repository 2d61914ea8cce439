"""Statuses, and the error of a peer."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

STATUS_LINES: Final[Mapping[int, str]] = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
"""The first line of an answer, by its status; there are no others."""

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class PeerError(Exception):
    """The peer broke a rule; never leaves the engine.

    Args:
        status: What it is answered by.
        text: What was found and what is allowed.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text
        super().__init__(f"{status} {text}")


def field_value(text: str) -> str:
    """Return a text as a header can carry it: what would end or hide a line becomes a space, what is foreign a ``?``.

    For values that are not of one's own making, such as the content type of a message.
    """
    return "".join(
        letter if " " <= letter <= "~" or "\xa0" <= letter <= "\xff" else " " if letter < "\xa0" else "?"
        for letter in text
    ).strip(" ")
