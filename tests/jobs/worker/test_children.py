import os
import random
import signal
from collections import Counter
from math import inf
from pathlib import Path

import trio
from tests.jobs.worker.conftest import Fifos, Recorder, make_job, running_children

from triomq.jobs.child.execution import Ending
from triomq.jobs.worker.children import ChildSet
from triomq.jobs.worker.means import AHEAD
from triomq.jobs.worker.pooled import PooledJob


async def test_children_run_jobs(recorder: Recorder) -> None:
    async with running_children(recorder) as children:
        job = make_job("echo", "hi")
        children.take([job])
        await recorder.wait_answered(job)
        assert recorder.results == {job: b'{"value":"hi"}'}
        assert children.held == 0


async def test_job_that_hangs_in_the_midst_of_4000_is_the_only_one_that_is_lost(
    recorder: Recorder, fifos: Fifos, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    jobs = [make_job("record", str(ran), number) for number in range(4000)]
    hanging = make_job("hang", fifos.begun)
    async with running_children(recorder, 2) as children:
        children.take([*jobs[:2000], hanging, *jobs[2000:]])
        await fifos.wait_begun()
        await recorder.wait_answered(*jobs)
        (at_it,) = [child for child in children.children if child.running is hanging]
        assert at_it.pid is not None
        os.kill(at_it.pid, signal.SIGKILL)
        await recorder.wait_answered(hanging)
    assert Counter(ran.read_text().split()) == Counter(str(number) for number in range(4000))
    assert recorder.endings.keys() == {hanging}
    assert recorder.endings[hanging].state == "lost"
    assert recorder.endings[hanging].text == "its process ended by SIGKILL"
    assert set(recorder.answers.values()) == {1}


async def test_children_that_are_killed_at_random_lose_no_job_and_run_none_twice(
    recorder: Recorder, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    jobs = [make_job("record", str(ran), number) for number in range(20_000)]
    chance = random.Random(22)
    killed = 0
    async with running_children(recorder, 2) as children:
        children.take(jobs)
        while len(recorder.answers) < len(jobs):
            await recorder.changed.wait()
            if len(recorder.answers) > killed * 1500 and chance.random() < 0.1:
                victim = chance.choice(children.children)
                if victim.is_ready and victim.pid is not None:
                    os.kill(victim.pid, signal.SIGKILL)
                    killed += 1
    assert killed >= 5
    assert set(recorder.answers.values()) == {1}
    times = Counter(ran.read_text().split())
    assert set(times.values()) == {1}
    lost = {job.task.payload for job in recorder.endings}
    assert len(lost) <= killed
    assert len(times) >= 20_000 - len(lost)


def make_jobs(count: int, seconds: float) -> list[PooledJob]:
    """Make jobs that are known to take so long."""
    jobs = [make_job("nothing") for _ in range(count)]
    for job in jobs:
        job.kind.mean.add(seconds)
    return jobs


def take_at_once(children: ChildSet, jobs: list[PooledJob]) -> None:
    """Give jobs to children that have just begun what they have."""
    children.take(jobs)
    for child in children.children:
        child.began = inf


def loads(children: ChildSet) -> list[int]:
    return sorted(child.held for child in children.children)


async def test_few_children_do_the_short_jobs(recorder: Recorder) -> None:
    async with running_children(recorder, 3) as children:
        take_at_once(children, make_jobs(5, 0.00001))
        assert loads(children) == [0, 0, 5]
        take_at_once(children, make_jobs(20, 0.00001))
        assert loads(children) == [0, 0, 25]
        take_at_once(children, make_jobs(20, 0.00001))
        assert loads(children) == [0, 13, 32]


async def test_all_children_do_short_jobs_if_there_are_many(recorder: Recorder) -> None:
    async with running_children(recorder, 3) as children:
        children.take(make_jobs(3 * 11 + 3, 0.00007))
        assert loads(children) == [12, 12, 12]


async def test_job_that_is_long_or_unknown_begins_at_once_while_a_child_is_idle(recorder: Recorder) -> None:
    async with running_children(recorder, 3) as children:
        children.take(make_jobs(5, 0.00001))
        children.take([make_job("nothing")])
        assert loads(children) == [0, 1, 5]
        children.take(make_jobs(1, 0.001))
        assert loads(children) == [1, 1, 5]
    async with running_children(recorder, 3) as children:
        children.take([make_job("nothing") for _ in range(5)])
        assert loads(children) == [1, 1, 1]


async def test_short_job_does_not_go_behind_an_unknown_one(recorder: Recorder) -> None:
    async with running_children(recorder, 2) as children:
        children.take([make_job("nothing")])
        children.take(make_jobs(5, 0.00001))
        assert loads(children) == [1, 5]


async def test_short_jobs_do_not_go_to_a_child_that_has_not_answered_for_long_while_another_is_idle(
    recorder: Recorder,
) -> None:
    async with running_children(recorder, 2) as children:
        children.take(make_jobs(5, 0.00001))
        (child,) = [child for child in children.children if child.held]
        child.began -= AHEAD
        children.take(make_jobs(6, 0.00001))
        assert loads(children) == [5, 6]


async def test_jobs_behind_a_slow_one_go_to_another_child(recorder: Recorder, fifos: Fifos) -> None:
    async with running_children(recorder, 2) as children:
        known = make_job("nothing")
        children.take([known])
        await recorder.wait_answered(known)
        slow = make_job("wait_for", fifos.begun, fifos.go)
        slow.kind.mean.add(0.0001)
        behind = [make_job("nothing") for _ in range(20)]
        for job in behind:
            job.kind.mean.add(0.00001)
        children.take([slow, *behind])
        await fifos.wait_begun()
        await recorder.wait_answered(*behind)
        assert slow not in recorder.answers
        await fifos.say_go()
        await recorder.wait_answered(slow)
    assert recorder.results[slow] == b'{"value":"gone on"}'
    assert not recorder.endings


async def test_jobs_behind_slow_ones_only_go_back_to_the_broker(recorder: Recorder, fifos: Fifos) -> None:
    recorder.takes_back = True
    async with running_children(recorder) as children:
        slow = make_job("wait_for", fifos.begun, fifos.go)
        slow.kind.mean.add(0.0001)
        behind = [make_job("nothing") for _ in range(20)]
        for job in behind:
            job.kind.mean.add(0.00001)
        children.take([slow, *behind])
        await fifos.wait_begun()
        await recorder.wait_given_back(20)
        assert set(recorder.given_back) == set(behind)
        assert children.held == 1
        assert children.credit == 1
        await fifos.say_go()
        await recorder.wait_answered(slow)


async def test_job_that_runs_too_long_is_stopped(recorder: Recorder) -> None:
    async with running_children(recorder) as children:
        job = make_job("pause")
        children.take([job])
        await recorder.wait_answered(job)
        assert recorder.endings[job].state == "timed-out"
        assert recorder.endings[job].text == "it ran for more than 0.2 s"


async def test_job_in_c_code_is_killed_when_its_grace_is_over(recorder: Recorder, fifos: Fifos) -> None:
    async with running_children(recorder) as children:
        job, other = make_job("hang_in_c", fifos.begun), make_job("echo", "after")
        pid = children.children[0].pid
        children.take([job])
        await fifos.wait_begun()
        children.cancel(job, make_reason(), 0.5)
        await recorder.wait_answered(job)
        assert recorder.endings[job].state == "cancelled"
        assert not recorder.endings[job].traceback  # nothing could be raised in it
        children.take([other])
        await recorder.wait_answered(other)
        assert children.children[0].pid != pid


async def test_job_that_looks_stops_and_leaves_its_process_as_it_was(recorder: Recorder, fifos: Fifos) -> None:
    async with running_children(recorder) as children:
        job, other = make_job("stop_when_asked", fifos.begun), make_job("process_number")
        pid = children.children[0].pid
        children.take([job])
        await fifos.wait_begun()
        reason = make_reason()
        children.cancel(job, reason, 60)
        await recorder.wait_answered(job)
        assert recorder.endings[job].state == "cancelled"
        assert "current_job().check()" in recorder.endings[job].traceback
        children.take([other])
        await recorder.wait_answered(other)
        assert recorder.results[other] == b'{"value":%d}' % pid


async def test_job_that_does_not_look_is_terminated(recorder: Recorder, fifos: Fifos) -> None:
    async with running_children(recorder) as children:
        job, other = make_job("hang", fifos.begun), make_job("process_number")
        pid = children.children[0].pid
        children.take([job])
        await fifos.wait_begun()
        children.cancel(job, make_reason(), 1.0)
        children.take([other])
        await recorder.wait_answered(job, other)
        assert recorder.endings[job].state == "cancelled"
        assert "signal.pause()" in recorder.endings[job].traceback
        assert recorder.results[other] != b'{"value":%d}' % pid


def make_reason() -> Ending:
    return Ending("cancelled", text="its caller has cancelled it", retry=False)


async def test_job_that_waits_is_cancelled_unrun(recorder: Recorder, fifos: Fifos, tmp_path: Path) -> None:
    async with running_children(recorder) as children:
        slow, waits = make_job("wait_for", fifos.begun, fifos.go), make_job("record", str(tmp_path / "ran"), 1)
        slow.kind.mean.add(0.00001)
        waits.kind.mean.add(0.00001)
        children.take([slow, waits])
        children.cancel(waits, make_reason(), 1.0)
        assert recorder.endings[waits].state == "cancelled"
        await fifos.wait_begun()
        await fifos.say_go()
        await recorder.wait_answered(slow)
    assert not (tmp_path / "ran").exists()


async def test_job_that_kills_its_process_is_lost_and_that_behind_it_is_not(recorder: Recorder) -> None:
    async with running_children(recorder) as children:
        deadly, other = make_job("die"), make_job("echo", "alive")
        deadly.kind.mean.add(0.00001)
        other.kind.mean.add(0.00001)
        children.take([deadly, other])
        await recorder.wait_answered(deadly, other)
    assert recorder.endings[deadly].state == "lost"
    assert recorder.endings[deadly].retry
    assert recorder.results[other] == b'{"value":"alive"}'


async def test_job_that_raises_answers_with_type_text_and_traceback(recorder: Recorder) -> None:
    async with running_children(recorder) as children:
        job, leaving = make_job("fail", "no such order"), make_job("leave")
        children.take([job, leaving])
        await recorder.wait_answered(job, leaving)
    failure = recorder.endings[job]
    assert (failure.state, failure.type, failure.text, failure.retry) == (
        "failed",
        "ValueError",
        "no such order",
        True,
    )
    assert "raise ValueError(text)" in failure.traceback
    assert "triomq/jobs" not in failure.traceback
    assert recorder.endings[leaving].type == "SystemExit"


async def test_arguments_and_results_larger_than_a_pipe_go_through(recorder: Recorder) -> None:
    large = "x" * 3_000_000
    async with running_children(recorder) as children:
        jobs = [make_job("echo", large), make_job("echo", "small"), make_job("echo", large)]
        for job in jobs:
            job.kind.mean.add(0.00001)
        children.take(jobs)
        await recorder.wait_answered(*jobs)
    assert [len(recorder.results[job]) for job in jobs] == [3_000_012, 17, 3_000_012]


async def test_progress_and_items_come_before_the_answer(recorder: Recorder) -> None:
    async with running_children(recorder) as children:
        job = make_job("count_to", 2)
        children.take([job])
        await recorder.wait_answered(job)
    assert recorder.reports == [(b"0", False), (b"0", True), (b"1", False), (b"1", True)]


async def test_job_whose_deadline_has_come_is_not_begun(recorder: Recorder) -> None:
    async with running_children(recorder) as children:
        job = make_job("echo", "late", deadline=trio.current_time())
        children.take([job])
        await recorder.wait_answered(job)
    assert recorder.endings[job].state == "expired"


def stand_still(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


async def test_child_that_stands_still_keeps_one_job_and_goes_on_later(recorder: Recorder) -> None:
    recorder.takes_back = True
    async with running_children(recorder) as children:
        pid = children.children[0].pid
        assert pid is not None
        stand_still(pid)
        jobs = [make_job("nothing") for _ in range(5)]
        for job in jobs:
            job.kind.mean.add(0.00001)
        children.take(jobs)
        await recorder.wait_given_back(4)
        os.kill(pid, signal.SIGCONT)
        await recorder.wait_answered(jobs[0])
        after = make_job("echo", "awake")
        children.take([after])
        await recorder.wait_answered(after)
        assert recorder.given_back == jobs[1:]
        assert not recorder.endings


async def test_child_that_ends_is_given_no_job_of_another_that_does(recorder: Recorder) -> None:
    async with running_children(recorder, 2) as children:
        children.take(make_jobs(5, 0.00001))
        (child,) = [child for child in children.children if child.held]
        assert child.pid is not None
        stand_still(child.pid)
    assert not any(child.held for child in children.children)
