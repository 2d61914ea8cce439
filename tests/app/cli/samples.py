"""Samples of brokers that there are not."""

import msgspec

from triomq.app.cli.sampling import Sample
from triomq.protocols.control import (
    ActorRecord,
    ConnectionRecord,
    QueueRecord,
    ScheduleRecord,
    ServedQueue,
    Totals,
    WorkerRecord,
)


def make_totals(**counts: int) -> Totals:
    zeroes = dict.fromkeys(
        ("connections", "consumers", "queues", "sinks", "ready", "unsettled", "published", "delivered", "dropped"), 0
    )
    return Totals(version="9.8.7", uptime=3700.0, memory=10 * 1024**2, **{**zeroes, **counts})


def make_queue(name: str, **fields: object) -> QueueRecord:
    zeroes = dict.fromkeys(QueueRecord.__struct_fields__, 0)
    base = {**zeroes, "state": "running", "max_length": None, "max_bytes": None, "overflow": "drop-head"}
    base |= {"kind": "queue", "stream": None}
    return QueueRecord(**{**base, "name": name, **fields})  # type: ignore[arg-type]  # a field as the test gives it


def make_actor(path: str, *, children: int = 0, state: str = "running") -> ActorRecord:
    return ActorRecord(path, "Kind", state, 0, 1, 0, children)


def make_sample(
    moment: float = 0.0,
    totals: Totals | None = None,
    queues: tuple[QueueRecord, ...] = (),
    connections: tuple[ConnectionRecord, ...] = (),
    actors: tuple[ActorRecord, ...] = (),
    workers: tuple[WorkerRecord, ...] = (),
    schedules: tuple[ScheduleRecord, ...] = (),
) -> Sample:
    totals = totals or make_totals()
    return Sample(moment, totals, list(queues), list(connections), list(actors), list(workers), list(schedules))


def make_worker(name: str, **fields: object) -> WorkerRecord:
    base = WorkerRecord("peer", name, "guest", [ServedQueue("mail", 40), ServedQueue("q", 10)], 2, 1, 57, 0.5, 61.0)
    return msgspec.structs.replace(base, **fields)


def make_schedule(call: str, **fields: object) -> ScheduleRecord:
    base = ScheduleRecord("key", call, "q", "guest", 60.0, "", "UTC", 12.5, 3, 0)
    return msgspec.structs.replace(base, **fields)
