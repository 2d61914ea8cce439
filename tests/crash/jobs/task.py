"""What the jobs of these tests are told to do."""

import msgspec

QUEUE = "work"

URL = "emqp://127.0.0.1:{}?heartbeat=0.5&silence=15&timeout=60"


class Task(msgspec.Struct, frozen=True):
    """A job.

    Args:
        number: Which one it is.
        seconds: How long it takes.
        failures: How many attempts fail.
        key: Whose limit it counts for; empty for none.
        unique: Of which there is one at a time; empty for none.
    """

    number: int
    seconds: float
    failures: int = 0
    key: str = ""
    unique: str = ""


def shown(job: bytes) -> str:
    """Return an id as a word."""
    return job.decode("latin-1")


def call_of(task: Task) -> bytes:
    """Return the message of a job."""
    call = {"path": "crash", "callable": "do", "args": [task], "kwargs": {}, "class_args": [], "class_kwargs": {}}
    return msgspec.json.encode(["run", call])


def task_of(message: bytes) -> Task:
    """Return the task of a message."""
    return msgspec.convert(msgspec.json.decode(message)[1]["args"][0], Task)
