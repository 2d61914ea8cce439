"""A question: a title, and steps that make a broker answer it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .session import BrokenOffError, Session

Lines = Iterator[str]
Asking = Callable[[Session], Lines]


class Question(NamedTuple):
    """One question.

    Args:
        title: what is asked, with its group in front.
        ask: sends it, and yields the answers.
    """

    title: str
    ask: Asking


class Group:
    """Questions about one thing, gathered by a decorator."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.questions: list[Question] = []

    def __call__(self, title: str) -> Callable[[Asking], Asking]:
        """Take a function as a question."""

        def take(ask: Asking) -> Asking:
            self.add(title, ask)
            return ask

        return take

    def add(self, title: str, ask: Asking) -> None:
        """Take one that is made from data."""
        self.questions.append(Question(f"{self.title}: {title}", ask))


def answer(question: Question, url: str) -> list[str]:
    """Put a question to a broker; what goes wrong is an answer as well."""
    lines: list[str] = []
    with Session(url) as session:
        try:
            for line in question.ask(session):
                lines.append(session.tidy(line))
        except TimeoutError:
            lines.append("broken off: what must come does not come")
        except (BrokenOffError, AssertionError, OSError) as error:
            lines.append(session.tidy(f"broken off: {type(error).__name__}: {error}".splitlines()[0]))
    return lines
