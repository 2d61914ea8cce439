"""Credit: a client that only publishes pauses while consumers that are at work catch up with it.

What it is for is latency. A publisher that runs ahead fills a queue, and each message then waits as long as all those
before it take; what is drained later is also out of the processor's caches. So each queue has an *allowance*:

    held > allowance, and consumers took some ──▶ the turn's source pauses ──▶ held ≤ half of it: it goes on
                                                       └──▶ after 20 ms: it goes on, and the allowance doubles,
                                                            unless consumers took 2 MiB
    held ≤ a quarter of it, or consumers took 2 MiB in 20 ms ──▶ the allowance halves again, down to 4 MiB

Rules:

- A queue looks once in each of its turns, when it has dispatched: one comparison, nothing for a message or for a run.
  Who pauses is in the turn (``Turn.source``), where ``Publisher`` puts its client with a turn's first publish. So every
  protocol is in it whose clients read from a stream, and no adapter has to ask.
- What was read is placed. Nothing is refused, tried again or reordered for credit: it is no pressure.
- Nobody pauses for a queue without consumers, or whose consumers have taken nothing since the last time: it would be in
  vain. Neither does a client that consumes, or has something unsettled: what makes room comes the same way as what it
  publishes. Nor does one that cannot stop reading, such as a peer of a ROUTER.
- A task that publishes, of this program or for a request, returns from its ``await`` when its own pause is over.
- Every pause ends by time. So no circle of waiting is possible, whatever waits for whom: not with messages that go
  round between brokers, not with a consumer that waits for its own publisher.
- Time that ends a pause in which consumers took less than 2 MiB means that they are slow, and the queue is to grow. Its
  allowance doubles, and covers what it holds. So a queue that grows to some size costs its publishers as many pauses as
  it doubled, and no pool of workers sets the pace of those who give it work: only consumers that take 2 MiB in 20 ms
  do. And a client runs for as long as it has paused in vain before it pauses again. So even a thousand slow queues,
  each with a pause of its own, cost those who publish to them half of their time.
- Where consumers are fast a queue that has grown, before they came or while the machine was busy, gets short again: its
  allowance is halved every 20 ms, whatever it holds, and who has paused may pause again with its next publish. So a
  flood gives way by one chunk in 20 ms, and a client that publishes little beside it waits for no longer than that.
- A queue that crashes or is deleted lets all go on.

The 20 ms are a deadline of the queue in its domain's clock, as those of messages are: no timer for each pause.

Tried and dropped:

- Waiting as long as consumers take *something* within 20 or 50 ms, without doubling: a pool of workers that settles
  more than fifty messages a second, whatever it does with them, would hold its publishers back for ever.
- 1 MiB and 16 MiB in place of 4: 64 KiB bodies had p99 of 16 ms with 1 and 4 MiB, 24 ms with 16, 200 ms without; the
  processor's time did not differ.
- Doubling whenever time ended a pause: half of a large allowance takes long to drain, so it doubled again, and where a
  publisher ran ahead of its consumers for the first moment, every message of the next hours waited 300 ms.
- A look by the publisher at the queues of its last routes: it has to find them by name, and sees some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from triomq.core.queue.limits import bytes_ready

if TYPE_CHECKING:
    from triomq.actors import Source
    from triomq.core.queue.queue_state import QueueState

ALLOWANCE = 4 * 1024 * 1024
"""Bytes of ready messages, with their overhead, that each queue may hold at least: consumers on loopback take them in
some 5 ms, so they have work while a publisher is woken."""

LONGEST_PAUSE = 0.02
"""Seconds that a publisher may pause: four times what consumers at full speed take for half of the allowance."""

LITTLE = 64 * 1024
"""Bytes of bodies up to which a queue does not even add up what it holds, and so is done with one comparison."""


def look_at_credit(queue: QueueState) -> None:
    """Look whether a queue has more than its allowance; called by the queue at the end of a turn in which it may."""
    if queue.allowance is not None:
        queue.allowance.look()
    elif bytes_ready(queue) > ALLOWANCE:
        queue.allowance = Allowance(queue)


class Allowance:
    """What one queue may hold before its publishers pause; made when it first exceeds that, dropped when it is low.

    Args:
        queue: The queue.
    """

    __slots__ = ("_delivered", "_paused", "_queue", "_seen", "_seen_at", "_until", "bytes")

    def __init__(self, queue: QueueState) -> None:
        self.bytes = ALLOWANCE
        self._queue = queue
        self._delivered = queue.delivered  # when a publisher exceeded it last
        self._seen = queue.delivered  # when it was last looked how fast consumers are
        self._seen_at = queue.directory.clock.now()
        self._paused: dict[Source, None] = {}
        self._until = 0.0  # when they go on at the latest

    def look(self) -> None:
        """Pause this turn's publisher, or let those go on that have paused."""
        held = bytes_ready(self._queue)
        if self.bytes > ALLOWANCE and not self._paused:
            now = self._queue.directory.clock.now()
            if now >= self._seen_at + LONGEST_PAUSE and self._are_fast(now, held):
                self.bytes //= 2
        if held > self.bytes:
            self._exceeded()
        elif held <= self.bytes // 2:
            self._let_go_on()
            if held <= self.bytes // 4:
                self._shrink()

    def _exceeded(self) -> None:
        """Have this turn's publisher pause, if the queue's consumers are at work."""
        queue = self._queue
        source = queue.ref.turn.source
        if source is None or source in self._paused:
            return
        at_work = queue.delivered != self._delivered or self._paused
        self._delivered = queue.delivered
        if not at_work or not queue.feeds or not source.hold_back():
            return
        if not self._paused:
            clock = queue.directory.clock
            self._seen, self._seen_at = queue.delivered, clock.now()
            self._until = self._seen_at + LONGEST_PAUSE
            clock.set(queue, self._until)
        self._paused[source] = None

    def _are_fast(self, now: float, held: int) -> bool:
        """Return whether consumers have taken messages as fast as 2 MiB in 20 ms since this was asked last."""
        queue = self._queue
        taken, elapsed = queue.delivered - self._seen, now - self._seen_at
        self._seen, self._seen_at = queue.delivered, now
        return taken * held * LONGEST_PAUSE >= queue.ready_count() * elapsed * (ALLOWANCE // 2) > 0

    def _shrink(self) -> None:
        if self.bytes > ALLOWANCE:
            self.bytes //= 2
        else:
            self._queue.allowance = None

    def due(self) -> None:
        """Let publishers go on that have paused for long enough; called whenever a deadline of the queue has come."""
        if not self._paused:
            return
        clock = self._queue.directory.clock
        now = clock.now()
        if now < self._until:
            clock.set(self._queue, self._until)  # it was another deadline, and has replaced this one
            return
        held = bytes_ready(self._queue)
        if self._are_fast(now, held):
            self._let_go_on()
            return
        self.bytes *= 2
        while self.bytes < held:
            self.bytes *= 2
        self._let_go_on(in_vain=True)

    def _let_go_on(self, *, in_vain: bool = False) -> None:
        paused, self._paused = self._paused, {}
        for source in paused:
            source.go_ahead(in_vain=in_vain)

    def end(self) -> None:
        """Let all go on: the queue has crashed, or is deleted."""
        self._let_go_on()
        self._queue.allowance = None


class Pause:
    """The source of a turn in which a task publishes: what it has published has its place, and then the task waits.

    Made for each publish; whatever else the program does goes on.
    """

    __slots__ = ("_over", "_queues")

    def __init__(self) -> None:
        self._queues = 0  # those that it is to wait for
        self._over: trio.Event | None = None

    def hold_back(self) -> bool:
        """Wait for one more queue."""
        self._queues += 1
        return True

    def go_ahead(self, *, in_vain: bool) -> None:
        """Wait for one queue less."""
        self._queues -= 1
        if not self._queues and self._over is not None:
            self._over.set()

    async def wait(self) -> None:
        """Wait until consumers have caught up, or time is over; return at once if there is nothing to wait for."""
        if self._queues:
            self._over = trio.Event()
            await self._over.wait()
