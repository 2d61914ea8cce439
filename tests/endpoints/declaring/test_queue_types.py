"""What queues of each type may be declared with."""

import pytest

from triomq.core import QueueOptions
from triomq.endpoints.declaring.arguments import queue_options
from triomq.endpoints.declaring.queue_types import QueueType, check_named, is_quorum, queue_type
from triomq.errors import PreconditionFailed

WHERE = "for queue 'q' in vhost '/'"


def declared(kind: str | None, *, durable: bool = True, **arguments: object) -> QueueOptions:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    if kind is not None:
        named["x-queue-type"] = kind
    return queue_options("q", "/", named, durable=durable, exclusive=False, auto_delete=False)


def test_queue_is_classic_unless_declared_otherwise() -> None:
    assert declared("classic") == declared(None)
    assert not is_quorum(declared(None))
    assert is_quorum(declared("quorum"))
    assert queue_type("q", "/", {}) is QueueType.CLASSIC


@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        (5, "{unacceptable_type,signedint}"),
        ("nope", "\"unsupported queue type 'nope'\""),
    ],
)
def test_another_type_is_refused(wanted: object, detail: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        queue_type("q", "/", {"x-queue-type": wanted})
    assert str(refused.value) == f"invalid arg 'x-queue-type' {WHERE}: {detail}"


@pytest.mark.parametrize("kind", list(QueueType))
def test_each_type_refuses_what_only_others_take_whatever_its_value(kind: QueueType) -> None:
    for argument in kind.refused:
        with pytest.raises(PreconditionFailed) as refused:
            declared(kind.value, **{argument: None})
        assert str(refused.value) == f"invalid arg '{argument}' {WHERE} of queue type rabbit_{kind.value}_queue"


def test_the_limit_of_deliveries_is_one_of_quorum_queues() -> None:
    assert declared("quorum", x_delivery_limit=3).delivery_limit == 3
    assert declared("quorum").delivery_limit is None
    assert "x-delivery-limit" in QueueType.CLASSIC.refused


def test_arguments_about_several_machines_are_checked_and_compared_and_change_nothing() -> None:
    arguments = {
        "x-dead-letter-strategy": "at-least-once",
        "x-max-in-memory-bytes": 0,
        "x-max-in-memory-length": 5,
        "x-queue-leader-locator": "balanced",
        "x-quorum-initial-group-size": 3,
    }
    found = declared("quorum", **arguments)
    assert dict(found.notes) == {**arguments, "x-queue-type": "quorum"}


@pytest.mark.parametrize(
    ("argument", "value", "detail"),
    [
        ("x-dead-letter-strategy", "nope", "invalid_dlx_strategy"),
        ("x-dead-letter-strategy", 5, "{unacceptable_type,signedint}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-queue-leader-locator", "nope", "invalid_queue_locator_arg"),
        ("x-quorum-initial-group-size", "a", '"expected integer, got longstr"'),
    ],
)
def test_value_that_cannot_be_is_refused(argument: str, value: object, detail: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        declared("quorum", **{argument: value})
    assert str(refused.value) == f"invalid arg '{argument}' {WHERE}: {detail}"


@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "unfit"),
    [
        (False, False, False, "non-durable"),
        (True, True, False, "exclusive-owner"),
        (True, False, True, "auto-delete"),
        (False, True, True, "auto-delete"),
        (False, True, False, "exclusive-owner"),
    ],
)
def test_quorum_queue_is_durable_and_shared(durable: bool, exclusive: bool, auto_delete: bool, unfit: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        queue_options(
            "q", "/", {"x-queue-type": "quorum"}, durable=durable, exclusive=exclusive, auto_delete=auto_delete
        )
    assert str(refused.value) == f"invalid property '{unfit}' {WHERE}"


def test_quorum_queue_has_its_name_from_its_client() -> None:
    check_named("q", {"x-queue-type": "quorum"})
    check_named("", {"x-queue-type": "classic"})
    with pytest.raises(PreconditionFailed, match="server-named queue for type rabbit_quorum_queue"):
        check_named("", {"x-queue-type": "quorum"})
