"""Limits and times that can be held."""

from math import inf

import pytest

from triomq.errors import LocalProtocolError
from triomq.protocols.mtl import MTLSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"heartbeat": 0.0},
        {"heartbeat": 15.0},
        {"silence": 4.0},
        {"heartbeat": inf},
        {"max_message_size": 0},
        {"max_message_size": 1 << 31},
        {"longest_header": 0},
        {"most_fields": 0},
        {"longest_body": 0},
        {"longest_reply": 0},
        {"most_waiting": 0},
        {"most_resources": 0},
        {"most_summons": -1},
        {"pongs_per_second": 0},
    ],
)
def test_setting_that_cannot_be_held_is_named(wrong: dict[str, float]) -> None:
    with pytest.raises(LocalProtocolError, match=next(iter(wrong))):
        MTLSettings(**wrong)  # type: ignore[arg-type]


def test_there_may_be_no_heartbeats_at_all() -> None:
    assert MTLSettings(heartbeat=inf, silence=inf).heartbeat == inf
