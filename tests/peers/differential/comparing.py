"""All questions to both brokers, and which answers differ."""

import csv
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .question import Question, answer

AT_ONCE = 6
"""Questions in the air for each broker: most of their time is silence that is waited for."""

REASONS = Path(__file__).parents[3] / "docs" / "conformance" / "amqp-differences.csv"
"""What differs on purpose; the page on conformance shows the same file."""

Answers = dict[str, list[str]]


class Reason(NamedTuple):
    """Why the answers to some questions differ: one row of `REASONS`.

    Args:
        question: the title, or several with a bar between them; ``…`` stands for anything.
        rabbitmq: what RabbitMQ answers, for readers.
        triomq: what triomq answers, for readers.
        because: ``specification`` where that names our answer, or offers what RabbitMQ refuses; ``choice`` for the few
            that are our own.
        compatibility: ``rabbitmq`` where an endpoint with that setting answers as RabbitMQ does.
        reason: why.
    """

    question: str
    rabbitmq: str
    triomq: str
    because: str
    compatibility: str
    reason: str

    def covers(self, title: str) -> bool:
        """Whether it is about this question."""
        return covered(title, self.question.split(" | "))


def covered(title: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns stands for this title; ``…`` in them stands for anything."""
    return any(re.fullmatch(".*".join(map(re.escape, one.split("…"))), title) for one in patterns)


def read_reasons(path: Path = REASONS) -> list[Reason]:
    """The reasoned differences."""
    with path.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    return [Reason(*row) for row in rows]


def reason_for(title: str, reasons: Sequence[Reason]) -> Reason | None:
    """Why the answers to this question differ."""
    return next((reason for reason in reasons if reason.covers(title)), None)


def ask_all(questions: Sequence[Question], url: str) -> Answers:
    """Put questions to one broker."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda question: answer(question, url), questions)
        return dict(zip([question.title for question in questions], answers, strict=True))


def ask_both(questions: Sequence[Question], ours: str, theirs: str) -> tuple[Answers, Answers]:
    """Put questions to both brokers.

    What differs without a reason is asked once more and alone, lest it was only the machine that was busy.
    """
    reasons = read_reasons()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda url: ask_all(questions, url), (ours, theirs))
    for question in questions:
        title = question.title
        if first[title] != second[title] and reason_for(title, reasons) is None:
            first[title], second[title] = answer(question, ours), answer(question, theirs)
    return first, second
