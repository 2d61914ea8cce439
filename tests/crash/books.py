"""What was said and what came out, and what must never be: the rules that a broker has to keep while it is killed.

Nobody can see from outside whether an ack, or the mark that a message was delivered, had come to be on disk. But a
confirm tells: what a channel acked, and what it was given, before it published a message, was said to the store before
that message was. So consumers publish a *fence* to their own queue now and then. When it is confirmed,

- a message that was acked before it must never come again;
- a message that was delivered before it may come again only with the redelivered flag.

What is younger may come again, even without the flag: that is what "at least once" allows. Those are counted.

Whoever is killed: a persistent message that was confirmed must have been acked in the end, in every queue that it was
routed to (or, in a queue that is only read at the very end, must be there exactly once); messages of one publisher and
one level come in order within one life of a consumer. A transient one may be lost with the broker, not with the store.
"""

import time
from collections.abc import Iterable

from .message import Message, read_body
from .wire import Delivery

__all__ = ["Books", "QueueBooks", "Session"]

Order = dict[tuple[int, int], int]


class QueueBooks:
    """What is known of one queue.

    Args:
        name: Its name.
        once: It is read at the very end only: then nothing may be there twice.
        ordered: Whether what is put there comes in the order of its numbers.
    """

    def __init__(self, name: str, *, once: bool = False, ordered: bool = True) -> None:
        self.name = name
        self.once = once
        self.ordered = ordered
        self.kept: set[Message] = set()  # confirmed, to be there whoever is killed
        self.mortal: set[Message] = set()  # confirmed, to be there as long as the broker lives
        self.delivered: set[Message] = set()
        self.acked: set[Message] = set()
        self.settled: set[Message] = set()  # acked before a fence that was confirmed
        self.marked: set[Message] = set()  # delivered before such a fence
        self.again = self.again_unmarked = 0
        self.overflow: QueueBooks | None = None  # what has no room here is there, and not in both

    @property
    def missing(self) -> set[Message]:
        """What was confirmed and is gone."""
        beside = set() if self.overflow is None else self.overflow.acked
        return (self.kept | self.mortal) - self.acked - beside


class Session:
    """One life of a consumer: what it was given on one connection."""

    def __init__(self, books: "Books", queue: QueueBooks) -> None:
        self._books = books
        self._queue = queue
        self._last: Order = {}
        self._delivered: list[Message] = []  # since the last fence
        self._acked: list[Message] = []
        self._returned: set[Message] = set()

    def deliver(self, delivery: Delivery) -> Message | None:
        """Note what came; None if it should not have."""
        queue, complain = self._queue, self._books.complain
        try:
            message, due = read_body(delivery.body)
        except ValueError as error:
            complain(f"{queue.name}: {error}")
            return None
        mark = "marked" if delivery.redelivered else "not marked"
        if message in queue.settled:
            complain(f"{queue.name}: {message} came again, though it was acked and the ack was on disk")
        if message in queue.delivered:
            queue.again += 1
            if queue.once:
                complain(f"{queue.name}: {message} is there twice")
            if not delivery.redelivered:
                queue.again_unmarked += 1
                if message in queue.marked:
                    complain(f"{queue.name}: {message} came again, {mark}, though it was noted on disk")
        if time.time() < due - 0.02:
            complain(f"{queue.name}: {message} came {due - time.time():.3f} s before its time")
        if message not in self._returned:
            self._see_order(message)
        elif not delivery.redelivered:
            complain(f"{queue.name}: {message} came back and was not marked")
        self._returned.discard(message)
        queue.delivered.add(message)
        self._delivered.append(message)
        return message

    def _see_order(self, message: Message) -> None:
        line = (message.publisher, message.level)
        last = self._last.get(line, -1)
        if self._queue.ordered and message.number <= last:
            self._books.complain(f"{self._queue.name}: {message} came behind number {last}")
        self._last[line] = message.number

    def ack(self, messages: Iterable[Message]) -> None:
        """Note what is settled for good; to be called before that is sent."""
        for message in messages:
            self._queue.acked.add(message)
            self._acked.append(message)

    def give_back(self, message: Message) -> None:
        """Note that a message is to go back to its place; to be called before that is sent."""
        self._returned.add(message)

    def fence(self) -> "Fence":
        """Begin a fence; to be called when it is sent."""
        fence = Fence(self._queue, self._delivered, self._acked)
        self._delivered, self._acked = [], []
        return fence


class Fence:
    """What was said before a message that is not confirmed yet."""

    def __init__(self, queue: QueueBooks, delivered: list[Message], acked: list[Message]) -> None:
        self._queue = queue
        self._delivered = delivered
        self._acked = acked

    def confirmed(self) -> None:
        """Note that all of it is on disk."""
        self._queue.marked.update(self._delivered)
        self._queue.settled.update(self._acked)


class Group:
    """What is published in one transaction: message and queue."""

    def __init__(self, pairs: list[tuple[Message, QueueBooks]]) -> None:
        self.pairs = pairs
        self.doubtful: list[tuple[Message, QueueBooks]] = []

    def doubt(self) -> None:
        """Note what had not come out when the broker was gone: of that, all must come now, or nothing."""
        self.doubtful = [(message, queue) for message, queue in self.pairs if message not in queue.delivered]


class Books:
    """All queues of a run."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueBooks] = {}
        self.problems: list[str] = []
        self.problem_count = 0
        self.sent = self.confirmed = self.refused = 0
        self.groups: list[Group] = []
        self.open_groups: list[Group] = []  # whose commit is on its way

    def queue(self, name: str, *, once: bool = False, ordered: bool = True) -> QueueBooks:
        """Open the books of a queue."""
        self.queues[name] = queue = QueueBooks(name, once=once, ordered=ordered)
        return queue

    def complain(self, problem: str) -> None:
        """Note what must not be."""
        self.problem_count += 1
        if len(self.problems) < 20:
            self.problems.append(problem)

    def confirm(self, message: Message, queues: Iterable[str], *, persistent: bool = True) -> None:
        """Note a confirm."""
        self.confirmed += 1
        for name in queues:
            queue = self.queues[name]
            (queue.kept if persistent else queue.mortal).add(message)

    def broker_died(self) -> None:
        """Note that what is transient may be gone; to be called when all that it had sent was read."""
        for queue in self.queues.values():
            queue.mortal.clear()
        for group in self.open_groups:
            group.doubt()
        self.groups += self.open_groups
        self.open_groups = []

    def close(self) -> list[str]:
        """Look for losses, when all queues are empty; give all that must not be."""
        for queue in self.queues.values():
            if missing := queue.missing:
                some = ", ".join(map(str, sorted(missing)[:5]))
                self.complain(f"{queue.name}: {len(missing)} messages were confirmed and are lost: {some} …")
            if queue.overflow is not None and (twice := queue.acked & queue.overflow.acked):
                self.complain(f"{len(twice)} messages are in {queue.name} and in {queue.overflow.name} as well")
        for group in self.groups:
            come = sum(message in queue.delivered for message, queue in group.doubtful)
            if come not in (0, len(group.doubtful)):
                self.complain(f"{come} of {len(group.doubtful)} messages of a transaction are there: {group.pairs}")
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
