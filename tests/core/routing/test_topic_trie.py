import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triomq.core.routing.topic_trie import TopicTrie
from triomq.errors import PreconditionFailed

WORDS = st.sampled_from(["a", "b", "", "*", "#"])
PATTERNS = st.lists(WORDS, max_size=6).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "", "c"]), max_size=7).map(".".join)


def naive_match(pattern: list[str], key: list[str]) -> bool:
    """The specification read aloud: one branch after the other."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return naive_match(pattern[1:], key) or (bool(key) and naive_match(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and naive_match(pattern[1:], key[1:])


def words(text: str) -> list[str]:
    return text.split(".") if text else []


@given(st.lists(st.tuples(PATTERNS, st.integers(0, 5)), max_size=12), KEYS)
def test_key_finds_what_a_naive_matcher_finds(pairs: list[tuple[str, int]], key: str) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, value in pairs:
        trie.add(pattern, value)
    found = list(trie.match(key))
    assert len(found) == len(set(found))
    assert set(found) == {value for pattern, value in pairs if naive_match(words(pattern), words(key))}


@given(st.lists(st.tuples(PATTERNS, st.integers(0, 2)), max_size=12), st.data())
def test_removed_patterns_are_found_no_longer_and_leave_nothing(
    pairs: list[tuple[str, int]], data: st.DataObject
) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, value in pairs:
        trie.add(pattern, value)
    left = list(pairs)
    for pattern, value in data.draw(st.permutations(pairs)):
        trie.remove(pattern, value)
        left.remove((pattern, value))
        key = data.draw(KEYS)
        assert set(trie.match(key)) == {value for pattern, value in left if naive_match(words(pattern), words(key))}
    assert trie._root.is_empty()
    assert not trie._words


@given(st.lists(st.tuples(st.booleans(), PATTERNS), max_size=20), st.lists(KEYS, min_size=1, max_size=8))
def test_keys_that_were_looked_up_before_find_what_is_bound_now(
    changes: list[tuple[bool, str]], keys: list[str]
) -> None:
    trie: TopicTrie[str] = TopicTrie()
    bound: list[str] = []
    for adds, pattern in changes:
        if adds:
            trie.add(pattern, pattern)
            bound.append(pattern)
        elif pattern in bound:
            trie.remove(pattern, pattern)
            bound.remove(pattern)
        for key in keys * 2:
            assert set(trie.match(key)) == {one for one in bound if naive_match(words(one), words(key))}


def test_keys_with_words_of_their_own_are_remembered_as_one_and_others_only_so_far() -> None:
    trie: TopicTrie[str] = TopicTrie()
    for word in range(100):
        trie.add(f"{word}.#", "one")
    for number in range(1_000):
        assert list(trie.match(f"1.new{number}")) == ["one"]
    assert len(trie._found) == 1
    for first in range(100):
        for second in range(100):
            assert list(trie.match(f"{first}.{second}")) == ["one"]
    assert 0 < len(trie._found) < 3_000
    trie.remove("1.#", "one")
    assert not trie._found
    assert not trie.match("1.2")


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.stock.#", ["usd.stock", "eur.stock.db"], ["stock.nasdaq", "stock"]),  # section 3.1.3.3's own examples
        ("", [""], ["a", "."]),
        ("#", ["", "a", "a.b", ".."], []),
        ("*", ["a"], ["", "a.b"]),
        ("*.*", [".", "a.b"], ["a"]),
        ("#.#", ["", "a", "a.b"], []),
        ("#.a.#", ["a", "b.a", "a.b", "a.a"], ["", "b"]),
        ("a.#.b", ["a.b", "a.x.b", "a.b.b"], ["a", "a.x", "b"]),
        ("a*", ["a*"], ["ab"]),  # a wildcard is a whole word
    ],
)
def test_pattern_matches(pattern: str, matching: list[str], others: list[str]) -> None:
    trie: TopicTrie[str] = TopicTrie()
    trie.add(pattern, "here")
    assert [key for key in matching + others if list(trie.match(key))] == matching


@pytest.mark.parametrize("pattern", ["a.b", "a", "", "a.b.c", "*", "#", "a.b.#"])
def test_pair_that_is_not_there_cannot_be_removed(pattern: str) -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add("a.b", 1)
    with pytest.raises(KeyError):
        trie.remove(pattern, 2)
    assert list(trie.match("a.b")) == [1]


def test_pair_that_was_added_twice_stays_after_one_removal() -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add("a", 1)
    trie.add("a", 1)
    trie.remove("a", 1)
    assert list(trie.match("a")) == [1]


def test_many_hashes_reach_no_more_nodes_than_there_are() -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add(".".join(["#", "a"] * 20), 1)
    # A matcher that tries one branch after the other would need about 10 ** 13 steps to learn that this does not match.
    assert not list(trie.match(".".join(["a"] * 50 + ["b"])))
    assert list(trie.match(".".join(["a"] * 50))) == [1]


@settings(max_examples=20)
@given(st.data())
def test_more_patterns_than_a_block_holds_are_found_as_few_are(data: st.DataObject) -> None:
    trie: TopicTrie[str] = TopicTrie()
    chance = Random(data.draw(st.integers(0, 1_000)))
    patterns = {".".join(chance.choices("ab*#", k=chance.randrange(1, 12))) for _ in range(600)}
    for pattern in patterns:
        trie.add(pattern, pattern)
    for pattern in chance.sample(sorted(patterns), len(patterns) * 3 // 4):
        trie.remove(pattern, pattern)
        patterns.remove(pattern)
    for _ in range(5):
        key = chance.choices("abc", k=chance.randrange(12))
        assert set(trie.match(".".join(key))) == {
            pattern for pattern in patterns if naive_match(words(pattern), list(key))
        }


def test_pattern_longer_than_a_block_is_matched() -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add(".".join(["*"] * 5_000), 1)
    assert list(trie.match(".".join(["a"] * 5_000))) == [1]
    assert not trie.match(".".join(["a"] * 4_999))


@pytest.mark.parametrize(
    ("pattern", "weight"),
    [("a.b", 0), ("a.#", 0), ("#", 0), ("#.#", 0), ("*", 1), ("a.*.b", 2), ("a.#.b.*", 3), ("*.a.#", 3)],
)
def test_pattern_weighs_what_is_matched_bit_by_bit(pattern: str, weight: int) -> None:
    assert TopicTrie[int]().weight(pattern) == weight


@pytest.mark.parametrize(
    ("wildcard", "most", "free"), [("#", 2_000, ["a.#", "#", "*", "a.*"]), ("*", 50_000, ["a.#", "*", "#.*"])]
)
def test_words_behind_wildcards_are_limited(wildcard: str, most: int, free: list[str]) -> None:
    trie: TopicTrie[int] = TopicTrie()
    patterns = [f"{wildcard}.{number}" + ".x" * 99 for number in range(most // 100)]
    for pattern in patterns:
        trie.require_room(pattern)
        trie.add(pattern, 1)
    with pytest.raises(PreconditionFailed, match=f"have {most} words behind '{re.escape(wildcard)}' already"):
        trie.require_room(f"{wildcard}.more")
    for pattern in free:
        trie.require_room(pattern)
    trie.remove(patterns[0], 1)
    trie.require_room(f"{wildcard}.more")
