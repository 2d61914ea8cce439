"""What Spark calls in each task of workers, also on a machine where triomq is not: then it says so to the driver.

A function that stands in a module is sent to executors by its name, and one without the module fails before anything of
ours runs: Spark tries it again, and only its log has the reason. A function inside of another one is sent whole. So the
one below is, with plain data, and imports nothing of triomq before it can tell what is missing.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from triomq.pipeline.worker_task import WorkerPlan

LACKING: Final = "lacking"
"""What a task says that cannot import what it needs."""


def start_of(plan: WorkerPlan) -> Callable[[int, Iterable[object]], Iterator[tuple[int, str, int]]]:
    """Return what each task calls, with its number and no rows."""
    fields, place, token, state = plan._asdict(), (plan.host, plan.port), plan.token, LACKING

    def start(index: int, rows: Iterable[object]) -> Iterator[tuple[int, str, int]]:
        try:
            from triomq.pipeline.worker_task import WorkerPlan
        except ImportError as error:
            import json
            import os
            import socket
            import time
            from contextlib import suppress

            hello = {"token": token, "task": index, "host": socket.gethostname(), "pid": os.getpid()}
            with suppress(OSError), socket.create_connection(place, 5.0) as driver:
                for line in (hello, {"state": state, "text": str(error)}):
                    driver.sendall(json.dumps(line).encode() + b"\n")
            time.sleep(5.0)  # Spark tries it again at once, and there may be workers elsewhere
            raise
        return WorkerPlan(**fields).run(index, rows)

    return start
