"""Topic patterns as a trie, matched by walking all its branches at once.

A pattern is words between dots; ``*`` stands for one word, ``#`` for any number of words, also none. A matcher that
one branch after the other needs exponential time for patterns with several ``#``. This one keeps the set of nodes that
the words so far can have reached, as one simulates a nondeterministic automaton: time is at most words times nodes in
reach, whatever the patterns are.

AMQP 0-9-1 section 3.1.3.3.
"""

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

__all__ = ["TopicTrie"]

T = TypeVar("T", bound=Hashable)


class _Node(Generic[T]):
    """One word's place in the trie."""

    __slots__ = ("children", "hash", "loops", "star", "values")

    def __init__(self, *, loops: bool = False) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.star: _Node[T] | None = None
        self.hash: _Node[T] | None = None
        self.loops = loops  # a "#" node: stays reached, whatever word comes
        self.values: dict[T, int] = {}

    def step(self, word: str) -> "_Node[T]":
        """Find or make the node that a pattern's next word leads to."""
        if word == "*":
            self.star = self.star or _Node()
            return self.star
        if word == "#":
            # "#.#" means the same as "#".
            if self.loops:
                return self
            self.hash = self.hash or _Node(loops=True)
            return self.hash
        return self.children.setdefault(word, _Node())

    def peek(self, word: str) -> "_Node[T] | None":
        """Find the node that a pattern's next word leads to."""
        if word == "*":
            return self.star
        if word == "#":
            return self if self.loops else self.hash
        return self.children.get(word)

    def drop(self, word: str) -> None:
        """Forget an empty child."""
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        else:
            del self.children[word]

    def is_empty(self) -> bool:
        """Tell whether nothing hangs on this node."""
        return not (self.values or self.children or self.star or self.hash)


def _words(text: str) -> list[str]:
    """Split a key or pattern; an empty one has no words, not one empty word."""
    return text.split(".") if text else []


class TopicTrie(Generic[T]):
    """A multimap from topic patterns to values; owned by one topic sink."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        """Start empty."""
        self._root: _Node[T] = _Node()

    def add(self, pattern: str, value: T) -> None:
        """Add a value under a pattern; the same pair may be added several times."""
        node = self._root
        for word in _words(pattern):
            node = node.step(word)
        node.values[value] = node.values.get(value, 0) + 1

    def remove(self, pattern: str, value: T) -> None:
        """Take back one ``add``, and the nodes that nobody needs any more.

        Raises:
            KeyError: The pair is not there.
        """
        path: list[tuple[_Node[T], str]] = []
        node = self._root
        for word in _words(pattern):
            following = node.peek(word)
            if following is None:
                raise KeyError(pattern)
            if following is not node:
                path.append((node, word))
            node = following
        node.values[value] -= 1
        if not node.values[value]:
            del node.values[value]
        for parent, word in reversed(path):
            child = parent.peek(word)
            if child is None or not child.is_empty():
                break
            parent.drop(word)

    def match(self, key: str) -> Collection[T]:
        """Give each value that has at least one pattern which matches the key, once."""
        reached: dict[_Node[T], None] = {}
        _reach(self._root, reached)
        for word in _words(key):
            before, reached = reached, {}
            for node in before:
                if node.loops:
                    _reach(node, reached)
                child = node.children.get(word)
                if child is not None:
                    _reach(child, reached)
                if node.star is not None:
                    _reach(node.star, reached)
        found: dict[T, int] = {}
        for node in reached:
            found.update(node.values)
        return found


def _reach(node: _Node[T], reached: dict[_Node[T], None]) -> None:
    """Mark a node as reached, and the "#" below it too, since "#" stands for no word as well."""
    reached[node] = None
    if node.hash is not None:
        reached[node.hash] = None
        # A "#" node has no "#" of its own: step() folds it.
