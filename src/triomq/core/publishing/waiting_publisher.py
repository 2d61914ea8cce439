"""Publishing for tasks, which can wait: for room, for the end of a pressure, for placement, and for the disk.

Queues with overflow ``wait`` make only such publishers wait. Each of these queues has a line, in which one message at a
time waits for room: were all of them woken when there is some, each would wake the others. A message that goes to
several queues waits in one line after the other and is placed in all of them or in none.
"""

from collections.abc import Collection

import trio

from triomq.actors import Ref, Turn
from triomq.core.publishing.confirms import Receipt, SingleReceipt
from triomq.core.publishing.credit import Pause
from triomq.core.publishing.pressure import Pressure, PublishingPaused
from triomq.core.publishing.publish import Fits, Publish
from triomq.core.publishing.publishing import Publisher, Unrouted
from triomq.core.publishing.routed import RoutedRun
from triomq.core.queue.queue_state import QueueState
from triomq.core.topology.directory import Directory
from triomq.core.topology.options import Overflow
from triomq.errors import ActorError, ActorStopped, LimitExceeded


class WaitingPublisher:
    """Publishes messages of tasks one by one; made beside its ``Publisher``, ends with it.

    While memory is short a message waits if every queue that it goes to makes publishers wait, and is refused
    otherwise. A store that is behind is always waited for, a disk that cannot be written never: that may last for days.

    Args:
        publisher: The way in, with the guards.
        directory: The domain's.
        turn: The one in which it publishes.
    """

    def __init__(self, publisher: Publisher, directory: Directory, turn: Turn) -> None:
        self._publisher = publisher
        self._directory = directory
        self._turn = turn
        self._lines: dict[QueueState, trio.Lock] = {}  # callbacks of publishers that wait for room, by queue

    async def publish(self, run: RoutedRun, delay: float = 0.0, unrouted: Unrouted | None = None) -> Receipt:
        """Publish one message, and wait until every queue has answered and has it safe, if it is persistent.

        Then it waits for consumers as well, at most 20 ms, if it runs ahead of those that are at work (see ``credit``).
        Cancelled while it waits for room or for the end of a pressure, nothing was published.

        Args:
            run: The message.
            delay: Seconds until it becomes ready; limits of queues do not apply to it then.
            unrouted: As for ``Publisher.publish``.

        Returns:
            The receipt, which says whether a queue has refused it.

        Raises:
            LimitExceeded: A queue will never have room for it.
            PublishingPaused: It was not published, and is not to wait.
            Refused: As ``Publisher.publish`` does.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        answered = trio.Event()
        receipt = SingleReceipt(answered.set, self._directory.persistence)
        waited: set[QueueState] = set()  # queues that were waited for already
        pause = Pause()
        while (obstacle := self._turn.run(self._place, run, receipt, delay, unrouted, waited, pause)) is not None:
            if isinstance(obstacle, Pressure):
                await self._publisher.wait_open(obstacle)
            else:
                await self._stand_in_line(obstacle, _publish_of(run, delay))
                waited.add(obstacle)
        if receipt.is_safe:
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            await answered.wait()
        await pause.wait()
        return receipt

    def publish_nowait(self, run: RoutedRun, delay: float = 0.0, unrouted: Unrouted | None = None) -> Receipt:
        """Publish one message without waiting for anything; arguments and errors are those of ``publish``.

        Raises:
            trio.WouldBlock: It would have to wait; nothing was published.
        """
        receipt = SingleReceipt(_nothing, None)
        if self._turn.run(self._place, run, receipt, delay, unrouted, None, None) is not None:
            raise trio.WouldBlock
        return receipt

    def _place(
        self,
        run: RoutedRun,
        receipt: SingleReceipt,
        delay: float,
        unrouted: Unrouted | None,
        waited: Collection[QueueState] | None,
        pause: Pause | None,
    ) -> QueueState | Pressure | None:
        """Publish, or return what has to be waited for first.

        Args:
            run: The message.
            receipt: Its own.
            delay: Seconds until it becomes ready.
            unrouted: As for ``Publisher.publish``.
            waited: Queues that were waited for already; with None, queues that restart are waited for as well.
            pause: How the publisher waits if it runs ahead of consumers; None if it does not.
        """
        directory = self._directory
        self._publisher.source = pause
        try:
            if run.route.version != directory.version:
                (run,) = self._publisher.admit((run,))
            for other in run.route.queues:
                queue = directory.queues[directory.name_of(other)]
                if waited is None and other.state in ("starting", "backing_off"):
                    return queue
                if makes_wait(queue) and not delay and not self._has_room(queue, run, waited or ()):
                    return queue
            self._publisher.publish(*run, receipt, unrouted, delay)
        except PublishingPaused as paused:
            return self._obstacle(paused)
        return None

    def _queue(self, queue: Ref) -> QueueState:
        return self._directory.queues[Directory.name_of(queue)]

    def _obstacle(self, paused: PublishingPaused) -> QueueState | Pressure:
        """Return what to wait for, if a paused message is to wait."""
        if paused.pressure is Pressure.BEHIND:
            return paused.pressure
        if paused.pressure is Pressure.MEMORY:
            queues = [self._queue(queue) for queue in paused.queues]
            if all(map(makes_wait, queues)):
                return queues[0]
        raise paused

    def _has_room(self, queue: QueueState, run: RoutedRun, waited: Collection[QueueState]) -> bool:
        """Return whether it is our turn at a queue, and it has room."""
        if queue in self._lines and queue not in waited:
            return False
        return _fits(queue, _publish_of(run, 0.0))

    async def _stand_in_line(self, queue: QueueState, message: Publish) -> None:
        """Wait in line until the queue has room, or is deleted."""
        line = self._lines.setdefault(queue, trio.Lock())
        try:
            async with line:
                while not _fits(queue, message):
                    await self._wait_change(queue)
        finally:
            if not line.locked():
                self._lines.pop(queue, None)

    async def _wait_change(self, queue: QueueState) -> None:
        """Wait until a queue may have more room, runs again, or is deleted."""
        if queue.ref.state != "running":
            try:
                await queue.ref.wait_running()
            except ActorStopped:
                await trio.lowlevel.checkpoint()
            return
        if queue.directory.memory.on:
            await self._publisher.wait_open(Pressure.MEMORY)
            return
        changed = trio.Event()
        queue.when_room(changed.set)
        try:
            await changed.wait()
        finally:
            queue.forget_room(changed.set)


def makes_wait(queue: QueueState) -> bool:
    """Return whether a queue makes publishers wait for room."""
    return queue.options.overflow is Overflow.WAIT and queue.options.is_bounded


def _publish_of(run: RoutedRun, delay: float) -> Publish:
    return Publish(run.head, run.contents, run.size, delay=delay)


def _fits(queue: QueueState, message: Publish) -> bool:
    """Return whether a queue would take a message now; one that is gone does not matter.

    Raises:
        LimitExceeded: It will never have room.
    """
    options, size = queue.options, message.size - message.head.overhead
    if (options.max_bytes is not None and options.max_bytes < size) or options.max_length == 0:
        raise LimitExceeded(
            f"queue {queue.name!r} never has room for a message of {size} bytes: max_length is {options.max_length}, "
            f"max_bytes is {options.max_bytes}"
        )
    if queue.directory.memory.on:
        return False
    try:
        return queue.ref.ask_nowait(Fits([message]))
    except trio.WouldBlock:
        return False
    except ActorError:
        return True


def _nothing() -> None:
    """Do nothing: no caller waits for this receipt."""
