"""Celery's side: its application, for its workers, and its client. Runs in an environment with Celery."""

import os
import time

from celery import Celery

from jobsides import counting
from jobsides.driving import drive

IS_SURE = bool(os.environ.get("JOBS_GUARANTEE"))

app = Celery("celery_side", broker=os.environ["JOBS_BROKER"], backend="rpc://")
app.conf.update(
    worker_prefetch_multiplier=16,  # of four slots each: 64 jobs, as the others have
    worker_hijack_root_logger=False,
    task_ignore_result=True,
    task_acks_late=IS_SURE,
    broker_transport_options={"confirm_publish": IS_SURE},
    broker_connection_retry_on_startup=True,
)


@app.task
def noop() -> None:
    counting.count()


@app.task
def nap() -> None:
    time.sleep(0.01)
    counting.count()


@app.task
def knock() -> None:
    counting.knock()


@app.task(ignore_result=False)
def answer(number: int) -> int:
    return number


class CeleryClient:
    """Sends by ``delay``, as its documentation has it."""

    def send(self, name: str, count: int) -> None:
        task = {"noop": noop, "nap": nap, "knock": knock}.get(name)
        if task is None:
            raise NotImplementedError
        for _ in range(count):
            task.delay()

    def delay(self, count: int) -> None:
        for _ in range(count):
            noop.apply_async(countdown=3600)

    def call(self) -> None:
        answer.delay(1).get(timeout=20)


if __name__ == "__main__":
    # What workers import, not `__main__`: names of tasks have their module in them.
    from jobsides import celery_side

    drive(celery_side.CeleryClient())
