"""Limits and times of a conversation."""

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols.emqp import Settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat": 0},
        {"heartbeat": 15.0},
        {"silence": float("nan")},
        {"inform": 0},
        {"parting": -1},
        {"max_message_size": 0},
        {"max_message_size": 1 << 31},
    ],
)
def test_times_and_limits_that_cannot_be_held_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]
