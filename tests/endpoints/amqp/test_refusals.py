"""How refusals are worded for AMQP clients."""

import pytest

from triomq.core import (
    Inequivalent,
    Overflow,
)
from triomq.endpoints.amqp.refusals import HARD_CODES, AMQPRefusal, ReplyCode, reply_code_of
from triomq.errors import (
    AccessRefused,
    LimitExceeded,
    NotFound,
    PreconditionFailed,
    Refused,
    ResourceLocked,
    Unroutable,
)
from triomq.protocols.amqp import REPLY_NAMES


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (NotFound, 404),
        (AccessRefused, 403),
        (ResourceLocked, 405),
        (PreconditionFailed, 406),
        (LimitExceeded, 506),
        (Unroutable, 541),
        (Refused, 541),
    ],
)
def test_any_other_refusal_keeps_its_own_words(kind: type[Refused], code: int) -> None:
    assert reply_code_of(kind("so it is"), "/", "queue") == ReplyCode(code, "so it is")


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (
            Inequivalent("q", "max_bytes", None, 7),
            "'x-max-length-bytes' for exchange 'q' in vhost '/': received none "
            "but current is the value '7' of type 'signedint'",
        ),
        (
            Inequivalent("q", "expires", None, 0.5),
            "'x-expires' for exchange 'q' in vhost '/': received none "
            "but current is the value '500' of type 'signedint'",
        ),
        (
            Inequivalent("q", "max_priority", 5, 0),
            "'x-max-priority' for exchange 'q' in vhost '/': received the value '5' of type 'signedint' "
            "but current is none",
        ),
        (
            Inequivalent("q", "dead_letter_sink", "b", "a"),
            "'x-dead-letter-exchange' for exchange 'q' in vhost '/': received 'b' but current is 'a'",
        ),
        (
            Inequivalent("q", "single_active", False, True),
            "'x-single-active-consumer' for exchange 'q' in vhost '/': received none "
            "but current is the value 'true' of type 'bool'",
        ),
        (
            Inequivalent("q", "overflow", Overflow.REJECT_PUBLISH, Overflow.DROP_HEAD),
            "'x-overflow' for exchange 'q' in vhost '/': received 'reject-publish' but current is 'drop-head'",
        ),
        (
            Inequivalent("q", "notes", (("a", 1), ("b", True)), (("a", 1), ("b", False))),
            "'b' for exchange 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            Inequivalent("q", "notes", (("a", True),), ()),
            "'a' for exchange 'q' in vhost '/': received the value 'true' of type 'bool' but current is none",
        ),
        (
            Inequivalent("q", "notes", (), (("a", "text"),)),
            "'a' for exchange 'q' in vhost '/': received none but current is the value 'text' of type 'longstr'",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else f"{value.option}",
)
def test_difference_is_named_as_the_client_wrote_it(refused: Inequivalent, text: str) -> None:
    assert reply_code_of(refused, "/", "exchange") == ReplyCode(406, f"inequivalent arg {text}")


def test_every_code_has_a_name() -> None:
    assert set(REPLY_NAMES) >= HARD_CODES


def test_answer_of_the_endpoint_itself_carries_code_and_text() -> None:
    error = AMQPRefusal(403, "no")
    assert error.answer == ReplyCode(403, "no")
    assert str(error) == "no"
