"""Workers of jobs on the executors of a Spark: one long Spark job, of which each task looks after one worker.

    open_spark_workers ──▶ Spark job ──▶ tasks ──▶ triomq worker …   as many as there are slots; see ``worker_task``
            │ ▲                            │ ▲
      drain │ └─── ready, broken, ended ───┘ │
            └────────────────────────────────┘

- The driver does not take part in jobs. It hears how each worker is, and says when all are to end.
- Until one worker was ready, one that cannot start ends all, with its reason: a module that executors lack. After that
  the reason is logged and the task tries again: one new machine without the code stops no others.
- A task that lacks triomq says so all the same (``worker_start``). One that does not even come to us, for want of
  Python or of a way to the driver, is tried again by Spark, for ever where ``spark.task.maxFailures`` is high. So until
  one worker was ready Spark is asked how many tasks have failed; a few fail with their executors.
- The Spark job runs under a tag of its own. Cancelling the tag is the hard end: jobs that run then are run again, by
  whatever worker the broker has.
- A call into the JVM waits for it, and it may be in the midst of collecting garbage: each is made in a thread, since
  the loop may be a broker's.
"""

import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import trio
from pyspark import SparkContext
from pyspark.sql import SparkSession

from triomq.actors import unwrap_group
from triomq.errors import PipelineError
from triomq.opening import opening
from triomq.pipeline.spark_failures import failed_tasks, reason_of
from triomq.pipeline.worker_start import LACKING, start_of
from triomq.pipeline.worker_task import WorkerPlan
from triomq.process import close_in_forks
from triomq.transports import bind_tcp

_log = logging.getLogger("triomq.worker")

_LONGEST_LINE: Final = 1 << 16
"""Bytes of what a task says; a longer one is no task of ours."""

_LONGEST_HELLO: Final = 10.0
"""Seconds in which who has connected must have shown the token."""

_ASK: Final = 1.0
"""Seconds between two questions whether tasks have failed; Spark answers in some milliseconds."""

_GROUP: Final = "spark.jobGroup.id"
"""The property by which Spark knows the group of what a thread asks for."""

_CANCEL: Final = 10.0
"""Seconds in which Spark has ended a job that it was asked to; it takes it 30 ms."""


class _Hello(msgspec.Struct):
    token: str
    task: int
    host: str
    pid: int


class _State(msgspec.Struct):
    state: str
    text: str = ""


class SparkWorkersStatistics(msgspec.Struct, frozen=True):
    """A snapshot.

    Args:
        tasks: How many there are to be.
        connected: How many Spark has begun, and are connected with the driver.
        ready: How many of these have a worker that has its jobs.
        started: How many workers were ready in all.
        hosts: Where they are, and how many on each.
    """

    tasks: int
    connected: int
    ready: int
    started: int
    hosts: Mapping[str, int]


class _ConnectedTask:
    """A task that is connected."""

    def __init__(self, stream: trio.SocketStream, hello: _Hello) -> None:
        self.stream = stream
        self.number = hello.task
        self.host = hello.host
        self.process = hello.host, hello.pid
        self.scope = trio.CancelScope()
        self.is_ready = False


class SparkWorkers:
    """Workers on executors; made by ``open_spark_workers``, end with its block.

    Args:
        spark: The session.
        plan: What each task does.
        tasks: How many there are.
        tag: A further one of the Spark job; none if empty.
    """

    def __init__(self, spark: SparkSession, plan: WorkerPlan, tasks: int, tag: str) -> None:
        self._context = spark.sparkContext
        self._plan = plan
        self._tag = f"triomq-{secrets.token_hex(4)}"
        self._tags = [self._tag, tag] if tag else [self._tag]
        self._count = tasks
        self._tasks: set[_ConnectedTask] = set()
        self._started = 0
        self._failure: PipelineError | None = None
        self._is_draining = False
        self._has_ended = trio.Event()
        self._changed = trio.Event()

    def statistics(self) -> SparkWorkersStatistics:
        """Return how many there are now."""
        hosts: dict[str, int] = {}
        for task in self._tasks:
            hosts[task.host] = hosts.get(task.host, 0) + task.is_ready
        ready = sum(hosts.values())
        return SparkWorkersStatistics(self._count, len(self._tasks), ready, self._started, hosts)

    async def wait_ready(self, count: int = 1) -> None:
        """Wait until so many workers have their jobs.

        Raises:
            PipelineError: A worker cannot start, or Spark has ended the job.
        """
        while self.statistics().ready < count and not self._has_ended.is_set():
            await self._changed.wait()
        self._raise_failure()

    async def wait(self) -> None:
        """Wait until all have ended: after ``drain``, or because Spark gives up.

        Raises:
            PipelineError: A worker cannot start, or Spark has ended the job.
        """
        await self._has_ended.wait()
        self._raise_failure()

    def drain(self) -> None:
        """Let the workers end: what has not begun goes back to the broker, what runs ends and is answered."""
        if not self._is_draining:
            self._is_draining = True
            self._change()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # Spark

    async def run_job(self) -> None:
        """Have Spark run the tasks until they have ended."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_tasks)
            await self._run_tasks()
            nursery.cancel_scope.cancel()

    async def _run_tasks(self) -> None:
        try:
            await trio.to_thread.run_sync(self._collect, abandon_on_cancel=True)
            if not self._is_draining and self._failure is None:
                self._failure = PipelineError("Spark has ended the job of the workers")
        except Exception as error:  # Py4J's, PySpark's, and those of tasks; which ones there are is theirs to know
            if self._failure is None:
                self._failure = PipelineError(reason_of(error, "Spark has ended the job of the workers"))
        finally:
            self._has_ended.set()
            self._change()

    def _collect(self) -> None:
        # Tags belong to threads of the JVM, of which each thread of ours that talks with it has one.
        for tag in self._tags:
            self._context.addJobTag(tag)
        self._context.setLocalProperty(_GROUP, self._tag)  # Python's status tracker knows groups, and no tags
        try:
            numbers = self._context.parallelize(range(self._count), self._count)
            numbers.mapPartitionsWithIndex(start_of(self._plan)).collect()
        finally:
            self._context.setLocalProperty(_GROUP, None)  # which removes it
            for tag in self._tags:
                self._context.removeJobTag(tag)

    async def _watch_tasks(self) -> None:
        """Fail if more tasks do than there are, while no worker was ready."""
        while not self._started:
            await trio.sleep(_ASK)
            failed = await trio.to_thread.run_sync(failed_tasks, self._context, self._tag)
            if failed > self._count and not self._started:
                await self._fail(
                    f"the workers cannot be started: {failed} tasks have failed before they could say why, and Spark's "
                    "log has the reason; executors need the Python that PYSPARK_PYTHON names, and have to reach the "
                    f"driver at {self._plan.host}:{self._plan.port}"
                )
                return

    async def cancel(self) -> None:
        """End the tasks now, and wait until Spark has heard of it."""
        with trio.CancelScope(shield=True):
            if not self._has_ended.is_set():
                await trio.to_thread.run_sync(self._context.cancelJobsWithTag, self._tag)
                with trio.move_on_after(_CANCEL):
                    await self._has_ended.wait()

    async def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = PipelineError(reason)
            await self.cancel()

    # Tasks

    async def serve(self, stream: trio.SocketStream) -> None:
        """Talk with a task for as long as it is connected."""
        close_in_forks(stream.socket)
        lines = _lines(stream)
        try:
            with trio.fail_after(_LONGEST_HELLO):
                hello = msgspec.json.decode(await anext(lines), type=_Hello)
            if hmac.compare_digest(hello.token.encode(), self._plan.token.encode()):
                await self._look_after(_ConnectedTask(stream, hello), lines)
        except* (StopAsyncIteration, trio.TooSlowError, msgspec.MsgspecError, trio.BrokenResourceError):
            pass  # it was no task of ours, or Spark has ended it
        finally:
            await trio.aclose_forcefully(stream)

    async def _look_after(self, task: _ConnectedTask, lines: AsyncIterator[bytes]) -> None:
        for other in list(self._tasks):
            if (other.number, other.process) == (task.number, task.process):
                other.scope.cancel()  # its network has broken, and we had not noticed that
                self._tasks.discard(other)
        self._tasks.add(task)
        try:
            with task.scope:
                await self._talk(task, lines)
        finally:
            self._tasks.discard(task)
            self._change()

    async def _talk(self, task: _ConnectedTask, lines: AsyncIterator[bytes]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._say, task)
            async for line in lines:
                await self._heard(task, msgspec.json.decode(line, type=_State))
            nursery.cancel_scope.cancel()

    async def _say(self, task: _ConnectedTask) -> None:
        """Say that jobs are to end, when they are; and that we are there, now and then."""
        said = False
        try:
            while True:
                drains = self._is_draining and not said
                said = said or drains
                await task.stream.send_all(b"drain\n" if drains else b"\n")
                with trio.move_on_after(self._plan.heartbeat):
                    while said or not self._is_draining:
                        await self._changed.wait()
        except trio.BrokenResourceError:
            pass  # it will connect again, or has gone

    async def _heard(self, task: _ConnectedTask, said: _State) -> None:
        was_ready, task.is_ready = task.is_ready, said.state == "ready"
        fields = {"task": task.number, "host": task.host, "error": said.text}
        if task.is_ready and not was_ready:
            self._started += 1
        elif said.state == "broken" and not self._started:
            await self._fail(f"the jobs cannot be loaded on {task.host}: {said.text}")
        elif said.state == "ended" and not self._started:
            await self._fail(f"the worker on {task.host} has ended before it had its jobs: {said.text}")
        elif said.state == LACKING and not self._started:
            await self._fail(reason_of(said.text, "the workers cannot be started"))
        elif said.state == LACKING:
            _log.error("an executor lacks what workers need", extra={"fields": fields})
        elif said.state == "broken":
            _log.error("the jobs cannot be loaded on an executor", extra={"fields": fields})
        elif said.state == "ended":
            _log.warning("a worker on an executor has ended, and is started again", extra={"fields": fields})
        self._change()


async def _lines(stream: trio.SocketStream) -> AsyncIterator[bytes]:
    received = b""
    async for data in stream:
        *lines, received = (received + data).split(b"\n")
        for line in lines:
            yield line
        if len(received) > _LONGEST_LINE:
            return


@opening("async with open_spark_workers(spark, 'mail:jobs', broker='emqp://127.0.0.1:47291') as workers:")
async def open_spark_workers(
    spark: SparkSession,
    target: str,
    *,
    broker: str,
    workers: int = 0,
    processes: int | None = None,
    options: Sequence[str] = (),
    tag: str = "",
) -> AsyncIterator[SparkWorkers]:
    """Run jobs on the executors of a Spark until the block is left; then what has begun ends first.

    Executors have triomq and the module of the jobs, and reach the broker and the driver. An error in the block, or
    its cancellation, ends the tasks at once; the broker gives to other workers what they had.

    Args:
        spark: A session; not one of Spark Connect, whose driver is another program.
        target: The registry, ``MODULE:JOBS``.
        broker: The URL of the broker, as executors reach it.
        workers: How many there are, each in a slot of an executor; as many as there are slots now if 0.
        processes: How many processes each has for sync jobs; as many as a task has processors (``spark.task.cpus``)
            if None.
        options: Others of ``triomq worker``.
        tag: By which anybody with the session ends the tasks at once: ``spark.sparkContext.cancelJobsWithTag(tag)``.

    Raises:
        PipelineError: The session is one of Spark Connect.
    """
    if not hasattr(spark, "_jsc"):
        raise PipelineError(
            "workers on executors need a session with a driver of its own, and this one is of Spark Connect; start it "
            "with a master such as spark://host:7077 in place of sc://…, or use run_batch"
        )
    place = await trio.to_thread.run_sync(_ask_driver, spark.sparkContext)
    listeners = await bind_tcp(place.bind, 0)
    plan = WorkerPlan(
        arguments=(
            "worker",
            target,
            "--supervised",
            "--processes",
            str(place.task_cpus if processes is None else processes),
            *options,
        ),
        environment={"TRIOMQ_BROKER": broker},  # not among the arguments, which every user of the machine can list
        folder=str(Path.cwd()),
        host=place.host,
        port=listeners[0].socket.getsockname()[1],
        token=secrets.token_hex(16),
    )
    opened = SparkWorkers(spark, plan, workers or place.slots, tag)
    try:
        async with _running(opened, listeners):
            yield opened
            opened.drain()
            await opened.wait()
    except BaseExceptionGroup as group:
        raise unwrap_group(group) from None


class _Driver(NamedTuple):
    """What the driver has been set."""

    host: str
    bind: str
    task_cpus: int
    slots: int


def _ask_driver(context: SparkContext) -> _Driver:
    conf = context.getConf()
    host = conf.get("spark.driver.host", "127.0.0.1")
    bind = conf.get("spark.driver.bindAddress", host)
    return _Driver(host, bind, int(conf.get("spark.task.cpus", "1")), context.defaultParallelism)


@asynccontextmanager
async def _running(workers: SparkWorkers, listeners: "list[trio.SocketListener]") -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, workers.serve, listeners)
        nursery.start_soon(workers.run_job)
        try:
            yield
        finally:
            await workers.cancel()
            nursery.cancel_scope.cancel()
