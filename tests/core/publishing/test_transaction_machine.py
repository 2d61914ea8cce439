"""A transaction over two queues of any kind: all of it happens or nothing, whatever becomes of the queues meanwhile."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from core.harness import HEAD, ready, settle
from core.machine.stepped_harness import SteppedHarness
from triomq.core import (
    Batch,
    Get,
    Outcome,
    Overflow,
    Publish,
    QueueFull,
    QueueOptions,
    QueueState,
    Receipt,
    Restarting,
    Transaction,
)

pytestmark = pytest.mark.usefixtures("quiet_crashes")

CHOICE = [
    QueueOptions(),
    QueueOptions(max_length=3),
    QueueOptions(max_length=4, overflow=Overflow.REJECT_PUBLISH),
    QueueOptions(max_bytes=12, overflow=Overflow.WAIT),
]
NAMES = st.sampled_from(["a", "b"])
RUNS = st.lists(st.integers(2, 5), min_size=1, max_size=4)  # the sizes of the messages


class Shelf:
    """The model of one queue."""

    def __init__(self, queue: QueueState) -> None:
        self.queue = queue
        self.ready: dict[int, bytes] = {}
        self.out: dict[int, tuple[Batch, bytes]] = {}
        self.next_id = 1

    def refuses(self, contents: list[bytes]) -> bool:
        """Tell whether there is no room for messages."""
        return self.queue.options.overflow is not Overflow.DROP_HEAD and self.has_too_many(contents)

    def has_too_many(self, more: list[bytes]) -> bool:
        options, bodies = self.queue.options, [*self.ready.values(), *more]
        return (options.max_length is not None and len(bodies) > options.max_length) or (
            options.max_bytes is not None and sum(map(len, bodies)) > options.max_bytes
        )

    def place(self, contents: list[bytes]) -> None:
        for content in contents:
            self.ready[self.next_id] = content
            self.next_id += 1

    def end_turn(self) -> None:
        """Let the oldest give way, in a queue where they do."""
        while self.queue.options.overflow is Overflow.DROP_HEAD and self.has_too_many([]):
            del self.ready[min(self.ready)]

    def settle(self, number: int, outcome: Outcome) -> None:
        _, content = self.out.pop(number)
        if outcome in (Outcome.REQUEUE, Outcome.RETURN):
            self.ready[number] = content


class TransactionMachine(RuleBasedStateMachine):
    """Two queues, what happens to them at once, and what waits for the commit."""

    def __init__(self) -> None:
        super().__init__()
        self.stepped = SteppedHarness()
        self.harness = self.stepped.harness
        self.shelves: dict[str, Shelf] = {}
        self.transaction = Transaction(self.harness.directory)
        self.publishes: list[tuple[Shelf, list[bytes], Receipt]] = []
        self.settlements: list[tuple[Shelf, int, Batch, Outcome]] = []
        self.serial = 0

    def teardown(self) -> None:
        self.stepped.close()

    @initialize(first=st.sampled_from(CHOICE), second=st.sampled_from(CHOICE))
    def begin(self, first: QueueOptions, second: QueueOptions) -> None:
        for name, options in (("a", first), ("b", second)):
            self.shelves[name] = Shelf(self.stepped.turn(lambda n=name, o=options: self.harness.queue(n, o)))  # type: ignore[misc]

    def make_run(self, sizes: list[int], queues: int) -> tuple[list[bytes], Receipt, Publish]:
        contents = [b"%02d" % ((self.serial + number) % 100) + b"." * (size - 2) for number, size in enumerate(sizes)]
        receipt = Receipt(self.serial + 1, len(sizes), len(sizes) * queues, lambda: None)
        self.serial += len(sizes)
        return contents, receipt, Publish(HEAD, contents, sum(sizes), receipt)

    # what happens at once

    @rule(name=NAMES, sizes=RUNS)
    def publish(self, name: str, sizes: list[int]) -> None:
        shelf, (contents, receipt, publish) = self.shelves[name], self.make_run(sizes, 1)
        self.stepped.turn(lambda: shelf.queue.ref.tell_nowait(publish))
        fitting = len(contents)
        while fitting and shelf.refuses(contents[:fitting]):
            fitting -= 1
        assert len(contents) - fitting == len(receipt.refusals or ())
        shelf.place(contents[:fitting])
        shelf.end_turn()

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        shelf = self.shelves[name]
        batch = self.stepped.turn(lambda: shelf.queue.ref.ask_nowait(Get()))
        assert (batch is None) is not bool(shelf.ready)
        if batch is not None:
            [number] = batch.ids
            assert number == min(shelf.ready)
            shelf.out[number] = batch, shelf.ready.pop(number)

    def free(self) -> list[tuple[Shelf, int]]:
        """List what is out and waits for no commit."""
        bound = {(shelf, number) for shelf, number, _, _ in self.settlements}
        return [(shelf, n) for shelf in self.shelves.values() for n in shelf.out if (shelf, n) not in bound]

    @precondition(lambda self: self.free())
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_at_once(self, data: st.DataObject, outcome: Outcome) -> None:
        shelf, number = data.draw(st.sampled_from(self.free()))
        batch, _ = shelf.out[number]
        self.stepped.turn(lambda: settle(batch, outcome))
        shelf.settle(number, outcome)
        shelf.end_turn()

    # what waits

    @rule(names=st.lists(NAMES, min_size=1, unique=True), sizes=RUNS)
    def publish_with_the_others(self, names: list[str], sizes: list[int]) -> None:
        contents, receipt, publish = self.make_run(sizes, len(names))
        self.transaction.publish([self.shelves[name].queue.ref for name in names], publish)
        self.publishes += [(self.shelves[name], contents, receipt) for name in names]

    @precondition(lambda self: self.free())
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def settle_with_the_others(self, data: st.DataObject, outcome: Outcome) -> None:
        shelf, number = data.draw(st.sampled_from(self.free()))
        batch, _ = shelf.out[number]
        self.transaction.settle(batch, outcome)
        self.settlements.append((shelf, number, batch, outcome))

    @rule()
    def roll_back(self) -> None:
        self.transaction.rollback()
        self.forget()

    def forget(self) -> None:
        assert self.transaction.is_empty
        self.publishes, self.settlements = [], []

    # the commit

    def present(self) -> list[Shelf]:
        """List the queues that are published to and are still there."""
        return [shelf for shelf in self.shelves.values() if any(one[0] is shelf for one in self.publishes)]

    def run_for(self, shelf: Shelf) -> list[bytes]:
        return [content for where, contents, _ in self.publishes if where is shelf for content in contents]

    @rule()
    def commit(self) -> None:
        """Commit; if a queue has no room nothing happens, and the transaction can be committed again."""
        if any(shelf.refuses(self.run_for(shelf)) for shelf in self.present()):
            with pytest.raises(QueueFull):
                self.stepped.turn(self.transaction.commit)
            assert not self.transaction.is_empty
            assert all(receipt.missing == 0 or not receipt.refusals for _, _, receipt in self.publishes)
            return
        copies = self.stepped.turn(self.transaction.commit)
        assert copies == sum(len(self.run_for(shelf)) for shelf in self.present())
        for shelf in self.present():
            shelf.place(self.run_for(shelf))
        for shelf, number, batch, outcome in self.settlements:
            if shelf in self.shelves.values() and number in shelf.out and shelf.out[number][0] is batch:
                shelf.settle(number, outcome)
        for shelf in self.shelves.values():
            shelf.end_turn()
        self.check_receipts()
        self.forget()

    def check_receipts(self) -> None:
        """See that everything was placed, but for queues that are gone: nobody reports for these."""
        for _, contents, receipt in self.publishes:
            gone = sum(run is contents and where not in self.shelves.values() for where, run, _ in self.publishes)
            assert not receipt.refusals
            assert receipt.missing == gone * len(contents)

    @precondition(lambda self: self.present())
    @rule(data=st.data())
    def commit_while_a_queue_restarts(self, data: st.DataObject) -> None:
        shelf = data.draw(st.sampled_from(self.present()))
        full = any(other.refuses([]) for other in self.present())  # what came back was too much: that may be seen first

        def both() -> None:
            self.harness.crash_nowait(shelf.queue)
            with pytest.raises((Restarting, QueueFull) if full else Restarting):
                self.transaction.commit()

        self.stepped.turn(both)
        self.has_crashed(shelf)

    # what becomes of the queues

    @rule(name=NAMES)
    def crash(self, name: str) -> None:
        self.stepped.turn(lambda: self.harness.crash_nowait(self.shelves[name].queue))
        self.has_crashed(self.shelves[name])

    def has_crashed(self, shelf: Shelf) -> None:
        self.stepped.rest()
        for number in list(shelf.out):
            shelf.settle(number, Outcome.REQUEUE)
        shelf.end_turn()

    @rule(name=NAMES, options=st.sampled_from(CHOICE))
    def delete_and_declare_again(self, name: str, options: QueueOptions) -> None:
        def both() -> QueueState:
            self.harness.delete(name)
            return self.harness.queue(name, options)

        self.shelves[name] = Shelf(self.stepped.turn(both))

    @invariant()
    def the_queues_hold_what_the_books_say(self) -> None:
        for shelf in self.shelves.values():
            assert ready(shelf.queue) == [shelf.ready[number] for number in sorted(shelf.ready)]
            assert shelf.queue.backlog.unsettled == len(shelf.out)


TestTransactionMachine = TransactionMachine.TestCase
TestTransactionMachine.settings = settings(stateful_step_count=40)
