"""Jobs that do nothing, for what is around jobs."""

from triomq import Jobs

jobs = Jobs()


@jobs.job
def noop(number: int) -> None:
    """Do nothing, in a process that can be killed."""


@jobs.job
async def async_noop(number: int) -> None:
    """Do nothing, in a worker's own loop."""


@jobs.job
def double(number: int) -> int:
    """Do next to nothing with a column."""
    return 2 * number
