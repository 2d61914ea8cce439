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


def first_failure(context: "SparkContext", tag: str) -> str:
    """Return why a task under a tag has failed, while Spark tries it again and says so only in its log.

    Args:
        context: Of the session.
        tag: Of the job.

    Returns:
        What Spark says of it; empty as long as none has failed but with its executor.
    """
    scala = context._jsc.sc()  # Python has failures counted, and not what they were
    for job in scala.statusTracker().getJobIdsForTag(tag):
        found = context.statusTracker().getJobInfo(job)
        for stage in found.stageIds if found else ():
            info = context.statusTracker().getStageInfo(stage)
            if info is None or not info.numFailedTasks:
                continue
            tasks = scala.statusStore().taskList(stage, info.currentAttemptId, _TASKS)
            errors = [tasks.apply(place).errorMessage() for place in range(tasks.size())]
            texts = [str(error.get()) for error in errors if error.isDefined()]
            if own := [text for text in texts if "ExecutorLostFailure" not in text]:
                return own[0]
    return ""


_TASKS: Final = 100
"""How many tasks are looked at; what is wrong with an executor is wrong with all of its tasks."""
