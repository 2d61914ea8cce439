"""Dramatiq's side: its actors, for its workers, and its client. Runs in an environment with Dramatiq.

It has no results over RabbitMQ. Its other middleware is left as it comes.
"""

import asyncio
import os
import time

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.middleware import AsyncIO

from jobsides import counting
from jobsides.driving import drive

IS_SURE = bool(os.environ.get("JOBS_GUARANTEE"))

broker = RabbitmqBroker(url=os.environ["JOBS_BROKER"], confirm_delivery=IS_SURE)
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor
def noop() -> None:
    counting.count()


@dramatiq.actor
def nap() -> None:
    time.sleep(0.01)
    counting.count()


@dramatiq.actor
async def async_noop() -> None:
    counting.count()


@dramatiq.actor
async def async_nap() -> None:
    await asyncio.sleep(0.01)
    counting.count()


@dramatiq.actor
def knock() -> None:
    counting.knock()


class DramatiqClient:
    """Sends by ``send``, as its documentation has it."""

    def send(self, name: str, count: int) -> None:
        actor = {a.actor_name: a for a in (noop, nap, async_noop, async_nap, knock)}[name]
        for _ in range(count):
            actor.send()

    def delay(self, count: int) -> None:
        for _ in range(count):
            noop.send_with_options(delay=3_600_000)

    def call(self) -> None:
        raise NotImplementedError


if __name__ == "__main__":
    drive(DramatiqClient())
