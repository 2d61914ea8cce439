"""What must be true of jobs in the end, whoever was killed: of what was accepted, and what workers have written.

- Each job that was accepted has ended, or is a dead letter whose workers have died three times.
- Of jobs of a key no more run at a time than its limit allows; of jobs with a unique key one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from .task import Task

LIMIT = 2
"""Jobs of one key at a time."""

DEATHS = 3
"""Workers that may die with a job until it is given up."""


class Run(msgspec.Struct):
    """An attempt of a job.

    Args:
        job: Its id.
        attempt: Which one its worker thinks it is.
        process: Whose.
        began: When.
        ended: When it ended, or its process did; infinity if neither has.
        is_done: Whether it ended well.
        has_died: Whether its process ended before it.
    """

    job: str
    attempt: int
    process: int
    began: float
    ended: float = float("inf")
    is_done: bool = False
    has_died: bool = False

    def __str__(self) -> str:
        end = f"killed {self.ended:.3f}" if self.has_died else f"ended {self.ended:.3f}"
        return f"{self.job}/{self.attempt} of {self.process} (begun {self.began:.3f}, {end})"


class JobOracle:
    """What is known of all jobs; made with the run, and asked in its end.

    Args:
        log: What workers write.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._position = 0
        self.accepted: dict[str, Task] = {}
        self.duplicates = self.given_up = 0
        self.deaths: dict[int, float] = {}
        """When processes of workers were killed."""
        self.kills: Counter[str] = Counter()
        self.runs: defaultdict[str, list[Run]] = defaultdict(list)
        self._open: dict[tuple[str, int], Run] = {}

    def read(self) -> None:
        """Read what workers have written since the last time."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._position)
            *lines, rest = file.read().split(b"\n")
        self._position += sum(len(line) + 1 for line in lines)
        assert not rest, "lines are written whole"
        for line in lines:
            what, job, attempt, process, time = line.decode("latin-1").split()
            key = (job, int(process))
            if what == "begin":
                self._open[key] = run = Run(job, int(attempt), int(process), float(time))
                self.runs[job].append(run)
            else:
                run = self._open.pop(key)
                run.ended, run.is_done = float(time), what == "ended"

    def missing(self) -> list[str]:
        """Return the jobs that have not ended, as far as is known."""
        self.read()
        return [job for job in self.accepted if not any(run.is_done for run in self.runs.get(job, ()))]

    def problems(self, dead: Iterable[str], left: int) -> Iterator[str]:
        """Yield what is wrong in the end.

        Args:
            dead: The jobs that are dead letters.
            left: How many messages are left in the queue.
        """
        self._close()
        given_up = set(dead)
        for job in self.missing():
            if job not in given_up:
                begun = len(self.runs.get(job, ()))
                yield f"job {job} was accepted and is lost: {self.accepted[job]}, begun {begun} times"
        # Jobs that a worker had and had not begun when it died do not show here as its victims, but they count as such.
        if given_up and sum(self.kills.values()) < DEATHS:
            yield f"jobs were given up after fewer than {DEATHS} deaths: {given_up}"
        self.given_up = len(given_up)
        if left:
            yield f"{left} messages are left in the queue"
        for name, most in (("key", LIMIT), ("unique", 1)):
            yield from self._crowds(name, most)

    def _close(self) -> None:
        for (_, process), run in self._open.items():
            if process in self.deaths:
                run.ended, run.has_died = max(run.began, self.deaths[process]), True

    def _crowds(self, name: str, most: int) -> Iterator[str]:
        """Yield where more jobs ran at a time than may."""
        by_key: defaultdict[str, list[Run]] = defaultdict(list)
        for job, runs in self.runs.items():
            task = self.accepted.get(job)
            if task is not None and (key := getattr(task, name)):
                by_key[key] += runs
        for key, runs in by_key.items():
            events = sorted([(run.began, 1, run) for run in runs] + [(run.ended, -1, run) for run in runs], key=_order)
            at_once: list[Run] = []
            for _, change, run in events:
                if change < 0:
                    at_once.remove(run)
                    continue
                at_once.append(run)
                if len(at_once) > most:
                    shown = ", ".join(map(str, at_once))
                    yield f"{name} {key}: {len(at_once)} at a time: {shown}"

    def __str__(self) -> str:
        self.read()
        runs = [run for runs in self.runs.values() for run in runs]
        again = sum(len(runs) > 1 for runs in self.runs.values())
        twice = sum(sum(run.is_done for run in runs) > 1 for runs in self.runs.values())
        kills = ", ".join(f"{count} × {name}" for name, count in self.kills.items())
        return (
            f"{len(self.accepted)} accepted, {self.duplicates} duplicates, {len(runs)} begun, {again} more than once, "
            f"{twice} done more than once, {self.given_up} given up; killed: {kills or 'nobody'}"
        )


def _order(event: tuple[float, int, Run]) -> tuple[float, int]:
    return event[0], event[1]
