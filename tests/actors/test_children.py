import pytest

from triomq.actors import ChildSpec, RestartPolicy
from triomq.actors.children import History, Restarts

from .cast import Counter


@pytest.mark.parametrize(
    ("restart", "crashed", "ended"),
    [("permanent", True, True), ("transient", True, False), ("temporary", False, False)],
)
def test_spec_decides_whether_a_child_is_restarted(restart: RestartPolicy, crashed: bool, ended: bool) -> None:
    spec = ChildSpec(Counter, restart=restart)
    assert spec.restarts_after(ValueError()) is crashed
    assert spec.restarts_after(None) is ended


def test_restarts_within_the_period_are_counted() -> None:
    restarts = Restarts(2, 5.0)
    assert [restarts.exceed(now) for now in (0.0, 1.0, 2.0)] == [False, False, True]


def test_restarts_slide_out_of_the_period() -> None:
    restarts = Restarts(1, 5.0)
    assert [restarts.exceed(now) for now in (0.0, 5.0, 10.0, 14.9)] == [False, False, False, True]


def test_no_restart_may_be_too_many() -> None:
    assert Restarts(0, 5.0).exceed(0.0)


def test_period_of_life_makes_a_failure_the_first_in_a_row() -> None:
    history = History(3, 5.0)
    history.fail(0.0)
    history.fail(1.0)
    assert history.failures == 2
    history.started = 2.0
    history.fail(6.9)
    assert history.failures == 3
    history.started = 7.0
    history.fail(12.0)
    assert history.failures == 1
