"""Steps that tests with pika's blocking connection share."""

from typing import Self

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

from peers.conftest import wait_until


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body)


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Get everything that is ready."""
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


def count(channel: BlockingChannel, queue: str) -> int:
    return channel.queue_declare(queue, passive=True).method.message_count


def declare(channel: BlockingChannel, **arguments: object) -> str:
    """Declare an exclusive queue with arguments (``max_length`` is x-max-length); return its generated name."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return channel.queue_declare("", exclusive=True, arguments=named).method.queue


class Consumer:
    """A consumer and its deliveries, in order."""

    def __init__(self, channel: BlockingChannel, queue: str, **options: object) -> None:
        self.channel = channel
        self.bodies: list[bytes] = []
        self.methods: list[Basic.Deliver] = []
        self.properties: list[pika.BasicProperties] = []
        self.tag = channel.basic_consume(queue, self._receive, **options)

    def _receive(
        self, _: BlockingChannel, method: Basic.Deliver, properties: pika.BasicProperties, body: bytes
    ) -> None:
        self.methods.append(method)
        self.properties.append(properties)
        self.bodies.append(body)

    def wait_for(self, number: int) -> Self:
        wait_until(self.channel.connection, lambda: len(self.bodies) >= number, f"{number} deliveries")
        return self

    @property
    def redelivered(self) -> list[bool]:
        return [method.redelivered for method in self.methods]
