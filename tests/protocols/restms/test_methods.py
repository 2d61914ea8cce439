"""Which method does what to which resource."""

from typing import get_args

import pytest

from triomq.protocols.restms import METHODS, SUCCESS, MethodAction, Problem, ResourceKind, action_of

ALL = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "TRACE", "get", "BREW"]
THERE = [kind for kind in METHODS if kind != "missing"]


def test_every_kind_has_a_row_and_every_action_a_status() -> None:
    assert set(METHODS) == set(get_args(ResourceKind))
    assert (
        set(SUCCESS) == set(get_args(MethodAction)) == {action for row in METHODS.values() for action in row.values()}
    )


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("method", ALL)
def test_method_is_done_or_refused_by_the_table(method: str, kind: ResourceKind) -> None:
    found = action_of(method, kind, "/x")
    if method in METHODS[kind]:
        assert found == METHODS[kind][method]
    else:
        assert isinstance(found, Problem)
        # 2/RestMS: a method that is not allowed is 403, and what is not there is 404.
        assert found.status == (404 if kind == "missing" or (kind, method) == ("asynclet", "DELETE") else 403)


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        ("domain", "POST PUT DELETE"), ("feed", "POST PUT DELETE"), ("configured feed", "POST PUT DELETE"),
        ("pipe", "POST PUT DELETE"), ("join", "POST PUT DELETE"), ("message", "POST PUT DELETE"),
        ("content", "POST PUT DELETE"),
    ],
)  # fmt: skip
def test_lists_of_methods_are_those_of_the_specification(kind: ResourceKind, methods: str) -> None:
    allowed = {
        "domain": "POST", "feed": "POST PUT DELETE", "configured feed": "POST", "pipe": "POST PUT DELETE",
        "join": "DELETE", "message": "DELETE", "content": "DELETE",
    }  # fmt: skip
    assert [method for method in methods.split() if method in METHODS[kind]] == allowed[kind].split()


@pytest.mark.parametrize("kind", THERE)
def test_everything_that_is_there_can_be_read(kind: ResourceKind) -> None:
    assert action_of("GET", kind, "/x") == action_of("HEAD", kind, "/x") == "read"


def test_delete_of_what_is_gone_is_repeated_without_harm() -> None:
    assert action_of("DELETE", "missing", "/restms/resource/x") == "nothing"
    assert SUCCESS["nothing"] == (200,)


@pytest.mark.parametrize(
    ("method", "kind", "code", "text"),
    [
        ("PUT", "join", "method", "'PUT' is nothing that can be done to a join; it takes GET, HEAD, OPTIONS, DELETE; "),
        ("DELETE", "configured feed", "configured", "/x is there by configuration"),
        ("PATCH", "configured feed", "method", "it takes GET, HEAD, OPTIONS, POST; use one of these"),
        ("DELETE", "default join", "default-join", "/x is the default join of its pipe"),
        ("DELETE", "asynclet", "pending", "no message has come to '/x' yet, and nothing was deleted"),
        ("GET", "missing", "missing", "there is nothing at '/x'"),
    ],
)  # fmt: skip
def test_refusal_says_what_is_allowed(method: str, kind: ResourceKind, code: str, text: str) -> None:
    problem = action_of(method, kind, "/x")
    assert isinstance(problem, Problem)
    assert (problem.code, text in problem.text) == (code, True)
    if problem.status == 403:
        assert problem.headers["allow"] == ", ".join(METHODS[kind])
