"""A book, real queues of a domain, and workers that ask the book as endpoints do; no wire and no socket.

The body of a message is the id of its job, the attempts that earlier messages of it had, and a number that no other
message has.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from core.harness import Harness
from core.machine.stepped_harness import SteppedHarness
from triomq.actors import InPlaceActor
from triomq.core import (
    Batch,
    CloseFeed,
    Deliver,
    Feed,
    FeedClosed,
    Get,
    Head,
    OpenFeed,
    Outcome,
    Publish,
    QueueState,
    Reason,
    Slots,
    Stretch,
    settle,
)
from triomq.endpoints.jobs import PLAIN, BookedJob, End, Fate, JobBook, JobSender, Records, Standing, Terms
from triomq.endpoints.jobs.records import Names

EPOCH = 1_000_000_000.0

SENDER = JobSender("user", b"requester")


class KeptRecords:
    """Records that outlive a book."""

    def __init__(self) -> None:
        self.values: dict[Names, bytes] = {}

    def put(self, names: Names, value: bytes, *, is_new: bool = False) -> int:
        assert not is_new or names not in self.values
        self.values[names] = value
        return 0

    def remove(self, names: Names) -> None:
        self.values.pop(names, None)

    def recovered(self) -> Iterator[tuple[Names, bytes]]:
        return iter(list(self.values.items()))


class Workshop:
    """One domain, its book, and who works for it."""

    def __init__(self, *queues: str) -> None:
        self.stepped = SteppedHarness()
        self.records = KeptRecords()
        self.chance = 1.0
        self.queues: dict[str, QueueState] = {name: self.harness.queue(name) for name in queues or ("q",)}
        self.terms: dict[bytes, Terms] = {}
        self.answers: list[tuple[bytes, str]] = []
        self.dead: list[bytes] = []
        self.workers: list[Worker] = []
        self._numbers = count()
        self.open_book()

    def open_book(self) -> None:
        """Open the book, as after a restart."""
        self.book = JobBook(self.now, records=self._records(), chance=lambda: self.chance, is_empty=self.is_empty)
        self.harness.directory.on_removed = self.removed
        self.book.register.on_end = lambda job, end: self.answers.append((job.id, end))

    def _records(self) -> Records:
        return self.records

    @property
    def harness(self) -> Harness:
        return self.stepped.harness

    def now(self) -> float:
        return EPOCH + self.stepped.now

    def is_empty(self, name: str) -> bool:
        state = self.queues.get(name)
        if state is None:
            return True
        found = state.statistics()
        return not (found.ready or found.unsettled or found.delayed)

    def removed(self, queue: QueueState, messages: Stretch | None, reason: Reason | None, ids: Sequence[int]) -> None:
        """Have the book end jobs whose messages a queue has let go of."""
        if messages is None:
            self.book.endings.emptied(queue.name)
            return
        goes_on = queue.options.dead_letter_sink is not None
        names = [message.body.split()[0] for message in messages.messages()]
        self.book.endings.removed(names, "expired" if reason is Reason.EXPIRED else "cancelled", goes_on=goes_on)

    def send(
        self, job: bytes, terms: Terms = PLAIN, *, queue: str = "q", durable: bool = False, delay: float = 0.0
    ) -> Standing | None:
        """Have a job accepted, and published if it is."""
        due = self.now() + delay if delay else 0.0
        made = BookedJob(job, queue, SENDER, terms, durable=durable, due=due, since=self.now())

        def accept() -> Standing | None:
            standing = self.book.accept(made)
            if standing is None:
                self.terms[job] = made.terms
                self.publish(job, queue, 0, delay)
            return standing

        return self.stepped.turn(accept)

    def publish(self, job: bytes, queue: str, begun: int, delay: float) -> None:
        content = b"%s %d %d" % (job, begun, next(self._numbers))
        message = Publish(Head(routing_key=queue), [content], len(content), None, None, delay)
        self.queues[queue].ref.tell_nowait(message)

    def worker(self, credit: int = 1, *queues: str, obeys: bool = True) -> "Worker":
        made = Worker(self, obeys=obeys)
        self.harness.start(made)
        self.workers.append(made)
        for name in queues or tuple(self.queues):
            made.subscribe(self.queues[name])
        self.stepped.turn(lambda: made.slots.offer(credit))
        return made

    def take_elsewhere(self, queue: str = "q") -> None:
        """Take a message as a consumer of another wire does, of which the book hears nothing."""
        batch = self.queues[queue].ref.ask_nowait(Get())
        assert batch is not None
        settle(batch, Outcome.ACCEPT, (0,))

    def cancel(self, job: bytes, *, tree: bool = False) -> bool:
        return self.stepped.turn(lambda: self.book.endings.cancel(self.book.jobs[job], tree=tree))

    def crash(self, queue: str) -> None:
        """Crash a queue; what was out comes back, and its consumers are not its own any more."""
        self.harness.crash_nowait(self.queues[queue])
        self.stepped.rest()

    def look(self) -> None:
        """Do what is due, as the endpoint's actor does."""
        self.stepped.turn(self.book.parking.look)
        self.stepped.turn(self.book.endings.expire)

    def pass_time(self, seconds: float) -> None:
        self.stepped.pass_time(seconds)
        self.look()

    def state(self, job: bytes) -> str:
        found = self.book.register.state_of(job)
        return "unknown" if found is None else found.state

    def close(self) -> None:
        self.stepped.close()


class Out:
    """An attempt that a worker has."""

    def __init__(self, job: BookedJob, attempt: int, batch: Batch, position: int) -> None:
        self.job, self.attempt, self.batch, self.position = job, attempt, batch, position

    def settle(self, outcome: Outcome) -> None:
        settle(self.batch, outcome, (self.position,))


class Worker(InPlaceActor):
    """A worker: what an endpoint does for one, with the book."""

    def __init__(self, workshop: Workshop, *, obeys: bool = True) -> None:
        self._workshop = workshop
        self.slots = Slots()
        self.out: dict[bytes, Out] = {}
        self.cancels: list[bytes] = []
        self.obeys = obeys
        self._feeds: list[Feed] = []

    def subscribe(self, queue: QueueState) -> None:
        gate = self._workshop.book.parking.gate(queue.name)
        feed = Feed(queue.ref, self.ref, shared=(self.slots,), gate=gate)
        self._feeds.append(feed)
        queue.ref.ask_nowait(OpenFeed(feed))

    # What the book asks

    def holds(self, job: BookedJob) -> bool:
        out = self.out.get(job.id)
        return out is not None and out.batch.left > 0

    def take_elsewhere(self, queue: str = "q") -> None:
        """Take a message as a consumer of another wire does, of which the book hears nothing."""
        batch = self.queues[queue].ref.ask_nowait(Get())
        assert batch is not None
        settle(batch, Outcome.ACCEPT, (0,))

    def cancel(self, job: BookedJob, grace: float | None) -> bool:
        if self.obeys:
            self.cancels.append(job.id)
        return self.obeys

    # Jobs

    def deliver(self, message: Deliver) -> None:
        self._workshop.book.register.tick()
        for position in message.batch.unsettled():
            self._give(message.batch, position)

    def feed_closed(self, message: FeedClosed) -> None:
        """Subscribe again, when it is time for that."""

    def _give(self, batch: Batch, position: int) -> None:
        name, begun, _ = batch.message(position).body.split()
        book = self._workshop.book
        job = book.register.knows(name)
        if job is None:
            queue = batch.head_at(position).routing_key
            terms = self._workshop.terms[name]
            job = book.register.recall(BookedJob(name, queue, SENDER, terms, durable=True))
        attempt = int(begun) + batch.attempts + 1
        if job is None:
            settle(batch, Outcome.ACCEPT, (position,))
        elif book.admit(job, attempt, self, batch, position):
            self.out[name] = Out(job, attempt, batch, position)
            return
        self.slots.offer(1)

    def reply(self, job: bytes, end: End = "ok", *, retry: bool = True, ready: bool = True) -> Fate:
        return self._workshop.stepped.turn(lambda: self._reply(self.out.pop(job), end, retry, ready))

    def _reply(self, out: Out, end: End, retry: bool, ready: bool) -> Fate:
        self._workshop.book.register.tick()
        fate = self._workshop.book.attempts.finish(out.job, out.attempt, self, end, retry=retry)
        if fate.again_after is not None:
            self._workshop.publish(out.job.id, out.job.queue, out.attempt, fate.again_after)
        self._answer(out, fate)
        out.settle(Outcome.ACCEPT)
        if ready:
            self.slots.offer(1)
        return fate

    def _answer(self, out: Out, fate: Fate) -> None:
        if fate.end is not None:
            self._workshop.answers.append((out.job.id, fate.end))
            if fate.is_dead:
                self._workshop.dead.append(out.job.id)

    def give_back(self, job: bytes) -> None:
        def returned() -> None:
            out = self.out.pop(job)
            fate = self._workshop.book.attempts.returned(out.job, out.attempt, self)
            self._answer(out, fate)
            out.settle(Outcome.ACCEPT if fate.again_after is None else Outcome.RETURN)
            self.slots.offer(1)

        self._workshop.stepped.turn(returned)

    def vanish(self) -> None:
        """End with the broker, which hears nothing of it."""
        self.out = {}
        self.slots.offer(-self.slots.free)

    def die(self) -> None:
        """Die with all that it has."""

        def died() -> None:
            for feed in self._feeds:
                feed.queue.tell_nowait(CloseFeed(feed))
            out, self.out = self.out, {}
            for one in out.values():
                fate = self._workshop.book.attempts.gone(one.job, one.attempt, self, one.batch.attempts + 1)
                self._answer(one, fate)
                one.settle(Outcome.ACCEPT if fate.again_after is None else Outcome.REQUEUE)

        self._workshop.stepped.turn(died)
