"""Processor time of all that takes part: driver, JVM, Python workers and broker."""

import os
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from loadgen import processes
from loadgen.brokers import Broker


class Seconds(msgspec.Struct, frozen=True):
    """Processor time so far, by who had it; those that have ended are counted with who started them."""

    driver: float = 0.0
    jvm: float = 0.0
    workers: float = 0.0
    broker: float = 0.0

    @property
    def whole(self) -> float:
        """The sum."""
        return self.driver + self.jvm + self.workers + self.broker

    def since(self, before: "Seconds") -> "Seconds":
        """Return what was used between."""
        return Seconds(
            self.driver - before.driver,
            self.jvm - before.jvm,
            self.workers - before.workers,
            self.broker - before.broker,
        )

    def times(self, factor: float) -> "Seconds":
        """Return so many times as much."""
        return Seconds(self.driver * factor, self.jvm * factor, self.workers * factor, self.broker * factor)


class Meter:
    """Reads processor time; made for a session and a broker that run.

    Spark ends Python workers that have had nothing to do for a while, together with the daemon that has forked them;
    then nobody is left who has waited for them, and their time would be gone. So what they had is remembered.
    """

    def __init__(self, spark: SparkSession, broker: Broker) -> None:
        jvm: Any = spark._jvm
        self._jvm = int(jvm.java.lang.ProcessHandle.current().pid())
        self._broker = broker
        self._seen: dict[int, tuple[int | None, float]] = {}  # workers: who has started each, what it had used
        self._lost = 0.0

    def read(self) -> Seconds:
        """Return what was used so far."""
        return Seconds(
            driver=processes.processor_seconds([os.getpid()]),
            jvm=processes.processor_seconds([self._jvm]),
            workers=self._workers(),
            broker=processes.processor_seconds(self._broker.processes()),
        )

    def _workers(self) -> float:
        jvm, *workers = processes.tree_of(self._jvm)
        for pid, (parent, seconds) in self._seen.items():
            if pid not in workers and parent != jvm and parent not in workers:
                self._lost += seconds
        self._seen = {pid: (processes.parent_of(pid), _used(pid)) for pid in workers}
        return self._lost + sum(used for _, used in self._seen.values()) + processes.reaped_seconds([jvm])


def _used(pid: int) -> float:
    """What a process has used, and those of its children that it has waited for."""
    return processes.processor_seconds([pid]) + processes.reaped_seconds([pid])
