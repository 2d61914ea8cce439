"""Patterns with wildcards, many of them matched at once by arithmetic on bits.

Each pattern is a little automaton: a state in front of each of its words, and one behind the last. A block lays the
states of its patterns side by side, as bits of one integer, so that one word of a key moves all of them in a handful of
operations, whatever the patterns are (Baeza-Yates and Gonnet, "A new approach to text searching", 1992, and wildcards):
states in front of ``*`` or of this very word move one bit on; states in front of ``#`` stay, and are in front of the
word behind it as well, since ``#`` stands for no word too. Time is words times blocks that a key has begun to match:
each pair of a position in the key and a state of a pattern is dealt with once, and some thousand of them together.

A walk over the nodes of a trie, one at a time, was some hundred times slower where patterns have many wildcards.
"""

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

_SIZE = 2048
"""States of a block: an integer of 256 bytes, at which the arithmetic takes about as long as its interpretation."""


class Group(Generic[T]):
    """Tails at one node of the trie that can match only keys which have a certain word.

    Args:
        anchor: The word; None if the tails have only wildcards.
    """

    __slots__ = ("anchor", "count", "starts")

    def __init__(self, anchor: str | None) -> None:
        self.anchor = anchor
        self.count = 0
        self.starts: dict[Block[T], int] = {}  # their first states

    def flip(self, tail: "Tail[T]") -> None:
        """Add the place where a tail starts, or remove it."""
        states = self.starts.get(tail.block, 0) ^ tail.start
        if states:
            self.starts[tail.block] = states
        else:
            del self.starts[tail.block]


class Tail(Generic[T]):
    """The part of a pattern from its first wildcard on, and what it leads to.

    Args:
        words: The words.
        group: The tails that it belongs to.
    """

    __slots__ = ("block", "first", "group", "values", "words")

    block: "Block[T]"
    first: int

    def __init__(self, words: tuple[str, ...], group: Group[T]) -> None:
        self.words = words
        self.group = group
        self.values: dict[T, int] = {}

    @property
    def start(self) -> int:
        """Its first state, as a bit of its block."""
        return 1 << self.first


class Block(Generic[T]):
    """Some patterns of one sink; made by its trie.

    Args:
        tail: The first one, whatever its length.
    """

    __slots__ = ("_ends", "_hashes", "_live", "_size", "_stars", "_used", "_words")

    def __init__(self, tail: Tail[T]) -> None:
        self._size = max(_SIZE, len(tail.words) + 1)
        self._used = self._live = 0
        self._words: dict[str, int] = {}  # the states in front of each word
        self._stars = 0
        self._hashes = 0
        self._ends: dict[int, Tail[T]] = {}  # by their last state
        self.add(tail)

    @property
    def tails(self) -> list[Tail[T]]:
        """The patterns."""
        return list(self._ends.values())

    @property
    def is_sparse(self) -> bool:
        """Whether more than half of the states in use are of patterns that were removed."""
        return self._live * 2 < self._used

    def has_room(self, tail: Tail[T]) -> bool:
        """Return whether there is room for the states of one more pattern."""
        return self._used + len(tail.words) < self._size

    def add(self, tail: Tail[T]) -> None:
        """Place a pattern behind the others."""
        tail.block, tail.first = self, self._used
        self._flip(tail)
        tail.group.flip(tail)
        self._used += len(tail.words) + 1
        self._live += len(tail.words) + 1
        self._ends[self._used - 1] = tail

    def remove(self, tail: Tail[T]) -> None:
        """Remove a pattern; its states are not used again."""
        self._flip(tail)
        tail.group.flip(tail)
        self._live -= len(tail.words) + 1
        del self._ends[tail.first + len(tail.words)]

    def _flip(self, tail: Tail[T]) -> None:
        """Add what a pattern's states are in front of, or remove it."""
        state = tail.start
        for word in tail.words:
            if word == "*":
                self._stars ^= state
            elif word == "#":
                self._hashes ^= state
            elif states := self._words.get(word, 0) ^ state:
                self._words[word] = states
            else:
                del self._words[word]
            state <<= 1

    def match(self, words: Sequence[str], starts: dict[int, int], found: dict[T, int]) -> None:
        """Find what the patterns that match lead to.

        Args:
            words: The words of a key.
            starts: The first states of those that may, by how many words of the key come before them.
            found: Where to put it.
        """
        in_front_of, stars, hashes = self._words.get, self._stars, self._hashes
        first, last = (min(starts), max(starts)) if len(starts) > 1 else (next(iter(starts)),) * 2
        states = starts[first]
        states |= (states & hashes) << 1  # a "#" is never behind another, so once is enough
        for position in range(first, len(words)):
            states = (states & (in_front_of(words[position], 0) | stars)) << 1 | (states & hashes)
            if position < last:
                states |= starts.get(position + 1, 0)
            elif not states:
                return
            states |= (states & hashes) << 1
        ends = self._ends
        while states:
            state = states.bit_length() - 1
            if state in ends:
                found.update(ends[state].values)
            states ^= 1 << state
