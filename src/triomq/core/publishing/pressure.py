"""Why nothing may be published for a while."""

from collections.abc import Sequence
from enum import Enum

from triomq.actors import Ref


class Pressure(Enum):
    """Why nothing is taken for now; the values are for texts."""

    MEMORY = "low on memory"
    DISK = "the store cannot be written"
    BEHIND = "too much is on its way to the disk, or to queues"


class PublishingPaused(Exception):
    """Nothing of a run was taken; publish the same run again when ``Publisher.when_open`` calls.

    Not a ``Refused``: a client has done nothing wrong.

    Args:
        pressure: Why.
        queues: Where the run would have gone.
    """

    def __init__(self, pressure: Pressure, queues: Sequence[Ref] = ()) -> None:
        self.pressure = pressure
        self.queues = queues
        super().__init__(f"{pressure.value}: nothing was published; publish it again when that is over")
