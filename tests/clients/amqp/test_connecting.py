"""How long to wait before the next try."""

import pytest

from triomq.clients import Reconnect
from triomq.errors import ConfigError


def test_waits_grow_up_to_a_limit() -> None:
    policy = Reconnect(delay=0.5, max_delay=5, jitter=0)
    assert [policy.seconds(failures) for failures in range(6)] == [0.5, 1, 2, 4, 5, 5]
    assert policy.seconds(10_000) == 5


def test_part_of_the_delay_is_left_to_chance() -> None:
    policy = Reconnect(delay=1, max_delay=1, jitter=0.5)
    waits = {policy.seconds(0) for _ in range(100)}
    assert all(0.5 <= wait <= 1 for wait in waits)
    assert len(waits) > 50


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"delay": -1}, "delay"),
        ({"delay": 3, "max_delay": 2}, "max_delay"),
        ({"jitter": 2}, "jitter"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, float], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Reconnect(**wrong)  # type: ignore[arg-type]
