import pytest

from triomq.actors import Backoff


def test_the_first_restart_is_immediate_and_the_next_ones_wait_longer_and_longer() -> None:
    backoff = Backoff(initial=1, factor=2, maximum=5, jitter=0)
    assert [backoff.delay(failures) for failures in range(1, 7)] == [0, 1, 2, 4, 5, 5]


def test_jitter_subtracts_up_to_its_share() -> None:
    backoff = Backoff(initial=10, jitter=0.5)
    delays = [backoff.delay(2) for _ in range(200)]
    assert all(5 <= delay <= 10 for delay in delays)
    assert len(set(delays)) > 100


def test_very_many_failures_do_not_overflow() -> None:
    assert Backoff(factor=1e5, jitter=0).delay(10_000) == 30


@pytest.mark.parametrize(
    "options", [{"initial": -1.0}, {"factor": 0.5}, {"initial": 40.0}, {"jitter": 1.5}, {"jitter": -0.1}]
)
def test_senseless_values_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="makes no sense"):
        Backoff(**options)
