"""All tables of a report but ``log``: what makes each."""

from collections.abc import Callable
from functools import partial

from triomq.analytics.job_tables import job_failures, jobs
from triomq.analytics.losses import dead_letters, lost_peers, unsettled, unsettled_by_queue
from triomq.analytics.relations import T
from triomq.analytics.slowest_table import slowest
from triomq.analytics.throughput_table import throughput
from triomq.analytics.wait_tables import waits, waits_by_minute


def make_tables(events: T, stays: T, *, exact: bool) -> dict[str, Callable[[], T]]:
    """Return what makes each table of a report but ``log``, by its name; in the order in which they are made."""
    return {
        "throughput": partial(throughput, events),
        "waits": partial(waits, stays, exact=exact),
        "waits_by_minute": partial(waits_by_minute, stays, exact=exact),
        "jobs": partial(jobs, events, exact=exact),
        "job_failures": partial(job_failures, events),
        "dead_letters": partial(dead_letters, events),
        "lost_peers": partial(lost_peers, events),
        "unsettled_by_queue": partial(unsettled_by_queue, stays),
        "unsettled": partial(unsettled, events, stays),
        "slowest": partial(slowest, events, stays),
    }
