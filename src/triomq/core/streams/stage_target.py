"""Where records go that are staged."""

from typing import TYPE_CHECKING, NamedTuple

from triomq.core.streams.partitions import partitions_of
from triomq.errors import NoSuchQueue

if TYPE_CHECKING:
    from triomq.core.topology.directory import Directory


class StageTarget(NamedTuple):
    """Where records go: into a queue or a stream of that name, or, if it ``is_sink``, where their keys lead from it."""

    name: str
    is_sink: bool = False

    def require(self, directory: "Directory") -> None:
        """Require that it is there; raises ``NoSuchQueue`` or ``NoSuchSink``."""
        if not self.is_sink:
            if not partitions_of(directory, self.name) and self.name not in directory.queues:
                raise NoSuchQueue(self.name)
        elif self.name:
            directory.sink(self.name)

    def is_queue(self, directory: "Directory") -> bool:
        """Whether it is one queue, or a stream without partitions, which takes all records whatever their keys are."""
        return not self.is_sink and self.name in directory.queues

    def record_names(self, writer: str) -> tuple[str, ...]:
        """Return what the record of a writer is called: a queue and a sink may have one name.

        A sink's are as they were before there were other targets, so that stores from then go on.
        """
        return (self.name, writer) if self.is_sink else (self.name, writer, "queue")
