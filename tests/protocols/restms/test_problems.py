"""What a client is told: each code has a status, each text says what was found, what is allowed, what to do."""

from typing import get_args

import pytest

from triomq.protocols.restms import (
    PROBLEMS,
    Problem,
    ProblemCode,
    closing,
    foreign_content,
    no_content,
    no_feed,
    no_resource,
    pending,
    retry_after,
    shown,
    too_large,
)


def test_every_code_has_a_status() -> None:
    assert set(PROBLEMS) == set(get_args(ProblemCode))


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("unreadable", 400), ("unknown-type", 400), ("bad-request", 400), ("login", 401), ("forbidden", 403),
        ("method", 403), ("default-join", 403), ("foreign-content", 403), ("not-creatable", 403), ("missing", 404),
        ("missing-feed", 404), ("missing-content", 404), ("pending", 404), ("changed", 412), ("too-large", 413),
        ("too-many", 429), ("media-type", 501), ("overloaded", 503), ("closing", 503), ("disk-full", 507),
    ],
)  # fmt: skip
def test_code_has_the_status_of_the_specification(code: ProblemCode, status: int) -> None:
    assert Problem(code, "").status == status


def test_statuses_that_other_servers_have_in_their_places_are_not_there() -> None:
    assert not {405, 406, 415, 422} & set(PROBLEMS.values())


def test_body_is_plain_text_and_the_code_a_field() -> None:
    problem = Problem("method", "no", {"allow": "GET"})
    assert problem.body == b"no\n"
    assert problem.answer_headers == {
        "content-type": "text/plain; charset=utf-8",
        "restms-error": "method",
        "allow": "GET",
    }


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (no_resource("/x"), 404), (no_feed("/x"), 404), (no_content("/x"), 404), (foreign_content("/x"), 403),
        (pending("/x"), 404), (closing(), 503), (too_large(10, 5), 413), (too_large(None, 5), 413),
    ],
)  # fmt: skip
def test_text_is_one_line_of_three_parts(problem: Problem, status: int) -> None:
    assert problem.status == status
    assert problem.body.count(b"\n") == 1
    assert len(problem.text.replace(":", ";").split(";")) >= 2


def test_what_a_client_sent_is_quoted_and_cut() -> None:
    assert shown("a\r\nö\x1b[1m") == "'a\\r\\n\\xf6\\x1b[1m'"
    assert shown("x" * 1000) == "'" + "x" * 80 + "'…"
    assert no_feed("\udcff\n" * 9).body.decode().count("\n") == 1


def test_retry_comes_in_whole_seconds_and_never_at_once() -> None:
    assert [retry_after(seconds)["retry-after"] for seconds in (0.0, 0.4, 1.6, 30.0)] == ["1", "1", "2", "30"]
