"""What a client is told when a request cannot be done: a status, a code for programs, and a text for people.

1/RestTL wants each body of an error to be plain text, so the code for programs stands in the field ``RestMS-Error``. A
status alone says too little: 403 is a method that is not allowed, a name that is reserved, and a right that is missing.

A text says what was found, what is allowed, and what to do, in this order; what a client sent is shown quoted and cut.
"""

from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, get_args

import msgspec

ProblemCode: TypeAlias = Literal[
    # The document, or the address
    "unreadable", "empty", "incomplete", "several", "unknown-type", "other-type", "bad-name", "bad-uri", "bad-property",
    "bad-request",
    # Who asks, and what is not to be done here
    "login", "forbidden", "method", "fixed", "configured", "default-join", "default-feed", "on-demand",
    "foreign-content", "not-creatable",
    # What is not there
    "missing", "missing-feed", "missing-content", "pending",
    # What may be done at another time, or in another form
    "changed", "too-large", "too-many", "media-type", "overloaded", "closing", "disk-full", "internal",
]  # fmt: skip

PROBLEMS: Final[dict[ProblemCode, int]] = {
    **dict.fromkeys(get_args(ProblemCode)[:10], 400),
    "login": 401,
    **dict.fromkeys(get_args(ProblemCode)[11:20], 403),
    **dict.fromkeys(get_args(ProblemCode)[20:24], 404),
    "changed": 412,
    "too-large": 413,
    "too-many": 429,
    "media-type": 501,
    "overloaded": 503,
    "closing": 503,
    "disk-full": 507,
    "internal": 500,
}
"""The status of each code. 405, 406 and 415 are not among them: 2/RestMS has 403 and 501 in their places."""

_SHOWN: Final = 80
"""Characters of a peer's text that are repeated: enough to find the place."""


class Problem(msgspec.Struct, frozen=True):
    """Why a request cannot be done.

    Args:
        code: For programs; the status follows from it.
        text: For people.
        headers: Further fields of the answer, such as ``allow`` and ``retry-after``.
    """

    code: ProblemCode
    text: str
    headers: Mapping[str, str] = {}

    @property
    def status(self) -> int:
        """The status code of the answer."""
        return PROBLEMS[self.code]

    @property
    def body(self) -> bytes:
        """The answer's body, which is one line."""
        return f"{self.text}\n".encode("utf-8", "backslashreplace")

    @property
    def answer_headers(self) -> dict[str, str]:
        """All fields of the answer that are about the problem."""
        return {
            # 1/RestTL: an error's body MUST be plain text, and its type MUST be text/plain.
            "content-type": "text/plain; charset=utf-8",
            "restms-error": self.code,
            **self.headers,
        }


def shown(text: str) -> str:
    """Quote what a peer sent, at most so much of it that the place can be found."""
    return ascii(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!a}…"


def listed(words: Collection[str]) -> str:
    """List the words that are allowed; the empty one is shown as such."""
    return ", ".join(word or '""' for word in words) or "none"


def retry_after(seconds: float) -> dict[str, str]:
    """Return the field that says when to try again; whole seconds, at least one."""
    return {"retry-after": str(max(1, round(seconds)))}


def no_resource(path: str) -> Problem:
    """Say that nothing is at an address."""
    return Problem(
        "missing",
        f"there is nothing at {shown(path)}: it was deleted, or never there; GET the domain or the pipe, which list "
        "what there is",
    )


def no_feed(uri: str) -> Problem:
    """Say that a join names a feed that is not there (C33)."""
    return Problem(
        "missing-feed",
        f"there is no feed at {shown(uri)}; take the href of a feed in the domain's document, or create the feed first",
    )


def no_content(uri: str) -> Problem:
    """Say that a message refers to a content that is not there (2/RestMS: MUST, and the message is not routed)."""
    return Problem(
        "missing-content",
        f"there is no staged content at {shown(uri)}: it was used by another message, has expired, or was never there; "
        "no message of this request was routed; POST the content to the feed again",
    )


def foreign_content(uri: str) -> Problem:
    """Say that a message refers to a content of another feed (2/RestMS: MUST, and the message is not routed)."""
    return Problem(
        "foreign-content",
        f"the content at {shown(uri)} was staged on another feed; no message of this request was routed; POST the "
        "content to this feed",
    )


def pending(path: str) -> Problem:
    """Say that an asynclet cannot be deleted (C21)."""
    return Problem(
        "pending", f"no message has come to {shown(path)} yet, and nothing was deleted; GET it, and DELETE it then"
    )


def closing() -> Problem:
    """Say that the broker is on its way out."""
    return Problem("closing", "the broker is closing; nothing was done; try again at another one, or in a while",
                   retry_after(1))  # fmt: skip


def too_large(size: int | None, most: int) -> Problem:
    """Say that a body is larger than it may be.

    Args:
        size: Bytes of it, if that is known.
        most: Bytes that it may have.
    """
    found = "the body" if size is None else f"the body of {size:,} bytes"
    return Problem(
        "too-large",
        f"{found} is larger than {most:,} bytes; a larger content can be staged: POST it to the feed with its own "
        "Content-Type, and name its Location in the message",
    )
