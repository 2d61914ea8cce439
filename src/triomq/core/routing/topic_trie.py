"""Topic patterns: a trie for the words before the first wildcard, blocks of bits for all that follows.

    root ── shop ── orders ──▶ values            of "shop.orders"
              │       └─ rest ──▶ values         of "shop.orders.#"
              └─ tails ("*", "paid") ──▶ Block   of "shop.*.paid", anchored at "paid"

Rules (AMQP 0-9-1 section 3.1.3.3):

- A pattern is words between dots; ``*`` stands for one word, ``#`` for any number of words, also none.
- Most patterns begin with words, and a key leads down one path of the trie however many there are.
- A ``#`` that ends a pattern without other wildcards, the most common case, needs no block.
- What begins with the first wildcard otherwise (the *tail*) is matched by ``Block``. Of the tails at a node only those
  are looked at whose *anchor* is in the key: the one of their words that fewest other tails of the node have.
- Words behind wildcards are limited for each sink, so that no key takes longer than some milliseconds.
- Words of a key that are in no pattern are all alike: only wildcards match them. So what a key matches follows from its
  *outline*, in which they are one and the same, and is remembered by that. Keys with a number or an id of their own
  have one outline, and are looked up in 0.6 µs instead of 2 to 5 although each comes once.

Not done: a matcher that tries one branch after the other at wildcards needs exponential time for patterns with several
``#``, and any client may bind such patterns.
"""

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

from triomq.core.routing.topic_block import Block, Group, Tail
from triomq.errors import PreconditionFailed

T = TypeVar("T", bound=Hashable)

MOST_BEHIND_HASH = 2_000
"""Words behind a ``#`` in all patterns of a sink, each of which may be reached at each position of a key."""

MOST_BEHIND_STAR = 50_000
"""Words behind a ``*`` and before any ``#``, each of which can be reached at one position of a key alone. With as many
of both as there may be, a key of 128 words takes some 5 ms."""


_REMEMBERED, _ENTRY = 32_768, 16
"""What is remembered of outlines, in references of eight bytes: so many, and as many as one outline takes for each
pattern, so that where each pattern has a few words of its own all their keys have room."""


class _Word:
    """What all occurrences of a word in patterns have in common."""

    __slots__ = ("uses",)

    def __init__(self) -> None:
        self.uses = 0


class _Node(Generic[T]):
    """One word's place in the trie."""

    __slots__ = ("children", "groups", "rest", "tails", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.values: dict[T, int] = {}  # of patterns that end here
        self.rest: dict[T, int] | None = None  # of patterns that end here with "#"
        self.tails: dict[tuple[str, ...], Tail[T]] | None = None  # of patterns that go on with another wildcard
        self.groups: dict[str | None, Group[T]] | None = None  # the same, by their anchors

    def is_empty(self) -> bool:
        """Return whether nothing hangs on this node."""
        return not (self.values or self.children or self.rest or self.tails)

    def group_of(self, words: Iterable[str]) -> Group[T]:
        """Find or make the group of a tail: that of the one of its words that fewest others here are anchored at."""
        groups = self.groups = {} if self.groups is None else self.groups
        fixed = (word for word in words if word not in ("*", "#"))
        anchor = min(fixed, key=lambda word: groups[word].count if word in groups else 0, default=None)
        return groups.setdefault(anchor, Group(anchor))

    def start(self, words: Collection[str], position: int, started: dict[Block[T], dict[int, int]]) -> None:
        """Start the tails here whose anchors are among some words, at a position in the key."""
        groups = self.groups
        assert groups is not None
        for word in (None, *words):
            group = groups.get(word)
            if group is not None:
                for block, states in group.starts.items():
                    starts = started.get(block)
                    if starts is None:
                        started[block] = {position: states}
                    else:
                        starts[position] = starts.get(position, 0) | states


def _split(pattern: str) -> tuple[list[str], tuple[str, ...]]:
    """Split a pattern before its first wildcard; ``#.#`` means the same as ``#``."""
    words = _words(pattern)
    first = next((place for place, word in enumerate(words) if word in ("*", "#")), len(words))
    tail = words[first:]
    folded = [word for place, word in enumerate(tail) if not (word == "#" and place and tail[place - 1] == "#")]
    return words[:first], tuple(folded)


def _words(text: str) -> list[str]:
    """Split a key or pattern; an empty one has no words, not one empty word."""
    return text.split(".") if text else []


def _behind_wildcards(tail: tuple[str, ...]) -> tuple[int, int]:
    """Count the words of a tail behind its first ``*`` and before ``#``, and those behind ``#``."""
    first = tail.index("#") if "#" in tail else len(tail)
    return max(0, min(first, len(tail)) - 1), max(0, len(tail) - first - 1)


class TopicTrie(Generic[T]):
    """A multimap from topic patterns to values; owned by one topic sink."""

    __slots__ = ("_behind_hash", "_behind_star", "_found", "_open", "_patterns", "_root", "_size", "_words")

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._open: Block[T] | None = None  # the block that new tails go to
        self._behind_hash = self._behind_star = 0
        self._words: dict[str, _Word] = {}  # of all patterns, but wildcards
        self._patterns = 0
        self._found: dict[tuple[_Word | None, ...], tuple[T, ...]] = {}  # what keys match, by their outlines
        self._size = 0  # of that

    @property
    def cost(self) -> int:
        """What a look-up can cost, in queue pushes: 5 ms for as many words as there may be."""
        return (self._behind_star + self._behind_hash) >> 4

    def weight(self, pattern: str) -> int:
        """Return the number of words of a pattern that are matched bit by bit."""
        tail = _split(pattern)[1]
        return 0 if tail == ("#",) else len(tail)

    def require_room(self, pattern: str) -> None:
        """Require that matching stays cheap with one more pattern.

        Raises:
            PreconditionFailed: There would be too many words behind wildcards.
        """
        behind_star, behind_hash = _behind_wildcards(_split(pattern)[1])
        if behind_hash and self._behind_hash + behind_hash > MOST_BEHIND_HASH:
            raise _too_many(pattern, "'#'", self._behind_hash, MOST_BEHIND_HASH)
        if behind_star and self._behind_star + behind_star > MOST_BEHIND_STAR:
            raise _too_many(pattern, "'*'", self._behind_star, MOST_BEHIND_STAR)

    def add(self, pattern: str, value: T) -> None:
        """Add a value under a pattern; the same pair may be added several times."""
        words, tail = _split(pattern)
        node = self._root
        for word in words:
            following = node.children.get(word)
            if following is None:
                following = node.children[word] = _Node()
            node = following
        found = self._values(node, tail)
        found[value] = found.get(value, 0) + 1
        self._patterns += 1
        for word in (*words, *tail):
            if word not in ("*", "#"):
                known = self._words.get(word)
                if known is None:
                    known = self._words[word] = _Word()
                known.uses += 1
        self._forget()

    def _values(self, node: _Node[T], words: tuple[str, ...]) -> dict[T, int]:
        """Find or make what the patterns lead to that go on like this at a node."""
        if not words:
            return node.values
        if words == ("#",):
            node.rest = {} if node.rest is None else node.rest
            return node.rest
        node.tails = {} if node.tails is None else node.tails
        tail = node.tails.get(words)
        if tail is None:
            tail = node.tails[words] = Tail(words, node.group_of(words))
            tail.group.count += 1
            self._place(tail)
            self._weigh(words, 1)
        return tail.values

    def _place(self, tail: Tail[T]) -> None:
        if self._open is None or not self._open.has_room(tail):
            self._open = Block(tail)
        else:
            self._open.add(tail)

    def _weigh(self, words: tuple[str, ...], sign: int) -> None:
        behind_star, behind_hash = _behind_wildcards(words)
        self._behind_star += sign * behind_star
        self._behind_hash += sign * behind_hash

    def remove(self, pattern: str, value: T) -> None:
        """Undo one ``add``, and remove the nodes that are empty then.

        Raises:
            KeyError: The pair is not there.
        """
        words, tail = _split(pattern)
        path = [self._root]
        for word in words:
            path.append(path[-1].children[word])
        self._take(path[-1], tail, value)
        self._patterns -= 1
        for word in (*words, *tail):
            if word not in ("*", "#"):
                known = self._words[word]
                known.uses -= 1
                if not known.uses:
                    del self._words[word]
        self._forget()
        for word in reversed(words):
            if not path.pop().is_empty():
                break
            del path[-1].children[word]

    def _take(self, node: _Node[T], words: tuple[str, ...], value: T) -> None:
        """Undo one value of the patterns that go on like this at a node."""
        if not words:
            found: dict[T, int] | None = node.values
        elif words == ("#",):
            found = node.rest
        else:
            found = node.tails[words].values if node.tails is not None else None
        if found is None:
            raise KeyError(words)
        found[value] -= 1
        if not found[value]:
            del found[value]
        if words and not found:
            self._drop(node, words)

    def _drop(self, node: _Node[T], words: tuple[str, ...]) -> None:
        """Remove a tail that leads nowhere any more."""
        if words == ("#",):
            node.rest = None
            return
        assert node.tails is not None
        assert node.groups is not None
        tail = node.tails.pop(words)
        node.tails = node.tails or None
        tail.group.count -= 1
        if not tail.group.count:
            del node.groups[tail.group.anchor]
            node.groups = node.groups or None
        self._weigh(words, -1)
        block = tail.block
        block.remove(tail)
        if block.is_sparse:
            self._dissolve(block)

    def _dissolve(self, block: Block[T]) -> None:
        """Place the tails of a block again, most of whose others were removed."""
        if self._open is block:
            self._open = None
        for tail in block.tails:
            block.remove(tail)
            self._place(tail)

    def _forget(self) -> None:
        """Forget what keys match."""
        self._size = 0
        if self._found:
            self._found = {}

    def match(self, key: str) -> Collection[T]:
        """Return each value that has at least one pattern which matches the key, once."""
        words = key.split(".") if key else []
        outline = tuple(map(self._words.get, words))
        found = self._found.get(outline)
        if found is None:
            found = self._found[outline] = tuple(self._search(words))
            self._size += _ENTRY + len(outline) + len(found)
            if self._size > _REMEMBERED + _ENTRY * self._patterns:
                self._forget()
        return found

    def _search(self, words: list[str]) -> Collection[T]:
        """Find the values for the words of a key."""
        found: dict[T, int] = {}
        started: dict[Block[T], dict[int, int]] = {}
        node: _Node[T] | None = self._root
        for position, word in enumerate((*words, None)):
            assert node is not None
            if node.rest is not None:
                found.update(node.rest)
            if node.groups is not None:
                node.start(words, position, started)
            if word is None:
                found.update(node.values)
                break
            node = node.children.get(word)
            if node is None:
                break
        for block, starts in started.items():
            block.match(words, starts, found)
        return found


def _too_many(pattern: str, wildcard: str, there: int, most: int) -> PreconditionFailed:
    return PreconditionFailed(
        f"cannot bind with pattern {pattern!r}: the patterns of this sink have {there} words behind {wildcard} already "
        f"and may have {most}; use fewer or shorter patterns, or another sink"
    )
