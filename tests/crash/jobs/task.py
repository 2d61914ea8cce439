"""What the jobs of these tests are told to do."""

import msgspec

QUEUE = "work"


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
