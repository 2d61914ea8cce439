"""A transaction: publishes and settlements over any number of queues, done in one turn, all of them or none.

Until ``commit`` nothing has happened. ``commit`` asks every queue whether it would refuse anything; if one would, that
refusal is raised and still nothing has happened. Then all queues are told, in the same turn, so that no consumer sees a
part; with a store all of it is one batch on disk.
"""

from collections.abc import Mapping, Sequence

import trio

from triomq.actors import Ref
from triomq.core.batch import Batch
from triomq.core.delivery import Outcome, Settle
from triomq.core.message import Stretch
from triomq.core.publishing.publish import Fits, Publish, PublishChunk
from triomq.core.refusals import Restarting
from triomq.core.topology.directory import Directory
from triomq.core.topology.observer import MessageObservers
from triomq.errors import ActorError, QueueFull, QueueStopped


class Transaction:
    """Gathers what is to happen together; created by the side that has a transaction open, used again after each commit
    or rollback.

    Args:
        directory: The domain's: a queue that was deleted meanwhile is left out, as routing would have.
    """

    __slots__ = ("_directory", "_publishes", "_settlements")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._publishes: dict[Ref, list[Publish | PublishChunk]] = {}
        self._settlements: list[tuple[Batch, Outcome, Sequence[int] | None]] = []

    @property
    def is_empty(self) -> bool:
        """Whether a commit would do nothing."""
        return not self._publishes and not self._settlements

    @property
    def total_size(self) -> int:
        """Total of the bytes of what is to be published."""
        return sum(run.size for runs in self._publishes.values() for run in runs)

    def publish(self, queues: Sequence[Ref], message: Publish | PublishChunk) -> None:
        """Gather a run for some queues, or a chunk for some streams."""
        for queue in queues:
            self._publishes.setdefault(queue, []).append(message)

    def settle(self, batch: Batch, outcome: Outcome, positions: Sequence[int] | None = None) -> None:
        """Gather settlements; until the commit they hold their room in the windows."""
        self._settlements.append((batch, outcome, positions))

    def commit(self) -> int:
        """Do everything, in the present turn.

        Returns:
            How many copies of messages went to queues.

        Raises:
            QueueFull: A queue has no room; nothing was done.
            QueueStopped: A queue crashed so often that it was stopped; nothing was done.
            Restarting: A queue is being restarted; nothing was done, commit again when it runs.
        """
        present = {queue: runs for queue, runs in self._publishes.items() if self._directory.has(queue)}
        for queue in present:  # what has expired by now goes first: it may become a dead letter in another queue
            self._check(queue, ())
        for queue, runs in present.items():
            self._check(queue, runs)
        settlements = self._settlements
        self.rollback()
        if self._directory.run_observers is not None:
            self._notify_observers(self._directory.run_observers, present)
        for queue, runs in present.items():
            for run in runs:
                queue.tell_nowait(run)
        for batch, outcome, positions in settlements:
            assert batch.queue is not None
            batch.queue.tell_nowait(Settle(batch, outcome, positions, in_transaction=True))
        persistence = self._directory.persistence
        if persistence is not None:
            persistence.mark_sync_point()
        return sum(run.count for runs in present.values() for run in runs)

    @staticmethod
    def _notify_observers(
        observers: MessageObservers, publishes: Mapping[Ref, Sequence[Publish | PublishChunk]]
    ) -> None:
        """Tell observers of each run once, with all of its queues."""
        found: dict[int, tuple[Publish, list[Ref]]] = {}
        for queue, runs in publishes.items():
            for run in runs:
                assert isinstance(run, Publish)  # chunks are published where there are no observers
                found.setdefault(id(run), (run, []))[1].append(queue)
        for run, queues in found.values():
            observers.published(Stretch(run.head, run.contents, run.heads), queues)

    def _check(self, queue: Ref, runs: Sequence[Publish | PublishChunk]) -> None:
        """Refuse what a queue would refuse."""
        try:
            fits = queue.ask_nowait(Fits([run for run in runs if isinstance(run, Publish)]))
        except trio.WouldBlock:
            raise Restarting(queue) from None
        except ActorError as error:
            raise QueueStopped(self._directory.name_of(queue)) from error
        if not fits:
            raise QueueFull(self._directory.name_of(queue))

    def rollback(self) -> None:
        """Drop everything that was gathered."""
        self._publishes = {}
        self._settlements = []
