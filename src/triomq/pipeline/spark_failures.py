"""What is to be said of an error in a Spark job: its cause, and not the stack of two languages around it."""

import re
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark import SparkContext

SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""What calls of Spark raise, without Connect; the second kind if the JVM has gone, or PySpark knows no name for it."""

_OURS: Final = re.compile(r"^\s*(?:triomq\.errors\.\w+|ModuleNotFoundError|ImportError): (.+)$", re.MULTILINE)
_LACKING: Final = re.compile(r"No module named '(triomq|msgspec|trio|pyarrow|pyspark|py4j)\b")
_JAVA: Final = re.compile(r"\b(?:[a-z]\w*\.)+\w+(?:Exception|Error): (.+)")


def reason_of(error: Exception | str, what: str) -> str:
    """Return one line about an error.

    Args:
        error: As Spark has raised it, with the traceback of an executor in its text; or that text.
        what: What has failed.
    """
    text = str(error)
    ours = _OURS.findall(text)
    if lacking := _LACKING.search(text):
        return (
            f"{what}: an executor has no {lacking[1]}; install it there, in the environment that PYSPARK_PYTHON names"
        )
    if ours:
        return f"{what}: {ours[-1]}"
    if "cancelled" in text or "OPERATION_CANCELED" in text:
        return f"{what}: it was cancelled"
    if "Python worker exited unexpectedly" in text:
        return (
            f"{what}: a Python process of Spark's has died; an async job runs in it and may have crashed it, or the "
            "machine was short of memory"
        )
    if java := _JAVA.search(text):
        return f"{what}: {java[1]}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"{what}: {lines[0] if lines else type(error).__name__}"


def failed_tasks(context: "SparkContext", group: str) -> int:
    """Return how often tasks of a job group have failed, while Spark tries them again; of what, only its log says."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(stage.numFailedTasks for stage in stages if stage is not None)
