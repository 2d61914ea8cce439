"""One trial of an engine, for any protocol: an input in one piece, cut at a few places, octet by octet, and answered.

A protocol brings an ``EngineFuzz``: how inputs are generated and run, and what must hold for them.
"""

import gc
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .loop import Violation, fuzz, parse
from .mutations import cut

# Shares of the inputs: most are short, and most of the work is in the single octets.
OCTETS_UP_TO = 400
OCTETS_EVERY = 4
RETAINED_EVERY = 50
FLOOD_EVERY = 20_000
BATCH = 100

SLACK = 64 * 1024
"""Octets that an engine may retain however little it was sent: frames being read, caches, what it has to send."""


class FuzzInput(Protocol):
    """One input: whatever a protocol's ``run`` needs, and octets."""

    @property
    def data(self) -> bytes:
        """The octets that are cut."""

    def describe(self) -> str:
        """Return the input in words and hexadecimal."""


class EngineDriver:
    """The driver of one engine: feeds it, acts on its events, and records both sides.

    ``events`` and ``sent`` are all that came out of the engine so far.
    """

    engine: Any

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.sent: list[bytes | memoryview] = []

    def feed(self, data: bytes) -> None:
        self.engine.receive_data(data)
        self.work()

    def work(self) -> None:
        """Take events until there are none, act on them, take octets to send."""
        while events := self.engine.events():
            self.events += events
            for event in events:
                self.act(event)
        self.act_unasked()
        self.sent += self.engine.data_to_send()

    @abstractmethod
    def act(self, event: Any) -> None:
        """Do what the endpoint behind the engine does on an event."""

    def act_unasked(self) -> None:
        """Do what the endpoint does by itself."""

    @property
    def octets(self) -> bytes:
        """All that was sent."""
        return b"".join(self.sent)


def check_end(driver: EngineDriver) -> None:
    """Check that an engine whose stream has ended is done, and has no more events and nothing to send."""
    engine = driver.engine
    driver.feed(b"")
    events, sent = len(driver.events), len(driver.sent)
    driver.feed(b"more")
    engine.handle_timer(1e9)
    driver.work()
    if not engine.outbox.finished or engine.next_timer() is not None:
        raise Violation(f"not finished at the end of the stream, but {engine.state}")
    if (len(driver.events), len(driver.sent)) != (events, sent):
        raise Violation(f"after the end came {driver.events[events:]} and {driver.sent[sent:]}")


def retained(engine: object, shared: Iterable[object] = ()) -> int:
    """Count the octets that an engine holds on to, apart from itself and what engines share."""
    seen = {id(each) for each in shared}
    total, left = 0, [engine]
    while left:
        thing = left.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        if isinstance(thing, bytes | bytearray | str):
            total += len(thing)
        elif type(thing).__module__.startswith("triomq") or isinstance(thing, dict | list | tuple):
            left += gc.get_referents(thing)
    return total


Input = TypeVar("Input", bound=FuzzInput)
Driver = TypeVar("Driver", bound=EngineDriver)


class Flood(NamedTuple):
    """A long input: the driver that gets it, and its pieces, of which so many are fed."""

    driver: EngineDriver
    pieces: Iterator[bytes]
    count: int


class EngineFuzz(Generic[Input, Driver]):
    """How the engine of one protocol is fuzzed; ``name`` begins the seeds."""

    name = ""
    floods: Iterable[str] = ()

    @abstractmethod
    def generate(self, random: Random) -> Input:
        """Make an input: a conversation that is spoilt somewhere, or plain noise."""

    @abstractmethod
    def run(self, given: Input, pieces: Iterable[bytes], *, active: bool = False) -> Driver:
        """Feed an input in pieces, and check what must hold for any."""

    @abstractmethod
    def check(self, whole: Driver) -> None:
        """Check an input that came in one piece."""

    @abstractmethod
    def compare(self, whole: Driver, other: Driver, how: str) -> None:
        """Check that an input comes to the same however it is cut."""

    @abstractmethod
    def check_retained(self, driver: Driver, fed: int) -> None:
        """Check that the octets which an engine holds on to are bounded by what came, and by its limits."""

    @abstractmethod
    def outcome(self, driver: Driver) -> str:
        """Name how a trial ended."""

    @abstractmethod
    def make_flood(self, name: str, random: Random) -> Flood:
        """Prepare a flood."""

    def trial(self, seed: int, number: int) -> tuple[Input, str]:
        """Do one trial; return the input and how it ended."""
        random = Random(f"{self.name}{seed}:{number}")
        given = self.generate(random)
        try:
            return given, self._try(given, random, number)
        except Violation as violation:
            raise Violation(f"{violation}\n  seed {seed}, input {number}, a {given.describe()}") from violation
        except Exception as error:
            raise Violation(f"raised {error!r}\n  seed {seed}, input {number}, a {given.describe()}") from error

    def _try(self, given: Input, random: Random, number: int) -> str:
        data = given.data
        whole = self.run(given, [data])
        self.check(whole)
        if number % RETAINED_EVERY == 0:
            self.check_retained(whole, len(data))
        self.compare(whole, self.run(given, cut(random, data)), "cut at a few places")
        if len(data) <= OCTETS_UP_TO and number % OCTETS_EVERY == 0:
            octets = self.run(given, (data[at : at + 1] for at in range(len(data))))
            self.compare(whole, octets, "octet by octet")
            check_end(octets)
        check_end(self.run(given, cut(random, data), active=True))
        outcome = self.outcome(whole)
        check_end(whole)
        return outcome

    def flood(self, random: Random, name: str = "") -> str:
        """Send one kind of input for long; return its name."""
        name = name or random.choice(sorted(self.floods))
        driver, pieces, count = self.make_flood(name, random)
        fed = 0
        try:
            for _, piece in zip(range(count), pieces, strict=False):
                driver.feed(piece)
                fed += len(piece)
                driver.events.clear()
                driver.sent.clear()
                if driver.engine.outbox.finished:
                    break
            self.check_retained(driver, fed)  # type: ignore[arg-type]  # it made the driver
            check_end(driver)
        except Violation as violation:
            raise Violation(f"{violation}\n  in the flood {name!r}") from violation
        return f"flood: {name}"

    def run_inputs(self, seed: int, numbers: Iterable[int]) -> Counter[str]:
        """Do the trials of these numbers, and now and then a flood."""
        outcomes = Counter[str]()
        for number in numbers:
            outcomes[self.trial(seed, number)[1]] += 1
            if number % FLOOD_EVERY == 0:
                outcomes[self.flood(Random(f"{self.name}flood {seed}:{number}"))] += 1
        return outcomes

    def main(self, description: str | None, arguments: list[str] | None) -> int:
        """Run until time or count is up, or something does not hold."""
        options = parse(description, arguments)
        return fuzz(options, BATCH, lambda numbers: self.run_inputs(options.seed, numbers))
