"""The oracle of the crash tests: what was published and delivered, and the rules that hold however a broker is killed.

From outside it cannot be seen whether an ack, or the mark that a message was delivered, was on disk. A confirm tells,
if no consumer can have had the message: what a channel acked, and what it was given, before it published a message,
went to the store before that message did. So consumers publish a *fence* now and then, to a queue that is read at the
very end. When it is confirmed,

- a message that was acked before it must never come again;
- a message that was delivered before it may come again only with the redelivered flag.

What is younger may come again, even without the flag: that is what "at least once" allows. Those are counted.

Whichever process is killed: a persistent message that was confirmed must have been acked in the end, in every queue
that it was routed to (or, in a queue that is only read at the very end, must be there exactly once); messages of one
publisher and one level come in order within one life of a consumer. A transient one may be lost with the broker, not
with the store.
"""

import time
from collections.abc import Iterable

from .message import Message, read_body
from .wire import Delivery

__all__ = ["Oracle", "QueueOracle", "Session"]

Order = dict[tuple[int, int], int]


class QueueOracle:
    """The oracle of one queue.

    Args:
        name: Its name.
        once: It is read at the very end only: then nothing may be there twice.
        ordered: Whether what is put there comes in the order of its numbers.
    """

    def __init__(self, name: str, *, once: bool = False, ordered: bool = True) -> None:
        self.name = name
        self.once = once
        self.ordered = ordered
        self.durable: set[Message] = set()  # confirmed, to be there whatever is killed
        self.transient: set[Message] = set()  # confirmed, to be there as long as the broker lives
        self.delivered: set[Message] = set()
        self.acked: set[Message] = set()
        self.settled: set[Message] = set()  # acked before a fence that was confirmed
        self.marked: set[Message] = set()  # delivered before such a fence
        self.again = self.again_unmarked = 0
        self.overflow: QueueOracle | None = None  # what has no room here is there, and not in both

    @property
    def missing(self) -> set[Message]:
        """Messages that were confirmed and are gone."""
        beside = set() if self.overflow is None else self.overflow.acked
        return (self.durable | self.transient) - self.acked - beside


class Session:
    """One life of a consumer: its deliveries on one connection."""

    def __init__(self, oracle: "Oracle", queue: QueueOracle) -> None:
        self._oracle = oracle
        self._queue = queue
        self._last: Order = {}
        self._delivered: list[Message] = []  # since the last fence
        self._acked: list[Message] = []
        self._returned: set[Message] = set()

    def deliver(self, delivery: Delivery) -> Message | None:
        """Check a delivery; return its message, None if there is no such message."""
        queue, report = self._queue, self._oracle.report
        try:
            message, due = read_body(delivery.body)
        except ValueError as error:
            report(f"{queue.name}: {error}")
            return None
        mark = "marked" if delivery.redelivered else "not marked"
        if message in queue.settled:
            report(f"{queue.name}: {message} came again, though it was acked and the ack was on disk")
        if message in queue.delivered:
            queue.again += 1
            if queue.once:
                report(f"{queue.name}: {message} is there twice")
            if not delivery.redelivered:
                queue.again_unmarked += 1
                if message in queue.marked:
                    report(f"{queue.name}: {message} came again, {mark}, though its delivery was on disk")
        if time.time() < due - 0.02:
            report(f"{queue.name}: {message} came {due - time.time():.3f} s before its time")
        if message not in self._returned:
            self._see_order(message)
        elif not delivery.redelivered:
            report(f"{queue.name}: {message} came back and was not marked")
        self._returned.discard(message)
        queue.delivered.add(message)
        self._delivered.append(message)
        return message

    def _see_order(self, message: Message) -> None:
        line = (message.publisher, message.level)
        last = self._last.get(line, -1)
        if self._queue.ordered and message.number <= last:
            self._oracle.report(f"{self._queue.name}: {message} came behind number {last}")
        self._last[line] = message.number

    def ack(self, messages: Iterable[Message]) -> None:
        """Record acks; to be called before they are sent."""
        for message in messages:
            self._queue.acked.add(message)
            self._acked.append(message)

    def give_back(self, message: Message) -> None:
        """Record a requeue; to be called before it is sent."""
        self._returned.add(message)

    def fence(self) -> "Fence":
        """Begin a fence; to be called when it is sent."""
        fence = Fence(self._queue, self._delivered, self._acked)
        self._delivered, self._acked = [], []
        return fence


class Fence:
    """Deliveries and acks before a message that is not confirmed yet."""

    def __init__(self, queue: QueueOracle, delivered: list[Message], acked: list[Message]) -> None:
        self._queue = queue
        self._delivered = delivered
        self._acked = acked

    def confirmed(self) -> None:
        """Record that all of them are on disk."""
        self._queue.marked.update(self._delivered)
        self._queue.settled.update(self._acked)


class Group:
    """The messages of one transaction, each with its queue."""

    def __init__(self, pairs: list[tuple[Message, QueueOracle]]) -> None:
        self.pairs = pairs
        self.doubtful: list[tuple[Message, QueueOracle]] = []

    def doubt(self) -> None:
        """Record the messages that had not come out when the broker was gone: all of them must come now, or none."""
        self.doubtful = [(message, queue) for message, queue in self.pairs if message not in queue.delivered]


class Oracle:
    """The oracle of a run: all its queues, transactions and problems."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueOracle] = {}
        self.problems: list[str] = []
        self.problem_count = 0
        self.sent = self.confirmed = self.refused = 0
        self.groups: list[Group] = []
        self.open_groups: list[Group] = []  # whose commit is on its way

    def queue(self, name: str, *, once: bool = False, ordered: bool = True) -> QueueOracle:
        """Add a queue."""
        self.queues[name] = queue = QueueOracle(name, once=once, ordered=ordered)
        return queue

    def report(self, problem: str) -> None:
        """Record a problem."""
        self.problem_count += 1
        if len(self.problems) < 20:
            self.problems.append(problem)

    def confirm(self, message: Message, queues: Iterable[str], *, persistent: bool = True) -> None:
        """Record a confirm."""
        self.confirmed += 1
        for name in queues:
            queue = self.queues[name]
            (queue.durable if persistent else queue.transient).add(message)

    def broker_died(self) -> None:
        """Record that transient messages may be gone; to be called when all that the broker had sent was read."""
        for queue in self.queues.values():
            queue.transient.clear()
        for group in self.open_groups:
            group.doubt()
        self.groups += self.open_groups
        self.open_groups = []

    def close(self) -> list[str]:
        """Look for losses, when all queues are empty; return all problems."""
        for queue in self.queues.values():
            if missing := queue.missing:
                some = ", ".join(map(str, sorted(missing)[:5]))
                self.report(f"{queue.name}: {len(missing)} messages were confirmed and are lost: {some} …")
            if queue.overflow is not None and (twice := queue.acked & queue.overflow.acked):
                self.report(f"{len(twice)} messages are in {queue.name} and in {queue.overflow.name} as well")
        for group in self.groups:
            come = sum(message in queue.delivered for message, queue in group.doubtful)
            if come not in (0, len(group.doubtful)):
                self.report(f"{come} of {len(group.doubtful)} messages of a transaction are there: {group.pairs}")
        return self.problems

    def __str__(self) -> str:
        again = sum(queue.again for queue in self.queues.values())
        unmarked = sum(queue.again_unmarked for queue in self.queues.values())
        delivered = sum(len(queue.delivered) for queue in self.queues.values())
        return (
            f"{self.sent} sent, {self.confirmed} confirmed, {self.refused} refused, {delivered} copies delivered, "
            f"{again} again ({unmarked} of them not marked, all younger than the last fence), "
            f"{self.problem_count} problems"
        )
