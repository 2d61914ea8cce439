"""Consistent hashing: which of several destinations a text belongs to, by their weights, with little moved by a change.

A fixed number of slots, each the place of many texts. For each slot all bindings run a race; their times are drawn from
the binding's name and the slot alone: at random, but the same in each process and after each restart. A binding of
weight 2 runs twice as fast as one of weight 1. The winner of the slot gets its texts. So a new binding takes from each
of the others what it wins and moves nothing else; a binding that goes leaves each of its slots to the one that came
second.

Compared to the usual ring of points: any weight costs the same, shares differ from weights by what chance leaves in
thousands of slots (a few per cent), and a look-up is one index into a list.
"""

from collections.abc import Collection, Hashable
from hashlib import shake_128
from math import inf, log
from struct import Struct
from typing import TYPE_CHECKING, Final, Generic, TypeVar
from zlib import crc32

from triomq.errors import PreconditionFailed

if TYPE_CHECKING:
    from triomq.core.routing.bindings import Binding, Headers

T = TypeVar("T", bound=Hashable)

SLOTS = 1 << 12
"""As many as keep shares of ten within five per cent; a binding that comes or goes costs a race in each, some ms."""

MOST_RUNNERS = 500
"""Bindings of a consistent-hash sink: all of them race for a slot when it is looked at and has no winner, in 0.2 ms."""

_WEIGHT = 100
"""Steps that a binding counts as: it takes 16 KiB of memory and some milliseconds to come, and the next few looks into
slots that it won take longer when it goes."""

_SLOT_BITS = 12
_OPEN = -inf  # a time that every binding beats: the slot's race is still to be run
_WORD = Struct("<I")
_WORDS = Struct(f"<{SLOTS}I")
_HIGHEST_WORD = 1 << 32
_ODD = 0x9E3779B1  # a prime near the golden ratio of 32 bits


def slot_of(text: str) -> int:
    """Find the slot of a text.

    A checksum alone would give keys that count up a pattern of their own; its product with a large odd number does not.
    """
    return (crc32(text.encode("utf-8", "surrogateescape")) * _ODD % _HIGHEST_WORD) >> (32 - _SLOT_BITS)


def read_weight(text: str) -> float:
    """Read a weight, which a binding to such a sink has in its key; the words are RabbitMQ's.

    Raises:
        PreconditionFailed: It is no integer, or not positive.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise PreconditionFailed(f"The binding key must be an integer: <<{_quoted(text)}>>")
    weight = float(digits)
    if text.startswith("-") or not weight:
        raise PreconditionFailed("The binding key must be greater than 0")
    return weight


def _quoted(text: str) -> str:
    return f'"{text}"' if text else ""


class _Runner(Generic[T]):
    """One binding in the races."""

    __slots__ = ("_weight", "_words", "destination")

    def __init__(self, binding: "Binding", destination: T) -> None:
        name = f"{binding.target.value}\0{binding.destination}\0{binding.key}\0".encode("utf-8", "surrogateescape")
        self._words = shake_128(name + binding.encoded_arguments).digest(_WORDS.size)
        self._weight = read_weight(binding.key)
        self.destination = destination

    def times(self) -> list[float]:
        """Draw the times for all slots: exponentially distributed, so that the chance to win is as the weight."""
        return [_time(word, self._weight) for word in _WORDS.unpack(self._words)]

    def time(self, slot: int) -> float:
        """Draw the time for one slot."""
        (word,) = _WORD.unpack_from(self._words, slot * _WORD.size)
        return _time(word, self._weight)


def _time(word: int, weight: float) -> float:
    return -log((word + 0.5) / _HIGHEST_WORD) / weight


class HashTable(Generic[T]):
    """Each text has one destination; a binding's key is its weight. A destination bound twice has both weights.

    When a binding goes, the slots that it won are left without a winner until the next look-up: all races at once would
    take seconds where hundreds of bindings have the weight of one.
    """

    __slots__ = ("_runners", "_times", "_winners")

    cost: Final = 1

    def __init__(self) -> None:
        self._runners: dict[Binding, _Runner[T]] = {}
        self._winners: list[_Runner[T] | None] = []
        self._times: list[float] = []

    def add(self, binding: "Binding", destination: T) -> None:
        """Add a destination, with the weight that is the binding's key.

        Raises:
            PreconditionFailed: The key is no weight.
        """
        runner = _Runner(binding, destination)
        times = runner.times()
        if self._runners:
            for slot, (mine, best) in enumerate(zip(times, self._times, strict=True)):
                if mine < best:
                    self._times[slot], self._winners[slot] = mine, runner
        else:
            self._times, self._winners = times, [runner] * SLOTS
        self._runners[binding] = runner

    def remove(self, binding: "Binding", destination: T) -> None:
        """Undo one ``add``."""
        gone = self._runners.pop(binding)
        if not self._runners:
            self._times, self._winners = [], []
            return
        for slot, winner in enumerate(self._winners):
            if winner is gone:
                self._times[slot], self._winners[slot] = _OPEN, None

    def _winner(self, slot: int) -> _Runner[T]:
        """Return the winner of a slot, by a race if it has none yet."""
        winner = self._winners[slot]
        if winner is None:
            winner = min(self._runners.values(), key=lambda runner: runner.time(slot))
            self._times[slot], self._winners[slot] = winner.time(slot), winner
        return winner

    def weight(self, binding: "Binding") -> int:
        """Return what stands for the memory of one binding and for its races."""
        return _WEIGHT

    def require_room(self, binding: "Binding") -> None:
        """Require that there are few enough bindings.

        Raises:
            PreconditionFailed: There would be too many.
        """
        if len(self._runners) >= MOST_RUNNERS:
            raise PreconditionFailed(
                f"cannot bind {binding.destination!r}: consistent-hash sink {binding.source!r} has {MOST_RUNNERS} "
                "bindings, which is the most; use another sink"
            )

    def match(self, key: str, headers: "Headers") -> Collection[T]:
        """Return the one destination that the text belongs to, if there is any."""
        return (self._winner(slot_of(key)).destination,) if self._runners else ()
