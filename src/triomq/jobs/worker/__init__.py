"""Workers: they take jobs from a broker, run async ones in a nursery and sync ones in processes that can be killed."""

from triomq.jobs.child.loading import load_jobs
from triomq.jobs.worker.pool import PoolStatistics
from triomq.jobs.worker.slots import SyncPlace
from triomq.jobs.worker.worker import CONCURRENCY, DEFAULT_WEIGHT, Worker, open_worker

__all__ = ["CONCURRENCY", "DEFAULT_WEIGHT", "PoolStatistics", "SyncPlace", "Worker", "load_jobs", "open_worker"]
