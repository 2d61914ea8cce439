"""A queue in memory beside its model: every option, time, dead letters, and crashes of queue and domain.

The steps that any queue has stand in ``machine/queue_rules.py``. How feeds that differ share a queue is shown by
``test_strategies_machine.py``, what two queues do together by ``test_transaction_machine.py``, a broker with a store by
``test_durable_machine.py``.
"""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from core.harness import HEAD, OTHER_HEAD, settle
from core.machine.model import PLAIN, Death, MessageKind, ReadyMessage, make_kind
from core.machine.queue_oracle import Publication
from core.machine.queue_rules import QueueRules
from triomq.core import (
    Browse,
    Get,
    Outcome,
    Overflow,
    QueueMessage,
    QueueOptions,
    QueueState,
    SinkKind,
    body_of,
)

pytestmark = pytest.mark.usefixtures("quiet_crashes")

# Machines look at whole seconds, and deadlines lie between these: what comes first is never in doubt.
URGENT = [make_kind(priority=priority) for priority in (0, 1, 2, 200)]
EXPIRING = [*(make_kind(expiration=seconds) for seconds in (0, 0.5, 2.5, 1e12)), make_kind(priority=2, expiration=2.5)]
LETTERED = [
    MessageKind(HEAD),
    MessageKind(OTHER_HEAD),
    make_kind(expiration=0),
    make_kind(expiration=2.5),
    make_kind(priority=2),
]
DELAYS = st.sampled_from([0.5, 1.5, 3.5])
EXPIRES = 2.5  # until an unused queue is deleted

REASONS = {
    "rejected": "rejected",
    "expired": "expired",
    "shed": "maxlen",
    "refused": "maxlen",
    "delivery_limit": "delivery_limit",
}
LIFE = 3.5  # of a dead letter
Letter = tuple[bytes, list[Death], int]  # its body, its history, its level


def died(deaths: list[Death], queue: str, reason: str) -> list[Death]:
    """Add a death to a history, the newest first, each queue and reason once."""
    before = sum(count for where, why, count in deaths if (where, why) == (queue, reason))
    return [(queue, reason, before + 1), *(death for death in deaths if death[:2] != (queue, reason))]


def is_cycle(deaths: list[Death], queue: str) -> bool:
    """Return whether a message has come back to a queue without a rejection on its way."""
    reasons = [why for _, why, _ in deaths]
    since_rejected = deaths[: reasons.index("rejected")] if "rejected" in reasons else deaths
    return any(where == queue for where, _, _ in since_rejected)


def lettered(sink: str = "letters", **options: object) -> QueueOptions:
    key = None if sink else "q"
    return QueueOptions(dead_letter_sink=sink, dead_letter_key=key, **options)  # type: ignore[arg-type]


class MemoryMachine(QueueRules):
    """A queue of any kind, and a second one, ``dead``, for its dead letters, from which they come back."""

    choice = (
        QueueOptions(),
        QueueOptions(max_priority=2),
        QueueOptions(max_bytes=30),
        QueueOptions(max_length=5, max_bytes=40, max_priority=2),
        QueueOptions(delivery_limit=2, max_length=5, max_priority=1),
        # Full queues that refuse; publishers may wait for room.
        QueueOptions(max_length=5, max_bytes=40, overflow=Overflow.REJECT_PUBLISH),
        QueueOptions(max_length=5, max_bytes=40, overflow=Overflow.WAIT),
        QueueOptions(max_length=5, max_bytes=40, max_priority=2, overflow=Overflow.WAIT, delivery_limit=2),
        # Messages that expire: their own time to live or the queue's, whichever is shorter.
        QueueOptions(message_ttl=0),
        QueueOptions(message_ttl=1.5, max_length=5),
        QueueOptions(message_ttl=1.5, max_priority=2, delivery_limit=1),
        # Queues that delete themselves.
        QueueOptions(expires=EXPIRES),
        QueueOptions(expires=EXPIRES, auto_delete=True, message_ttl=1.5),
        QueueOptions(auto_delete=True, max_length=5),
        # Dead letters of every reason: to the other queue, to the same one, to a sink that is not there.
        lettered(delivery_limit=1, max_length=5),
        lettered(delivery_limit=2, message_ttl=1.5, max_priority=2),
        lettered(message_ttl=0),
        lettered(max_length=5, overflow=Overflow.REJECT_PUBLISH_DLX),
        lettered("", delivery_limit=1, message_ttl=1.5, max_length=5),
        lettered("nowhere", delivery_limit=1, message_ttl=1.5, max_length=5),
    )
    letters: QueueState

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Callable[[], None], list[None]]] = []  # publishers, and their calls
        self.gone: list[tuple[list[None], int]] = []  # publishers that wait no longer, and how often they were called

    def clear(self) -> None:
        super().clear()
        self.used = 0.0  # when the queue was last used
        self.loses_last_feed = False  # in this turn
        self.delayed_runs: list[tuple[float, Publication]] = []
        self.lost: list[Letter] = []  # in this turn, to the other queue
        self.in_letters: dict[int, tuple[Letter, float]] = {}  # in the other queue, with deadlines
        self.last_letter = 0
        self.arrived: dict[int, list[Death]] = {}  # letters that came to the queue in this turn

    def begin(self, options: QueueOptions) -> None:
        super().begin(options)
        self.used = self.stepped.now
        if self.has_letters:
            self.kinds = LETTERED
            self.begin_letters()
        else:
            self.kinds = [*PLAIN, *URGENT] if self.rejects else [*PLAIN, *URGENT, *EXPIRING]

    def after(self) -> None:
        if self.deletes_itself():
            self.check_deleted()
            return
        self.look_at_arrivals()
        super().after()
        if self.has_letters:
            self.look_at_letters()

    # Time

    @rule(seconds=st.sampled_from([1, 1, 2, 5]))
    def pass_time(self, seconds: int) -> None:
        self.stepped.pass_time(seconds)
        self.catch_up()
        self.after()

    def catch_up(self) -> None:
        """Follow delayed messages that became ready, by time and then by arrival, and letters that came back."""
        now = self.stepped.now
        for _, publication in sorted((run for run in self.delayed_runs if run[0] <= now), key=lambda run: run[0]):
            for kind, content in zip(publication.kinds, publication.publish.contents, strict=True):
                self.place(kind, content)
            self.delayed -= len(publication.publish.contents)
        self.delayed_runs = [run for run in self.delayed_runs if run[0] > now]
        for number, (letter, deadline) in list(self.in_letters.items()):
            if deadline <= now:
                del self.in_letters[number]
                self.go_back(letter, "expired")

    @precondition(lambda self: not self.rejects and not self.has_letters)
    @rule(data=st.data(), delay=DELAYS)
    def publish_later(self, data: st.DataObject, delay: float) -> None:
        runs = self.draw_runs(data)
        for publication in self.turn(lambda: self.publish_runs(runs, delay=delay)):
            assert not publication.receipt.missing, "a delayed message is placed"
            assert not publication.receipt.refusals
            self.delayed_runs.append((self.stepped.now + delay, publication))
            self.placed += len(publication.publish.contents)
            self.delayed += len(publication.publish.contents)

    def forget_delayed(self) -> int:
        count, self.delayed = self.delayed, 0
        self.delayed_runs.clear()
        return count

    @rule()
    def crash_domain(self) -> None:
        """Crash the domain; its queues are there again, and so are their deadlines."""
        self.put_all_back()
        self.stepped.crash_domain()
        self.after()

    # Queues that delete themselves

    def deletes_itself(self) -> bool:
        loses_last_feed, self.loses_last_feed = self.loses_last_feed, False
        expires = self.options.expires
        unused = expires is not None and not self.feeds and self.used + expires <= self.stepped.now
        return unused or (self.options.auto_delete and loses_last_feed)

    def check_deleted(self) -> None:
        """Check that the queue is deleted, and declare it again."""
        assert "q" not in self.harness.directory.queues, "the queue is still there"
        assert self.queue.ref.state == "stopped"
        self.dead += [message.batch for message in self.out.values()]
        self.clear()
        self.begin(self.options)

    @precondition(lambda self: self.options.expires is not None)
    @rule()
    def declare_again(self) -> None:
        self.turn(lambda: self.harness.queue("q", self.options))
        self.used = self.stepped.now

    def mark_used(self) -> None:
        self.used = self.stepped.now

    def forget_feed(self, opened: object) -> None:
        super().forget_feed(opened)  # type: ignore[arg-type]
        if not self.feeds:
            self.used, self.loses_last_feed = self.stepped.now, True

    def put_all_back(self) -> None:
        super().put_all_back()
        self.used = self.stepped.now  # the next incarnation begins as if it had been used just now

    @invariant()
    def queue_exists(self) -> None:
        assert self.harness.directory.queues["q"] is self.queue
        assert self.queue.ref.state == "running"

    # Waiting for room

    @precondition(lambda self: self.rejects)
    @rule()
    def wait_for_room(self) -> None:
        called: list[None] = []

        def call() -> None:
            called.append(None)

        self.waiting.append((call, called))
        self.turn(lambda: self.queue.when_room(call))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def give_up_waiting(self, data: st.DataObject) -> None:
        call, called = self.waiting.pop(data.draw(st.sampled_from(range(len(self.waiting)))))
        self.queue.forget_room(call)
        self.gone.append((called, len(called)))

    @invariant()
    def waiting_publishers_are_called_when_there_is_room(self) -> None:
        self.statistics_match_the_model()  # a publisher that waits is called at the end of the next turn
        for _, called in self.waiting:
            assert len(called) <= 1
            assert called or self.has_too_many(1) or self.has_too_many(0, 1)
        for called, times in self.gone:
            assert len(called) == times

    # Dead letters

    @property
    def has_letters(self) -> bool:
        return self.options.dead_letter_sink is not None

    def begin_letters(self) -> None:
        # What is refused and becomes a letter is not followed back.
        self.goes_back = self.options.overflow is not Overflow.REJECT_PUBLISH_DLX
        other = QueueOptions(
            message_ttl=LIFE, dead_letter_sink="", dead_letter_key="q" if self.goes_back else "nowhere"
        )

        def making() -> None:
            self.letters = self.harness.queue("dead", other)
            self.harness.sink("letters", SinkKind.FANOUT)
            self.harness.bind("letters", "dead")

        self.stepped.turn(making)

    def lose(self, message: ReadyMessage, reason: str) -> None:
        super().lose(message, reason)
        sink, overflow = self.options.dead_letter_sink, self.options.overflow
        if sink in (None, "nowhere") or (reason == "refused" and overflow is not Overflow.REJECT_PUBLISH_DLX):
            return
        deaths = died(message.deaths, "q", REASONS[reason])
        letter = (message.body, deaths, message.kind.level)
        if is_cycle(deaths, "dead" if sink else "q"):
            return
        self.lettered += 1
        if sink:
            self.lost.append(letter)
        else:
            self.arrive(letter)

    def arrive(self, letter: Letter) -> None:
        """Add a letter that came to the queue; its head and its octets are learned at the end of the turn."""
        body, deaths, level = letter
        number = self.place(MessageKind(HEAD, level=level), body)
        self.ready[number].deaths = deaths
        self.arrived[number] = deaths
        self.placed += 1

    def look_at_arrivals(self) -> None:
        """Learn head and octets of letters that came to the queue, unless they were dropped since."""
        if not self.arrived:
            return
        found = {entry.id: entry.message for entry in self.queue.backlog.entries()}
        for batch in self.deliveries:
            found |= {number: batch.message(position) for position, number in enumerate(batch.ids)}
        for number, deaths in self.arrived.items():
            if number in found:
                message, ready = found[number], self.ready[number]
                assert self.read(message) == (ready.body, deaths)
                assert (message.head.exchange, message.head.routing_key) == ("", "q")
                ready.kind, ready.content = MessageKind(message.head, level=ready.kind.level), message.content
        self.arrived.clear()

    def read(self, message: QueueMessage) -> tuple[bytes, list[Death]]:
        """Read a letter's body and history."""
        properties = self.harness.directory.codecs.read(message)
        assert properties is not None
        assert properties.expiration is None
        history = (properties.headers or {})["x-death"]
        assert isinstance(history, list)
        deaths = [(entry["queue"], entry["reason"], entry["count"]) for entry in history]  # type: ignore[index, call-overload]
        return body_of(message.head, message.content), deaths  # type: ignore[return-value]  # it is compared

    def look_at_letters(self) -> None:
        """Check that the other queue has the letters of this turn, and nothing else."""
        lost, self.lost = self.lost, []
        came = self.stepped.turn(lambda: self.letters.ref.ask_nowait(Browse(self.last_letter, 10_000)))
        assert sorted(self.read(entry.message) for entry in came) == sorted(letter[:2] for letter in lost)
        levels = {letter[0]: letter[2] for letter in lost}
        for entry in came:
            body, deaths = self.read(entry.message)
            assert entry.message.head.exchange == "letters"
            assert entry.message.head.routing_key in ("", "q", "other")
            self.in_letters[entry.id] = ((body, deaths, levels[body]), self.stepped.now + LIFE)
            self.last_letter = entry.id

    def go_back(self, letter: Letter, reason: str) -> None:
        body, deaths, level = letter
        deaths = died(deaths, "dead", reason)
        if self.goes_back and not is_cycle(deaths, "q"):
            self.arrive((body, deaths, level))

    @precondition(lambda self: self.in_letters)
    @rule(rejects=st.booleans())
    def take_a_letter(self, rejects: bool) -> None:
        """Take the oldest letter; when it is rejected it goes back to the queue."""
        batch = self.stepped.turn(lambda: self.letters.ref.ask_nowait(Get()))
        assert batch is not None
        letter, _ = self.in_letters.pop(batch.ids[0])
        if rejects:
            self.go_back(letter, "rejected")
        self.turn(lambda: settle(batch, Outcome.REJECT if rejects else Outcome.ACCEPT))

    @precondition(lambda self: self.has_letters)
    @rule()
    def crash_the_other_queue(self) -> None:
        self.stepped.turn(lambda: self.harness.crash_nowait(self.letters))
        self.stepped.rest()

    @invariant()
    def other_queue_matches_the_model(self) -> None:
        if self.has_letters:
            assert [entry.id for entry in self.letters.backlog.entries()] == list(self.in_letters)


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(stateful_step_count=40, max_examples=max(400, settings().max_examples))
