from triomq.jobs.child.tokens import MOST_JOBS
from triomq.jobs.worker.means import AHEAD, ENOUGH, Mean


def mean_of(*seconds: float) -> Mean:
    mean = Mean()
    for each in seconds:
        mean.add(each)
    return mean


def test_unknown_job_fills_a_child() -> None:
    assert Mean().cost == AHEAD
    assert Mean().worth(4) == 0


def test_first_run_is_the_mean_and_later_ones_move_it() -> None:
    assert mean_of(0.1).seconds == 0.1
    assert 0.1 < mean_of(0.1, 0.2).seconds < 0.15


def test_jobs_that_take_nothing_are_enough_for_a_child_when_it_has_as_many_as_it_may() -> None:
    assert ENOUGH / mean_of(0.000001).cost > MOST_JOBS


def test_child_is_given_no_second_job_of_a_millisecond_while_another_is_idle() -> None:
    assert mean_of(0.001).cost > ENOUGH
    assert mean_of(0.001).cost < AHEAD


def test_slots_are_worth_what_they_end_in_five_milliseconds() -> None:
    assert mean_of(0.001).worth(2) == 10
    assert mean_of(0.1).worth(2) == 0
    assert mean_of(0.000001).worth(2) == 62
    assert mean_of(0.000001).worth(100) == 0
