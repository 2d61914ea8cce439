"""Routes by content: what is remembered is what would be found, and it is bounded."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from core.harness import Harness, open_harness
from triomq.core import (
    Bind,
    Codecs,
    Comparison,
    Condition,
    Directory,
    Head,
    Properties,
    QueueMessage,
    SinkKind,
    Target,
    encode_core,
    make_binding,
    make_predicate,
    traits_of,
)
from triomq.core.codecs import amend_core
from triomq.properties import decode_core

COUNTED = 77


class Counted:
    """A codec that counts what it decodes."""

    def __init__(self) -> None:
        self.decoded = 0
        self.codecs = Codecs()
        self.codecs.register(COUNTED, self._decode, amend_core)

    def _decode(self, encoded: bytes) -> Properties:
        self.decoded += 1
        return decode_core(encoded)

    def take(self) -> int:
        """Return how often it has decoded since the last call."""
        decoded, self.decoded = self.decoded, 0
        return decoded


def message(codec: int = COUNTED, **headers: object) -> QueueMessage:
    encoded = encode_core(Properties(headers=headers))
    return QueueMessage(Head("s", "k", 0, len(encoded), len(encoded), traits=traits_of(codec=codec)), encoded + b"body")


def bind(harness: Harness, queue: str, *conditions: Condition, key: str = "k", target: Target = Target.QUEUE) -> None:
    predicate = make_predicate(conditions) if conditions else None
    harness.domain.ask_nowait(Bind(make_binding("s", target, queue, key, predicate=predicate), harness.session))


def equal(value: object) -> Condition:
    return Condition("h", Comparison.EQUAL, value)


def names(harness: Harness, *messages: QueueMessage, sink: str = "s") -> list[list[str]]:
    """Return the queues for some messages with the same head."""
    routes = harness.directory.content_routes
    route = routes.get((sink, ("k",))) or routes.add((sink, ("k",)))
    head, contents = messages[0].head, [each.content for each in messages]
    found = route.find_all(head, contents)
    assert found == [route.find(head, content) for content in contents]
    return [sorted(queue.name.removeprefix("queue.") for queue in queues) for queues in found]


async def test_properties_that_come_again_are_not_decoded_again() -> None:
    counted = Counted()
    async with open_harness(Directory("domain", counted.codecs)) as harness:
        harness.sink("s")
        for name in "ab":
            harness.queue(name)
        bind(harness, "a", equal(1))
        assert names(harness, *[message(h=1), message(h=2)] * 50) == [["a"], []] * 50
        assert counted.take() == 2
        bind(harness, "b", equal(2))
        assert names(harness, message(h=1), message(h=2)) == [["a"], ["b"]]
        assert counted.take() == 2
        harness.delete("a")
        assert names(harness, message(h=1), message(h=2)) == [[], ["b"]]


async def test_same_octets_of_another_codec_are_another_matter(harness: Harness) -> None:
    counted = Counted()
    async with open_harness(Directory("domain", counted.codecs)) as harness:
        harness.sink("s")
        harness.queue("q")
        bind(harness, "q", equal(1))
        assert names(harness, message(h=1)) == [["q"]]
        assert names(harness, message(codec=78, h=1)) == [[]]  # nobody knows it
        assert names(harness, message(codec=0, h=1)) == [["q"]]


async def test_so_many_properties_are_remembered_and_no_more() -> None:
    counted = Counted()
    async with open_harness(Directory("domain", counted.codecs)) as harness:
        harness.sink("s", SinkKind.FANOUT)
        harness.queue("q")
        bind(harness, "q", equal(1))
        some = [message(h=1, id=f"{number:05}") for number in range(5_000)]
        assert names(harness, *some[:4_000]) == [["q"]] * 4_000
        assert counted.take() == 4_000
        assert names(harness, *some[:4_000]) == [["q"]] * 4_000
        assert counted.take() == 0
        assert names(harness, *some) == [["q"]] * 5_000
        assert names(harness, some[0]) == [["q"]]
        assert counted.take() >= 1_001


async def test_properties_of_many_octets_are_not_remembered() -> None:
    counted = Counted()
    async with open_harness(Directory("domain", counted.codecs)) as harness:
        harness.sink("s")
        harness.queue("q")
        bind(harness, "q", equal(1))
        assert names(harness, *[message(h=1, more="x" * 300)] * 3) == [["q"]] * 3
        assert counted.take() == 6  # asked for all at once, and singly


async def test_properties_that_lead_to_many_queues_count_for_more() -> None:
    counted = Counted()
    async with open_harness(Directory("domain", counted.codecs)) as harness:
        harness.sink("s")
        for number in range(80):
            harness.queue(f"q{number:02}")
            bind(harness, f"q{number:02}", equal(1))
        some = [message(h=1, id=f"{number:05}") for number in range(500)]
        names(harness, *some)
        counted.take()
        names(harness, some[0])
        assert counted.take() >= 1


async def test_what_is_looked_into_counts_against_the_turn(harness: Harness) -> None:
    spent: list[int] = []
    harness.directory.spend = spent.append
    harness.sink("s")
    harness.queue("q")
    bind(harness, "q", equal(1))
    names(harness, *[message(codec=0, h=1)] * 10)
    assert 0 < sum(spent) < 10


HEADERS = st.dictionaries(st.sampled_from("hi"), st.sampled_from([1, 2, True, "1"]), max_size=2)
CONDITIONS = st.sampled_from([equal(1), equal(True), equal("1"), Condition("i", Comparison.LESS, 2)])
KINDS = st.sampled_from([kind for kind in SinkKind if kind is not SinkKind.CONSISTENT_HASH])


@given(
    st.tuples(KINDS, KINDS),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(["a", "b", "inner"]), CONDITIONS | st.none(), st.sampled_from("kl"))),
    st.lists(HEADERS, min_size=1),
)
async def test_remembered_route_is_what_the_directory_finds(
    kinds: tuple[SinkKind, SinkKind],
    alternate: bool,
    rows: list[tuple[str, Condition | None, str]],
    all_headers: list[Mapping[str, object]],
) -> None:
    async with open_harness(Directory("domain")) as harness:
        for name in ("a", "b", "c", "lost"):
            harness.queue(name)
        harness.sink("alternate", SinkKind.FANOUT)
        harness.bind("alternate", "lost")
        harness.sink("s", kinds[0], alternate="alternate" if alternate else None)
        harness.sink("inner", kinds[1])
        harness.domain.ask_nowait(
            Bind(make_binding("inner", Target.QUEUE, "c", "k", predicate=make_predicate([equal(1)])), harness.session)
        )
        for destination, condition, key in rows:
            target = Target.SINK if destination == "inner" else Target.QUEUE
            bind(harness, destination, *([] if condition is None else [condition]), key=key, target=target)
        for headers in all_headers:
            route = harness.directory.route("s", "k", lambda headers=headers: headers)  # type: ignore[misc]
            expected = sorted(queue.name.removeprefix("queue.") for queue in route.queues)
            assert names(harness, *[message(codec=0, **headers)] * 2) == [expected] * 2
