"""The pool: what a worker has taken, where it runs, and how much more is asked for.

    lanes ──▶ Pool.take ──▶ slots     async jobs
      ▲                └──▶ children  sync jobs, in processes
      │                        │
      └── answers, credit ◀────┘

- A *lane* is a conversation with the broker about some queues. Its credit is the room in the places where its jobs
  run: slots for async jobs, children for sync ones. So a worker has up to three lanes, and sync jobs that take long
  hold up no queue that has async ones only.
- A lane for both kinds asks for as many as there is room for if they come in the shares of the last ones. If more of
  one kind come than there is room for, the broker gets these back at once. Dropped: to ask for the lesser room of the
  two. Where only sync jobs come, and are short, that is as few as there are slots, and a wake-up for one or two jobs.
- The credit follows the run times: one job for each place, and what ends within 5 ms.
- The items of a stream are sent by a task, in their order, the end behind them. Whoever makes items waits when
  ``_MOST_ITEMS`` of them wait.
"""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from math import inf
from typing import Final

import msgspec
import trio

from triomq.clients import EMQPJob, EMQPWorker
from triomq.errors import JobError
from triomq.jobs.child.execution import Ending, Task
from triomq.jobs.child.program import ChildSetUp
from triomq.jobs.definition import JobDefinition
from triomq.jobs.registry import Jobs
from triomq.jobs.worker.children import ChildSet
from triomq.jobs.worker.failure_log import log_failure, log_unknown
from triomq.jobs.worker.pooled import JobKind, PooledJob
from triomq.jobs.worker.process import GRACE, search_path
from triomq.jobs.worker.slots import AsyncSlots, SyncPlace

_MOST_ITEMS: Final = 32
"""Items of a stream that wait here: a round trip's worth, as the broker and the reader hold others."""

_NEWEST: Final = 0.1
"""Of the last job in the share of async ones."""

_RARE: Final = 0.01
"""The least share: at most so many jobs of one kind are asked for where those of the other have all the room."""


class PoolStatistics(msgspec.Struct, frozen=True):
    """A snapshot of a worker.

    Args:
        done: Jobs that had a result.
        failed: Jobs that had none, by their state.
        held: Jobs that it has now.
        returned: Jobs that it has not begun, and returned to the broker.
    """

    done: int
    failed: Mapping[str, int]
    held: int
    returned: int


class Lane:
    """Some queues of a worker, and its conversation about them; made by the pool.

    Args:
        queues: Their names and weights.
        is_sync: Whether they have jobs for processes.
        is_async: Whether they have jobs for slots.
    """

    def __init__(self, queues: Mapping[str, int], *, is_sync: bool, is_async: bool) -> None:
        self.queues = queues
        self.is_sync = is_sync
        self.is_async = is_async
        self.worker: EMQPWorker | None = None
        self.held: dict[EMQPJob, PooledJob] = {}
        self._async_share = 0.5  # of the last jobs

    @property
    def is_mixed(self) -> bool:
        """Whether nobody knows where its next job will run."""
        return self.is_sync and self.is_async

    def count(self, for_slots: int, for_children: int) -> None:
        """Count jobs that have come."""
        jobs = for_slots + for_children
        if self.is_mixed and jobs:
            share = for_slots / jobs
            self._async_share = share + (1 - _NEWEST) ** jobs * (self._async_share - share)

    def room(self, in_slots: int, in_children: int) -> int:
        """Return how many jobs there is room for, if they come in the shares of the last ones."""
        if not self.is_mixed:
            return max(0, in_slots if self.is_async else in_children)
        if in_slots <= 0 or in_children <= 0:
            return 0
        share = self._async_share
        return int(min(in_slots / max(share, _RARE), in_children / max(1 - share, _RARE)))

    @property
    def name(self) -> str:
        """What its jobs have in common."""
        return "mixed" if self.is_mixed else "sync" if self.is_sync else "async"


class Pool:
    """All that a worker has to do; made by the worker, anew after a crash.

    Args:
        jobs: The registry.
        queues: The queues that it serves, with weights.
        concurrency: How many jobs run in slots at a time.
        processes: How many child processes there are for sync jobs; with 0 these run in slots too.
        target: The registry, as child processes find it.
        broker: The URL by which their jobs send jobs; empty if there is none.
        sync_place: Where sync jobs run without processes.
        log_failures: Whether a line is logged for each job that has no result.
    """

    def __init__(
        self,
        jobs: Jobs,
        queues: Mapping[str, int],
        *,
        concurrency: int,
        processes: int,
        target: str,
        broker: str,
        sync_place: SyncPlace,
        log_failures: bool = False,
    ) -> None:
        self._log_failures = log_failures
        definitions = jobs.definitions.values()
        self._jobs = jobs
        self._kinds = {definition.name: JobKind(definition) for definition in definitions}
        self._has_children = processes > 0 and not all(definition.is_async for definition in definitions)
        self.slots = AsyncSlots(concurrency, self, sync_place, jobs.middleware)
        self.children = ChildSet(
            ChildSetUp(search_path(), target, broker), processes if self._has_children else 0, self
        )
        self.lanes = lanes_of(queues, definitions, has_children=self._has_children)
        self._streams: trio.Nursery | None = None
        self._unsettled = trio.Event()
        self._is_leaving = False
        self._done = self._returned = 0
        self._failed: dict[str, int] = {}

    def statistics(self) -> PoolStatistics:
        """Return what has become of jobs so far."""
        held = sum(len(lane.held) for lane in self.lanes)
        return PoolStatistics(self._done, dict(self._failed), held, self._returned)

    async def run(self) -> None:
        """Look after what takes long, and say at once what slots have said in one turn, until cancelled."""
        async with trio.open_nursery() as self._streams:
            if self._has_children:
                self._streams.start_soon(self.children.watch)
            while True:
                await self._unsettled.wait()
                self._unsettled = trio.Event()
                self.settled()

    # Jobs come

    def take(self, lane: Lane, jobs: list[EMQPJob]) -> None:
        """Begin what has come with one wake-up, or as much of it as there is room for."""
        now, clocks = trio.current_time(), 0.0
        for_slots: list[PooledJob] = []
        for_children: list[PooledJob] = []
        for job in jobs:
            try:
                kind = self._kinds[self._jobs.definition_of(job.message).name]
            except JobError as error:
                if self._log_failures:
                    log_unknown(job.id.decode("utf-8", "replace"), job.queue, error)
                job.end("failed", type=type(error).__name__, text=str(error), retry=False)
                continue
            deadline = job.deadline
            if deadline < inf:
                clocks = clocks or time.monotonic() - now
            task = Task(
                job.id.decode("utf-8", "replace"),
                kind.definition.name,
                job.queue,
                job.attempt or 1,
                1 + max(job.extension.retries, job.headers.retry_count),
                deadline + clocks,
                timeout_of(job, kind),
                job.extension.trace,
                job.message,
            )
            pooled = lane.held[job] = PooledJob(job, lane, kind, task, deadline)
            job.on_cancel = partial(self._cancel, pooled)
            if kind.definition.is_async or not self._has_children:
                for_slots.append(pooled)
            else:
                for_children.append(pooled)
        if for_slots:
            self.slots.take(for_slots)
        if for_children:
            self.children.take(for_children)
        if lane.is_mixed:
            lane.count(len(for_slots), len(for_children))
            self._return_excess(self.slots, len(for_slots))
            self._return_excess(self.children, len(for_children))
        self.settled()

    def _return_excess(self, place: AsyncSlots | ChildSet, most: int) -> None:
        """Return of the last jobs those for which there is no room: more of one kind have come than before."""
        jobs = place.take_back(min(most, place.held - place.credit))
        if jobs and not self.give_back(jobs):
            place.take(jobs)

    def _cancel(self, job: PooledJob) -> None:
        """Stop a job, as the broker asks."""
        grace = GRACE if job.job.grace is None else job.job.grace
        reason = Ending("cancelled", "JobCancelled", "it was cancelled", retry=False)
        if job.kind.definition.is_async or not self._has_children:
            self.slots.cancel(job, reason)
        else:
            self.children.cancel(job, reason, grace)

    def leave(self) -> None:
        """Take nothing more, and return to the broker what has not begun."""
        self._is_leaving = True
        self.give_back(self.slots.take_all_back() + self.children.take_all_back())
        self.settled()

    def lost_connection(self, lane: Lane) -> None:
        """Forget the jobs of a conversation that is over; what runs of them runs on, for nobody."""
        lane.worker = None
        lane.held.clear()

    # Jobs end: these are the methods of ``children.Ends``

    def done(self, job: PooledJob, message: bytes) -> None:
        """Answer with a result."""
        self._done += 1
        if job.items is not None:
            job.items.end(partial(job.job.reply, message))
        else:
            job.job.reply(message)
        job.lane.held.pop(job.job, None)

    def failed(self, job: PooledJob, ending: Ending) -> None:
        """Answer that there is none."""
        self._failed[ending.state] = self._failed.get(ending.state, 0) + 1
        if self._log_failures:
            log_failure(job.task, ending)
        end = partial(
            job.job.end,
            ending.state,
            message=ending.message or None,
            type=ending.type,
            text=ending.text,
            traceback=ending.traceback,
            retry=ending.retry,
        )
        if job.items is not None:
            job.items.end(end)
        else:
            end()
        job.lane.held.pop(job.job, None)

    def reported(self, job: PooledJob, value: bytes, *, item: bool) -> None:
        """Send progress, or an item of a stream."""
        if not item:
            job.job.progress(value)
            return
        if job.items is None:
            job.items = Items(job.job)
            assert self._streams is not None, "jobs run while the pool does"
            self._streams.start_soon(job.items.run)
        job.items.add(value)

    async def wait_room(self, job: PooledJob) -> None:
        """Wait while too many items of a stream wait."""
        if job.items is not None:
            await job.items.wait_room()

    def give_back(self, jobs: list[PooledJob]) -> bool:
        """Return jobs to the broker that were not begun; False with a broker that cannot take them."""
        by_lane: dict[Lane, list[EMQPJob]] = {}
        for job in jobs:
            by_lane.setdefault(job.lane, []).append(job.job)
        for lane, some in by_lane.items():
            if lane.worker is None or not lane.worker.give_back(some):
                return False
            for each in some:
                lane.held.pop(each, None)
            self._returned += len(some)
        return True

    def settle_soon(self) -> None:
        """Call ``settled`` behind what happens in this turn of the loop: an answer alone costs twice as much."""
        self._unsettled.set()

    def settled(self) -> None:
        """Ask for as much as there is room for, and send what there is to say."""
        if not self._is_leaving:
            for_slots = self.slots.credit - self.slots.held
            for_children = self.children.credit - self.children.held
        for lane in self.lanes:
            if lane.worker is None:
                continue
            if not self._is_leaving:
                lane.worker.slots = len(lane.held) + lane.room(for_slots, for_children)
            lane.worker.flush()


class Items:
    """The items of one job on their way to its requester, and the job's end behind them.

    Args:
        job: Whose they are.
    """

    def __init__(self, job: EMQPJob) -> None:
        self._job = job
        self._items: deque[bytes] = deque()
        self._end: partial[None] | None = None
        self._changed = trio.Event()

    def add(self, item: bytes) -> None:
        """Send an item in its turn."""
        self._items.append(item)
        self._change()

    def end(self, end: "partial[None]") -> None:
        """Answer once all items are out."""
        self._end = end
        self._change()

    async def wait_room(self) -> None:
        """Wait while too many wait."""
        while len(self._items) >= _MOST_ITEMS:
            await self._changed.wait()

    async def run(self) -> None:
        """Send them."""
        while self._end is None or self._items:
            while self._items:
                await self._job.item(self._items[0])
                self._items.popleft()
                self._change()
            if self._end is None:
                await self._changed.wait()
        self._end()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def timeout_of(job: EMQPJob, kind: JobKind) -> float:
    """Return the seconds that a job may run: those of its requester, else those of its decorator."""
    return job.timeout or kind.timeout


def lanes_of(queues: Mapping[str, int], definitions: Iterable[JobDefinition], *, has_children: bool) -> list[Lane]:
    """Group queues by where their jobs run, as the decorators name them; a queue that none names may have any job."""
    if not has_children:
        return [Lane(queues, is_sync=False, is_async=True)]
    kinds: dict[str, set[bool]] = {}
    for definition in definitions:
        kinds.setdefault(definition.options.queue, set()).add(definition.is_async)
    groups: dict[frozenset[bool], dict[str, int]] = {}
    for name, weight in queues.items():
        groups.setdefault(frozenset(kinds.get(name, (False, True))), {})[name] = weight
    return [Lane(group, is_sync=False in kind, is_async=True in kind) for kind, group in groups.items()]
