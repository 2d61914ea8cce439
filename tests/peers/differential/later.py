"""Questions about what is being built: their differences are known and not final."""

LATER = (
    "right:*",
    "argument: x-queue-type=quorum*",
    "argument: x-queue-type=stream",
    "requeue: a*quorum*",
    "confirm: a quorum*",
)
