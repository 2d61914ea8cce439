"""triomq and RabbitMQ are asked the same; where they differ, the page on conformance says why."""

import contextlib
from collections.abc import Iterator

import pytest

from peers.differential.brokers import open_ours, open_theirs
from peers.differential.comparing import Answers, ask_all, ask_both, read_reasons, reason_for
from peers.differential.question import Question
from peers.differential.questions import QUESTIONS
from peers.rabbitmq import find_rabbitmq

REASONS = read_reasons()
OF_OUR_OWN = 11
"""Differences that nobody orders: more of them, and clients notice."""


@pytest.fixture(scope="module")
def ours() -> Iterator[str]:
    with open_ours() as url:
        yield url


@pytest.fixture(scope="module")
def theirs(request: pytest.FixtureRequest) -> Iterator[str]:
    if find_rabbitmq() is None:
        reason = "rabbitmq-server is not installed"
        if request.config.getoption("--require-peers"):
            pytest.fail(reason)
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(open_theirs())


@pytest.fixture(scope="module")
def answers(ours: str, theirs: str) -> tuple[Answers, Answers]:
    return ask_both(QUESTIONS, ours, theirs)


@pytest.mark.peers
@pytest.mark.parametrize("title", [question.title for question in QUESTIONS])
def test_both_answer_alike_or_there_is_a_reason(answers: tuple[Answers, Answers], title: str) -> None:
    our, their = (given[title] for given in answers)
    if reason_for(title, REASONS) is None:
        assert our == their


@pytest.mark.peers
def test_every_reason_is_needed(answers: tuple[Answers, Answers]) -> None:
    our, their = answers
    different = [title for title in our if our[title] != their[title]]
    assert [reason.question for reason in REASONS if not any(map(reason.covers, different))] == []


def answers_as_rabbitmq() -> list[Question]:
    """The questions whose difference a setting of the endpoint removes."""
    found = [(question, reason_for(question.title, REASONS)) for question in QUESTIONS]
    return [question for question, reason in found if reason is not None and reason.compatibility]


@pytest.fixture(scope="module")
def compatible() -> Iterator[Answers]:
    with open_ours(endpoints_0_compatibility="rabbitmq") as url:
        yield ask_all(answers_as_rabbitmq(), url)


@pytest.mark.peers
@pytest.mark.parametrize("title", [question.title for question in answers_as_rabbitmq()])
def test_endpoint_may_answer_as_rabbitmq_does(
    answers: tuple[Answers, Answers], compatible: Answers, title: str
) -> None:
    our, their = (given[title] for given in answers)
    assert compatible[title] == their != our


def test_few_differences_are_our_own() -> None:
    assert {reason.because for reason in REASONS} <= {"specification", "choice"}
    assert len([reason for reason in REASONS if reason.because == "choice"]) <= OF_OUR_OWN


def test_every_question_has_a_title_of_its_own() -> None:
    titles = [question.title for question in QUESTIONS]
    assert sorted(titles) == sorted(set(titles))
