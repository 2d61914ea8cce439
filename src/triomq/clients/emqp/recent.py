"""A worker's last answers, which a broker that was restarted may not have heard, or not written down."""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import trio

from triomq.clients.emqp.stream import ItemStream
from triomq.protocols.emqp import Extension

_MOST: Final = 2000
"""Answers: what is on its way is less than what a worker does in a tenth of a second."""

_MOST_BYTES: Final = 16 * 1024 * 1024

_SURE: Final = 2.0
"""Seconds after which a broker that was heard since has taken an answer: a disk that is slower is a sick one."""


class SentAnswer(NamedTuple):
    """An answer as it was sent."""

    at: float
    job: bytes
    attempt: int
    message: bytes
    extension: Extension
    stream: ItemStream | None


class RecentAnswers:
    """The last answers of a worker; owned by it.

    A REPLY is not acknowledged. So when a broker comes back, these are named among the jobs that are here, and said
    again; one that has heard them drops them as late.
    """

    def __init__(self) -> None:
        self._answers: deque[SentAnswer] = deque()
        self._bytes = 0
        self._waits = False  # for a broker: nothing gets too old meanwhile

    def __iter__(self) -> Iterator[SentAnswer]:
        return iter(self._answers)

    def add(
        self, job: bytes, attempt: int, message: bytes, extension: Extension, stream: ItemStream | None = None
    ) -> None:
        """Note an answer that is sent now, and the items before it."""
        self._answers.append(SentAnswer(trio.current_time(), job, attempt, message, extension, stream))
        self._bytes += len(message)
        while len(self._answers) > _MOST or self._bytes > _MOST_BYTES:
            self._drop()

    def _drop(self) -> None:
        self._bytes -= len(self._answers.popleft().message)

    def heard(self, at: float) -> None:
        """Forget what the broker has taken surely, as it was heard at that time."""
        while not self._waits and self._answers and self._answers[0].at < at - _SURE:
            self._drop()

    def wait(self) -> None:
        """Keep all: the broker has gone."""
        self._waits = True

    def take(self) -> list[SentAnswer]:
        """Return and forget all: the broker is back."""
        answers = list(self._answers)
        self._answers.clear()
        self._bytes = 0
        self._waits = False
        return answers
