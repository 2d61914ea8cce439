"""The jobs that have ended lately: for how long they are remembered."""

from triomq.endpoints.jobs import ended
from triomq.endpoints.jobs.ended import EndedJobs


def test_jobs_are_remembered_for_their_seconds_and_two_generations_at_most() -> None:
    now = 0.0
    jobs = EndedJobs(lambda: now)
    for number in range(ended.MOST):
        jobs.add(b"%d" % number, "ok", "ada")
    assert jobs.get(b"0") == "ok"
    for number in range(ended.GENERATION):
        jobs.add(b"second %d" % number, "failed", "ada")
    assert (jobs.get(b"0"), jobs.get(b"second 0")) == ("ok", "failed")
    now = ended.SECONDS
    jobs.add(b"last", "ok", "ada")
    assert (jobs.get(b"0"), jobs.get(b"second 0"), jobs.get(b"last")) == (None, "failed", "ok")
