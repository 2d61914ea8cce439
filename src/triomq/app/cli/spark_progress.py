"""A progress bar for commands that have Spark work, and Ctrl-C while it works.

    ⠋ waits_by_minute   ━━━━━━━━━━━━━╸          24/40 tasks  0:00:12

Spark is asked how many tasks of its running stages have ended, five times a second, by a thread: the main one waits for
an answer of the JVM. It costs a few milliseconds each time. A listener in Java would tell of each task, but calls
back into Python need a server for callbacks, with a port of its own. Sessions of Spark Connect are left alone: what has
a bar needs one with a driver of its own, and Connect's clients break off at Ctrl-C without harm.

Ctrl-C must not break into a call to the JVM: what is read next from that connection would be the answer to another
question, and cleaning up, which asks more, would fail in strange ways. So the first one only has the thread cancel
Spark's jobs, until no more come; the call that waits for them ends with an error, as calls do, all ``finally`` on the
way are in order, and leaving the block raises ``KeyboardInterrupt``. The second one raises it at once. PySpark's own
handler cancels from within the call that it interrupts. While Spark starts there is no job yet: the first one waits
until it has, since a Java that is left half started does not notice that nobody wants it, and stays for ever.
"""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INTERVAL: Final = 0.2
"""Seconds between two questions to Spark; who looks at a bar sees no difference below that."""


@contextmanager
def spark_progress(*, is_shown: bool = True) -> Iterator["SparkProgress"]:
    """Show on standard error how far Spark is, if that is a terminal; to be opened in the main thread.

    Args:
        is_shown: No bar if False, and Ctrl-C is the same.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; instead of what came of that.
    """
    before = signal.getsignal(signal.SIGINT)
    progress = SparkProgress(Console(stderr=True), is_shown=is_shown)
    progress.hear()
    try:
        with progress.bar:
            yield progress
    except Exception:  # whatever a call makes of the end of its job
        if not progress.is_interrupted:
            raise
    finally:
        progress.end()
        signal.signal(signal.SIGINT, before)
    if progress.is_interrupted:
        raise KeyboardInterrupt


class SparkProgress:
    """How far Spark is; made and ended by ``spark_progress``.

    Args:
        console: Where it is shown.
        is_shown: Whether it is shown, if that is a terminal.
    """

    def __init__(self, console: Console, *, is_shown: bool = True) -> None:
        self.bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[tasks]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            disable=not (is_shown and console.is_terminal),
        )
        self.is_interrupted = False
        self._task = self.bar.add_task("", total=None, tasks="")
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self, name: str) -> None:
        """Show what comes next.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed before.
        """
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.bar.update(self._task, description=name, total=None, completed=0, tasks="")

    def follow(self, spark: "SparkSession") -> None:
        """Show the tasks of a session from now on, and cancel its jobs at Ctrl-C."""
        if "connect" in type(spark).__module__:
            return
        self.hear()
        self._thread = threading.Thread(target=self._ask, args=[spark], name="progress of Spark", daemon=True)
        self._thread.start()

    def hear(self) -> None:
        """Hear Ctrl-C from now on: PySpark has set its own handler if it was started."""
        signal.signal(signal.SIGINT, self.interrupt)

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Have Spark's jobs cancelled by who follows it; the second time raise KeyboardInterrupt."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.is_interrupted = True

    def _ask(self, spark: "SparkSession") -> None:
        try:
            while not self._ended.wait(_INTERVAL):
                if self.is_interrupted:
                    self.bar.update(self._task, description="ending Spark's jobs", total=None, tasks="")
                    spark.sparkContext.cancelAllJobs()
                elif not self.bar.disable:
                    self._show(_tasks_of(spark))
        except Exception:  # a session that is stopped meanwhile answers with anything: there is nothing more to show
            pass

    def _show(self, stages: Sequence[tuple[int, int]]) -> None:
        completed, total = sum(completed for completed, _ in stages), sum(total for _, total in stages)
        if total:
            text = f"{completed:,}/{total:,} tasks"
            self.bar.update(self._task, completed=completed, total=total, tasks=text)
        else:
            self.bar.update(self._task, total=None, tasks="")


def _tasks_of(spark: "SparkSession") -> list[tuple[int, int]]:
    """Return how many tasks of each running stage have ended, and how many it has."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
