"""How long a client may leave deliveries unsettled, as with RabbitMQ: no client may hold messages for ever.

No delivery carries a time. Every few seconds each channel that has something unsettled gets a mark: so much had gone
out by then. What is unsettled and was out before a mark is at least as old as the mark.
"""

from collections import deque
from collections.abc import Callable, Iterable
from math import inf

import msgspec
import trio

from triomq.core import Batch, Directory, QueueState
from triomq.endpoints.amqp.channel import ServerChannel
from triomq.endpoints.amqp.refusals import ReplyCode

_INTERVAL = 60.0  # seconds between two looks, unless a timeout is shorter than that: as often as RabbitMQ looks

_LOOKS = 4  # looks in the shortest timeout


class _Mark(msgspec.Struct, frozen=True, gc=False):
    """What had gone out by a time: all numbers below one."""

    time: float
    below: int


class AckTimeouts:
    """Watches what the channels of one connection have unsettled; made by the connection, ends with it.

    Args:
        seconds: How long a delivery may stay unsettled, unless its queue says otherwise; 0 for ever.
        refuse: Called with a channel and an answer when it has had one for too long.
    """

    __slots__ = ("_marks", "_refuse", "_seconds", "_shortest", "next")

    def __init__(self, seconds: float, refuse: Callable[[ServerChannel, ReplyCode], None]) -> None:
        self._seconds = seconds
        self._refuse = refuse
        self._shortest = inf
        self.next = inf  # when to look again
        self._marks: dict[ServerChannel, deque[_Mark]] = {}

    def watch(self, queue: QueueState) -> bool:
        """Watch deliveries of a queue, which are going out; return whether ``next`` came nearer."""
        limit = self._limit(queue)
        if limit < self._shortest:
            self._shortest = limit
            self.next = min(self.next, trio.current_time() + self._interval)
            return True
        return False

    def _limit(self, queue: QueueState | None) -> float:
        own = None if queue is None else queue.options.consumer_timeout
        return (self._seconds if own is None else own) or inf

    @property
    def _interval(self) -> float:
        return min(_INTERVAL, self._shortest / _LOOKS)

    def look(self, now: float, channels: Iterable[ServerChannel], directory: Directory) -> None:
        """Refuse channels that have left something unsettled for too long."""
        self.next = now + self._interval
        marks, self._marks = self._marks, {}
        for channel in list(channels):
            if channel.unsettled.is_empty:
                continue
            self._marks[channel] = marks.get(channel, deque())
            limit = self._exceeded(channel, now, directory)
            if limit is not None:
                text = (
                    f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: "
                    f"{round(limit * 1000)} ms. This timeout value can be configured, see consumers doc guide to "
                    "learn more"
                )
                self._refuse(channel, ReplyCode(406, text))

    def _exceeded(self, channel: ServerChannel, now: float, directory: Directory) -> float | None:
        """Return the limit that something unsettled has exceeded, in seconds."""
        ledger, marks = channel.unsettled, self._marks[channel]
        if not marks or marks[-1].below < ledger.next_number:
            marks.append(_Mark(now, ledger.next_number))
        while marks[0].below <= ledger.oldest:
            marks.popleft()
        if now - marks[0].time < self._shortest:
            return None
        following = iter(marks)
        mark = next(following)
        for numbered, numbers in ledger.groups():
            while mark.below <= numbers[0]:
                mark = next(following)
            age = now - mark.time
            if age < self._shortest:
                break
            limit = self._limit(_queue_of(numbered.batch, directory))
            if age >= limit:
                return limit
        return None


def _queue_of(batch: Batch, directory: Directory) -> QueueState | None:
    assert batch.queue is not None
    return directory.queues.get(directory.name_of(batch.queue))
