import pytest

from core.harness import Harness
from triomq.core import (
    Inequivalent,
    InExclusiveUse,
    NoSuchQueue,
    NoSuchSink,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueStopped,
    Restarting,
    SinkBroken,
    SinkInternal,
    SinkInUse,
)
from triomq.errors import Refused

NAMED = [
    InExclusiveUse,
    NoSuchQueue,
    NoSuchSink,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueStopped,
    SinkBroken,
    SinkInUse,
    SinkInternal,
]


@pytest.mark.parametrize("refusal", NAMED)
def test_refusal_is_an_answer_that_names_what_it_is_about(refusal: type[NoSuchQueue]) -> None:
    error = refusal("orders")
    assert isinstance(error, Refused)
    assert error.name == "orders"
    assert "'orders'" in str(error)


def test_inequivalent_declare_says_what_is_and_what_was_asked_for() -> None:
    assert str(Inequivalent("q", "durable", received=True, current=False)).startswith(
        "durable of 'q' is False, not True;"
    )


async def test_restarting_actor_is_named_by_its_path(harness: Harness) -> None:
    queue = harness.queue("q")
    error = Restarting(queue.ref)
    assert error.ref is queue.ref
    assert str(error) == "/domain/queue.q is being restarted; ask again when it runs"
