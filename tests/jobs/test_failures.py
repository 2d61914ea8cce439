"""What a job raises in a worker is shown to its caller."""

import pickle
import traceback

import pytest

from triomq.errors import JobCancelled, JobExpired, JobFailed, JobsFailed, JobTimedOut, WorkerLost
from triomq.jobs.failures import Failure, describe, error_of
from triomq.protocols.emqp import Extension


def caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as found:
        return found


def sent(failure: Failure) -> JobFailed:
    """Return what the caller of job 7 gets."""
    ended = Extension(state="failed", type=failure.type, message=failure.message, traceback=failure.traceback)
    return error_of("7", "shop.sell", ended, failure.payload())


def test_error_has_class_text_and_traceback_of_the_remote_one() -> None:
    found = sent(describe(caught(ValueError("no such order"))))
    assert str(found) == "shop.sell failed: ValueError: no such order (job 7)"
    assert (found.kind, found.reason, found.job, found.name) == ("ValueError", "no such order", "7", "shop.sell")
    shown = "".join(traceback.format_exception(found))
    assert "In the worker:\nTraceback (most recent call last):" in shown
    assert "raise error" in shown


@pytest.mark.parametrize(
    ("state", "kind", "text"),
    [
        ("failed", JobFailed, "shop.sell failed (job 7)"),
        ("cancelled", JobCancelled, "shop.sell was cancelled (job 7)"),
        ("timed-out", JobTimedOut, "shop.sell timed out (job 7)"),
        ("expired", JobExpired, "shop.sell expired before it began (job 7)"),
        ("lost", WorkerLost, "shop.sell was lost with its worker (job 7)"),
        ("news", JobFailed, "shop.sell failed (job 7)"),
    ],
)
def test_each_end_has_a_class(state: str, kind: type[JobFailed], text: str) -> None:
    found = error_of("7", "shop.sell", Extension(state=state))
    assert type(found) is kind
    assert str(found) == text


def test_text_that_is_no_utf_8_is_written_as_a_literal() -> None:
    found = sent(describe(caught(FileNotFoundError(2, "not there", "name-\udce9"))))
    assert found.reason == "[Errno 2] not there: 'name-\\udce9'"


def test_group_comes_back_as_a_group() -> None:
    inner = ExceptionGroup("inner", [caught(KeyError("a"))])
    found = sent(describe(ExceptionGroup("two orders", [caught(ValueError("b")), inner])))
    assert isinstance(found, JobsFailed)
    first, second = found.exceptions
    assert isinstance(first, JobFailed)
    assert (first.kind, first.reason) == ("ValueError", "b")
    assert isinstance(second, JobsFailed)
    assert found.split(lambda error: isinstance(error, JobFailed) and error.kind == "KeyError")[0] is not None
    with pytest.raises(JobFailed):
        raise found
    shown = "".join(traceback.format_exception(found))
    assert "shop.sell failed: two orders" in shown
    assert "ValueError: b" in shown


def test_errors_can_be_pickled() -> None:
    error = error_of("7", "f", Extension(state="cancelled", message="by hand", traceback="x"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.job, again.__notes__) == (str(error), "7", error.__notes__)
    group = sent(describe(ExceptionGroup("two", [ValueError("b")])))
    again = pickle.loads(pickle.dumps(group))
    assert (str(again), str(again.exceptions[0])) == (str(group), str(group.exceptions[0]))


def test_error_that_cannot_be_printed_is_still_sent() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    failure = describe(caught(Odd()))
    assert failure.type.endswith("Odd")
    assert "no text" in failure.message


def test_what_is_sent_is_bounded() -> None:
    def deep(count: int) -> None:
        if count:
            deep(count - 1)
        raise ValueError("x" * 100_000)

    error: Exception = ExceptionGroup("many", [ValueError(str(number)) for number in range(1000)])
    for _ in range(20):
        error = ExceptionGroup("deep", [error])
    assert len(describe(error).payload()) < 64 * 1024
    with pytest.raises(ValueError, match="xxx") as raised:
        deep(500)
    failure = describe(raised.value)
    assert len(failure.message) == 1000
    assert len(failure.traceback) < 16_100


def test_message_of_a_released_worker_is_no_group() -> None:
    for message in (b"", b"\xff", b'{"value": 5}', b'{"errors": 5}'):
        assert type(error_of("7", "f", Extension(state="failed"), message)) is JobFailed
