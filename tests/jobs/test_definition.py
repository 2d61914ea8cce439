"""A definition knows how its function is to be run, and which calls are alike."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import wraps
from pathlib import Path

import pytest

from triomq.errors import ConfigError, WrongArguments
from triomq.jobs import JobDefinition, JobOptions
from triomq.jobs.definition import name_of


def plain(order: int, note: str = "") -> int:
    return order


async def waiting() -> None: ...


async def items() -> AsyncIterator[int]:
    yield 1


def sync_items() -> Iterator[int]:
    yield 1


@wraps(waiting)
def wrapped() -> object:
    return waiting()


def definition(function: object = plain, **options: object) -> JobDefinition:
    return JobDefinition(function, JobOptions(**options), "shop.plain")  # type: ignore[arg-type]


def test_functions_are_told_apart_by_how_they_run() -> None:
    found = {
        made.function.__name__: (made.is_async, made.is_stream) for made in map(definition, (plain, waiting, items))
    }
    assert found == {"plain": (False, False), "waiting": (True, False), "items": (True, True)}
    assert definition(wrapped).is_async
    assert (definition(sync_items).is_async, definition(sync_items).is_stream) == (False, True)


def test_call_is_bound_and_run() -> None:
    made = definition()
    call = made.bind(made.encode((5,), {"note": "x"}))
    assert (call.args, call.kwargs, call.run()) == ((5,), {"note": "x"}, 5)


def test_name_is_that_of_module_and_function() -> None:
    assert JobDefinition(plain, JobOptions()).name == f"{__name__}.plain"


def test_function_of_the_main_module_is_named_as_others_import_it(tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text("from triomq.jobs.definition import name_of\ndef f(): ...\nprint(name_of(f))\n")
    for arguments in ([str(program)], ["-m", "shop"]):
        run = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert run.stdout == "shop.f\n"


def test_what_is_no_function_cannot_be_a_job() -> None:
    with pytest.raises(ConfigError, match=r"jobs are functions; found <built-in function print>"):
        definition(print)
    with pytest.raises(ConfigError, match=r"Path\.exists is a method; make it a function"):
        definition(Path.exists)
    with pytest.raises(ConfigError, match=r"name: found '\.', expected 1 to 200"):
        JobDefinition(plain, JobOptions(), ".")


def test_limits_are_about_the_job_or_about_arguments() -> None:
    assert definition().key_of((5,), {}) == ""
    assert definition(rate=1).key_of((5,), {}) == "shop.plain"
    assert definition(max_concurrency=1, key="order-{order}").key_of((5,), {}) == "order-5"
    with pytest.raises(WrongArguments, match=re.escape("key '{customer}' cannot be filled in")):
        definition(max_concurrency=1, key="{customer}").key_of((5,), {})


def test_unique_jobs_are_alike_by_their_arguments() -> None:
    made = definition()
    assert made.unique_of(False, (5,), {}) == ""
    assert made.unique_of(True, (5,), {}) == made.unique_of(True, (), {"order": 5, "note": ""})
    assert made.unique_of(True, (5,), {}) != made.unique_of(True, (6,), {})
    assert made.unique_of("{order}", (5,), {"note": "x"}) == "shop.plain:5"


def test_errors_of_some_classes_are_final() -> None:
    made = definition(final=(LookupError,))
    assert made.is_worth_retry(ValueError())
    assert not made.is_worth_retry(KeyError())
    assert not made.is_worth_retry(WrongArguments("no"))
    assert made.is_worth_retry(ExceptionGroup("two", [KeyError(), ValueError()]))
    assert not made.is_worth_retry(ExceptionGroup("two", [KeyError()]))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"retries": -1}, "retries: found -1, expected int >= 0"),
        ({"retries": "3"}, "retries: found '3', expected int"),
        ({"priority": 10}, "priority: found 10, expected int <= 9"),
        ({"queue": ""}, "queue: found '', expected str of length >= 1"),
        ({"backoff": (5, 1)}, "backoff: found (5, 1), expected (first, most) with the smaller one first"),
        ({"timeout": float("inf")}, "timeout: found inf s, expected 0 to 2147483 s"),
        ({"final": ValueError}, "final: found <class 'ValueError'>, expected classes of errors"),
    ],
)
def test_wrong_option_is_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        JobOptions(**options)  # type: ignore[arg-type]  # that is what is tested


def test_name_of_a_function_inside_another_one_has_the_module_alone() -> None:
    def inner() -> None: ...

    assert name_of(inner) == f"{__name__}.inner"
