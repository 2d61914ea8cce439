"""A question: a title, and what is said to a broker to learn its answer."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .talk import BrokenOffError, Talk

Lines = Iterator[str]
Asking = Callable[[Talk], Lines]


class Question(NamedTuple):
    """One question.

    Args:
        title: what is asked, with its group in front.
        ask: says it, and yields what is heard.
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
    with Talk(url) as talk:
        try:
            for line in question.ask(talk):
                lines.append(talk.tidy(line))
        except TimeoutError:
            lines.append("broken off: what must come does not come")
        except (BrokenOffError, AssertionError, OSError) as error:
            lines.append(talk.tidy(f"broken off: {type(error).__name__}: {error}".splitlines()[0]))
    return lines
