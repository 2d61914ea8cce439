"""The jobs of the frozen program."""

import os

from triomq import Jobs

jobs = Jobs()


@jobs.job
def process_of(word: str) -> tuple[str, int]:
    """Return what it was given, and where it ran."""
    return word, os.getpid()
