"""Arguments of declares and consumers: what is understood, what is kept, what is refused."""

import pytest

from triomq.core import Overflow, QueueOptions, SinkKind, SinkOptions
from triomq.endpoints.declaring.arguments import (
    consumer_priority,
    plain_arguments,
    queue_options,
    sink_options,
)
from triomq.errors import PreconditionFailed
from triomq.protocols import Typed

WHERE = "for queue 'q' in vhost '/'"


def options(**arguments: object) -> QueueOptions:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return queue_options("q", "/", named, durable=True, exclusive=False, auto_delete=False)


def test_flags_and_limits_become_options() -> None:
    found = queue_options(
        "q",
        "/",
        {"x-max-length": 5, "x-max-length-bytes": 0, "x-overflow": "reject-publish"},
        durable=False,
        exclusive=True,
        auto_delete=True,
    )
    assert found == QueueOptions(
        durable=False,
        exclusive=True,
        auto_delete=True,
        max_length=5,
        max_bytes=0,
        overflow=Overflow.REJECT_PUBLISH,
    )


def test_arguments_without_a_meaning_are_stored_in_one_order_whichever_client_declares() -> None:
    assert options(x_b=1, x_a="2").remarks == options(x_a="2", x_b=1).remarks == (("x-a", "2"), ("x-b", 1))


def test_arguments_that_mean_much_to_rabbitmq_alone_must_be_equal_at_a_second_declare() -> None:
    found = options(x_queue_mode="lazy", x_a=1)
    assert (found.notes, found.remarks) == ((("x-queue-mode", "lazy"),), (("x-a", 1),))


def test_arguments_with_a_meaning_are_not_stored_twice() -> None:
    found = options(x_max_length=1, x_overflow="drop-head")
    assert found.notes == found.remarks == ()


def test_classic_queue_in_either_mode_is_what_there_is() -> None:
    for mode in ("default", "lazy"):
        assert options(x_queue_type="classic", x_queue_mode=mode).durable


def test_integers_of_any_width_are_alike() -> None:
    arguments = plain_arguments({"a": Typed("B", 5), "b": Typed("s", 5), "c": 5, "d": Typed("l", 5)})
    assert arguments == {"a": 5, "b": 5, "c": 5, "d": 5}
    assert plain_arguments(None) == {}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x_max_length": True}, f"invalid arg 'x-max-length' {WHERE}: \"expected integer, got bool\""),
        ({"x_max_length_bytes": 1 << 63}, f"invalid arg 'x-max-length-bytes' {WHERE}: {{value_too_large,{1 << 63}}}"),
        (
            {"x_message_ttl": 315360000001},
            f"invalid arg 'x-message-ttl' {WHERE}: {{value_too_large,315360000001}}",
        ),
        ({"x_queue_mode": 5}, f"invalid arg 'x-queue-mode' {WHERE}: {{unacceptable_type,signedint}}"),
        ({"x_queue_version": 3}, f"invalid arg 'x-queue-version' {WHERE}: \"unsupported queue version '3'\""),
        ({"x_queue_version": "a"}, f"invalid arg 'x-queue-version' {WHERE}: \"expected integer, got longstr\""),
        (
            {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": 5},
            f"invalid arg 'x-dead-letter-routing-key' {WHERE}: {{unacceptable_type,signedint}}",
        ),
        (
            {"x_queue_type": "quorum", "x_delivery_limit": True},
            f"invalid arg 'x-delivery-limit' {WHERE}: \"expected integer, got bool\"",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_value_that_cannot_be_is_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        options(**arguments)
    assert str(refused.value) == text


def test_times_come_in_milliseconds_and_are_seconds() -> None:
    found = options(x_message_ttl=1500, x_expires=60_000)
    assert (found.message_ttl, found.expires) == (1.5, 60.0)
    assert options(x_message_ttl=0).message_ttl == 0.0
    assert options(x_message_ttl=315360000000).message_ttl == 315360000


def test_dead_letters_priorities_and_the_rest_become_options() -> None:
    found = options(
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
        x_max_priority=255,
        x_single_active_consumer=True,
        x_overflow="reject-publish-dlx",
    )
    assert found == QueueOptions(
        dead_letter_sink="",
        dead_letter_key="dead",
        max_priority=255,
        single_active=True,
        overflow=Overflow.REJECT_PUBLISH_DLX,
    )


def test_sink_keeps_what_means_nothing() -> None:
    declared = SinkOptions(kind=SinkKind.TOPIC, durable=False, auto_delete=True, internal=True)
    found = sink_options("e", "/", {"x-note": 1, "hash-header": "a", "hash-property": "b"}, declared)
    assert found == SinkOptions(
        kind=SinkKind.TOPIC,
        durable=False,
        auto_delete=True,
        internal=True,
        remarks=(("hash-header", "a"), ("hash-property", "b"), ("x-note", 1)),
    )


def test_alternate_is_a_name() -> None:
    assert sink_options("e", "/", {"alternate-exchange": "other"}, SinkOptions()) == SinkOptions(alternate="other")
    assert sink_options("e", "/", {"alternate-exchange": ""}, SinkOptions()).alternate == ""
    for value, kind in ((5, "signedint"), (True, "bool"), (None, "void")):
        with pytest.raises(PreconditionFailed) as refused:
            sink_options("e", "/", {"alternate-exchange": value}, SinkOptions())
        text = f"invalid type '{kind}' for arg 'alternate-exchange' in exchange 'e' in vhost '/'"
        assert str(refused.value) == text


def test_consistent_hash_exchange_chooses_by_one_thing() -> None:
    declared = SinkOptions(kind=SinkKind.CONSISTENT_HASH)
    assert sink_options("e", "/", {"hash-header": "h"}, declared).hash_header == "h"
    assert sink_options("e", "/", {"hash-property": "timestamp"}, declared).hash_property == "timestamp"
    for arguments, text in (
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        ({"hash-header": 5}, "invalid type 'signedint' for arg 'hash-header' in exchange 'e' in vhost '/'"),
    ):
        with pytest.raises(PreconditionFailed) as refused:
            sink_options("e", "/", arguments, declared)
        assert str(refused.value) == text


def test_consumers_priority_is_a_number() -> None:
    assert consumer_priority("q", "/", {}) == 0
    assert consumer_priority("q", "/", {"x-priority": -5}) == -5
    for value in (True, "a", 1.5):
        with pytest.raises(PreconditionFailed, match="invalid arg 'x-priority'"):
            consumer_priority("q", "/", {"x-priority": value})


def test_consumer_has_no_stream_to_begin_somewhere_in() -> None:
    with pytest.raises(
        PreconditionFailed, match=r"^invalid arg 'x-stream-offset' .* of queue type rabbit_classic_queue$"
    ):
        consumer_priority("q", "/", {"x-stream-offset": "first"})


def test_delivery_limit_below_nought_is_none_and_is_still_told_to_another_broker() -> None:
    free = options(x_queue_type="quorum", x_delivery_limit=-1)
    assert (free.delivery_limit, free.remarks) == (None, (("x-delivery-limit", -1),))
    assert (free.notes, free.is_quorum) == ((("x-queue-type", "quorum"),), True)
