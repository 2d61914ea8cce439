"""What a queue gives up becomes a letter: in another queue, from which it may come back, or in itself."""

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from triomq.core import Browse, Get, Outcome, Overflow, QueueMessage, QueueOptions, QueueState, SinkKind, body_of

from ..harness import HEAD, OTHER_HEAD, settle
from .model import Death, Kind, Waiting, kind
from .time_machine import PassingMachine

REASONS = {
    "rejected": "rejected",
    "expired": "expired",
    "shed": "maxlen",
    "refused": "maxlen",
    "delivery_limit": "delivery_limit",
}
LIFE = 3.5  # of a letter
Letter = tuple[bytes, list[Death], int]  # its body, what it says of its history, its level


def died(deaths: list[Death], queue: str, reason: str) -> list[Death]:
    """Add a death to a history, the newest first, each queue and reason once."""
    before = sum(count for where, why, count in deaths if (where, why) == (queue, reason))
    return [(queue, reason, before + 1), *(death for death in deaths if death[:2] != (queue, reason))]


def comes_round(deaths: list[Death], queue: str) -> bool:
    """Tell whether a message has come back to a queue, and nobody has rejected it on its way."""
    reasons = [why for _, why, _ in deaths]
    since_rejected = deaths[: reasons.index("rejected")] if "rejected" in reasons else deaths
    return any(where == queue for where, _, _ in since_rejected)


class LettersMachine(PassingMachine):
    """A queue whose letters go to another one, ``dead``, where they live for some seconds and go back, or to itself."""

    kinds: ClassVar[list[Kind]] = [
        Kind(HEAD),
        Kind(OTHER_HEAD),
        kind(expiration=0),
        kind(expiration=2.5),
        kind(priority=2),
    ]
    letters: QueueState

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[Letter] = []  # in this turn, to the other queue
        self.kept: dict[int, tuple[Letter, float]] = {}  # in the other queue, with deadlines
        self.last_kept = 0
        self.arrived: dict[int, list[Death]] = {}  # letters that came to the queue in this turn

    def begin(self, options: QueueOptions) -> None:
        super().begin(options)
        goes_back = options.overflow is not Overflow.REJECT_PUBLISH_DLX  # what is refused then is not followed here
        other = QueueOptions(message_ttl=LIFE, dead_letter_sink="", dead_letter_key="q" if goes_back else "nobody")

        def making() -> None:
            self.letters = self.harness.queue("dead", other)
            self.harness.sink("letters", SinkKind.FANOUT)
            self.harness.bind("letters", "dead")

        self.still.turn(making)
        self.goes_back = goes_back

    # what the queue gives up

    def lose(self, waiting: Waiting, reason: str) -> None:
        super().lose(waiting, reason)
        sink = self.options.dead_letter_sink
        if sink == "nowhere" or (reason == "refused" and self.options.overflow is not Overflow.REJECT_PUBLISH_DLX):
            return
        deaths = died(waiting.deaths, "q", REASONS[reason])
        letter = (waiting.body, deaths, waiting.kind.level)
        if comes_round(deaths, "dead" if sink else "q"):
            return
        self.lettered += 1
        if sink:
            self.lost.append(letter)
        else:
            self.arrive(letter)

    def arrive(self, letter: Letter) -> None:
        """Enter that a letter came to the queue; what it looks like is seen at the end of the turn."""
        body, deaths, level = letter
        number = self.place(Kind(HEAD, level=level), body)
        self.ready[number].deaths = deaths
        self.arrived[number] = deaths
        self.placed += 1

    def after(self) -> None:
        self.look_at_arrivals()
        super().after()
        self.look_at_letters()

    def look_at_arrivals(self) -> None:
        """Learn head and octets of letters that came to the queue, unless they have gone without a trace."""
        found = {entry.id: entry.message for entry in self.queue.backlog.entries()}
        for batch in self.deliveries:
            found |= {number: batch.message(position) for position, number in enumerate(batch.ids)}
        for number, deaths in self.arrived.items():
            if number in found:
                message, waiting = found[number], self.ready[number]
                assert self.read(message) == (waiting.body, deaths)
                assert (message.head.exchange, message.head.routing_key) == ("", "q")
                waiting.kind, waiting.content = Kind(message.head, level=waiting.kind.level), message.content
        self.arrived.clear()

    def read(self, message: QueueMessage) -> tuple[bytes, list[Death]]:
        """Read a letter's body and history."""
        properties = self.harness.directory.codecs.read(message)
        assert properties is not None
        assert properties.expiration is None
        history = (properties.headers or {})["x-death"]
        assert isinstance(history, list)
        deaths = [(entry["queue"], entry["reason"], entry["count"]) for entry in history]  # type: ignore[backlog, call-overload]
        return body_of(message.head, message.content), deaths  # type: ignore[return-value]  # it is compared

    def look_at_letters(self) -> None:
        """See that the other queue has what was lost in this turn, and nothing else."""
        lost, self.lost = self.lost, []
        came = self.still.turn(lambda: self.letters.ref.ask_nowait(Browse(self.last_kept, 10_000)))
        assert sorted(self.read(entry.message) for entry in came) == sorted(letter[:2] for letter in lost)
        levels = {letter[0]: letter[2] for letter in lost}
        for entry in came:
            body, deaths = self.read(entry.message)
            assert entry.message.head.exchange == "letters"
            assert entry.message.head.routing_key in ("", "q", "other")
            self.kept[entry.id] = ((body, deaths, levels[body]), self.still.now + LIFE)
            self.last_kept = entry.id

    # what becomes of letters

    def catch_up(self) -> None:
        for number, (letter, deadline) in list(self.kept.items()):
            if deadline <= self.still.now:
                del self.kept[number]
                self.go_back(letter, "expired")

    def go_back(self, letter: Letter, reason: str) -> None:
        body, deaths, level = letter
        deaths = died(deaths, "dead", reason)
        if self.goes_back and not comes_round(deaths, "q"):
            self.arrive((body, deaths, level))

    @precondition(lambda self: self.kept)
    @rule(rejects=st.booleans())
    def take_a_letter(self, rejects: bool) -> None:
        """Take the oldest letter; when it is rejected it goes back to where it came from."""
        batch = self.still.turn(lambda: self.letters.ref.ask_nowait(Get()))
        assert batch is not None
        letter, _ = self.kept.pop(batch.ids[0])
        if rejects:
            self.go_back(letter, "rejected")
        self.turn(lambda: settle(batch, Outcome.REJECT if rejects else Outcome.ACCEPT))

    @rule()
    def crash_the_other_queue(self) -> None:
        self.still.turn(lambda: self.harness.crash_nowait(self.letters))
        self.still.rest()

    @invariant()
    def the_other_queue_holds_what_the_books_say(self) -> None:
        assert [entry.id for entry in self.letters.backlog.entries()] == list(self.kept)
