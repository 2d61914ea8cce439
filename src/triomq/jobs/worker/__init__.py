"""Workers: they take jobs from a broker, run async ones in a nursery and sync ones in processes that can be killed."""

from triomq.jobs.child.loading import load_jobs
from triomq.jobs.child.tokens import end_with
from triomq.jobs.worker.brokerless import BrokerlessRunner, LocalCall, LocalOutcome
from triomq.jobs.worker.pool import PoolStatistics
from triomq.jobs.worker.slots import SyncPlace
from triomq.jobs.worker.worker import CONCURRENCY, DEFAULT_WEIGHT, Worker, find_target, open_worker

__all__ = [
    "CONCURRENCY",
    "DEFAULT_WEIGHT",
    "BrokerlessRunner",
    "LocalCall",
    "LocalOutcome",
    "PoolStatistics",
    "SyncPlace",
    "Worker",
    "end_with",
    "find_target",
    "load_jobs",
    "open_worker",
]
