"""The connection of a task that has a worker with its driver, where the network between them breaks."""

import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from network import LOCAL, Network, open_network
from triomq.pipeline.spark_workers import SparkWorkers
from triomq.pipeline.worker_task import DriverLink, WorkerPlan

HOST = "127.0.0.3"


def plan_for(port: int) -> WorkerPlan:
    return WorkerPlan((), {}, "", HOST, port, "token", heartbeat=0.1)


class Task(threading.Thread):
    """A task that has nothing to do but to wait until it is to end."""

    def __init__(self, plan: WorkerPlan) -> None:
        super().__init__(daemon=True)
        self._plan = plan

    def run(self) -> None:
        with DriverLink(self._plan, 0) as driver:
            driver.tell({"state": "ready"})
            while not driver.is_draining:
                driver.wait(1.0)


@pytest.mark.parametrize(
    "breaks", [Network.reset, Network.fall_silent, Network.break_for_clients], ids=["reset", "black hole", "half-open"]
)
async def test_task_hears_that_it_is_to_end_though_its_network_has_broken(breaks: Callable[[Network], None]) -> None:
    spark: Any = SimpleNamespace(sparkContext=None)  # which only runs the tasks
    (listener,) = await trio.open_tcp_listeners(0, host=LOCAL)
    port = listener.socket.getsockname()[1]
    with trio.fail_after(60), open_network(port, host=HOST) as network:
        workers = SparkWorkers(spark, plan_for(port), 1, "")
        task = Task(plan_for(port))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, workers.serve, [listener])
            task.start()
            await workers.wait_ready()
            breaks(network)
            await trio.to_thread.run_sync(network.wait_for, 2)
            while workers.statistics().ready != 1:  # noqa: ASYNC110  # the old connection may be there still
                await trio.sleep(0.01)
            assert workers.statistics().connected == 1
            workers.drain()
            await trio.to_thread.run_sync(partial(task.join, 60))
            assert not task.is_alive()
            nursery.cancel_scope.cancel()
