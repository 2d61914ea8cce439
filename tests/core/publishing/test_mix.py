"""Mixes: order in each queue, one run for each queue, refusals by their numbers, all of a mix or nothing."""

from collections.abc import Sequence

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from core.harness import Harness, open_harness, ready
from triomq.core import (
    EVERYTHING,
    CachedRoute,
    Confirms,
    Directory,
    Forbidden,
    Head,
    MemoryAlarm,
    NoSuchSink,
    Overflow,
    Properties,
    Publisher,
    PublishingPaused,
    QueueOptions,
    RoutedHead,
    SinkKind,
    encode_core,
    traits_of,
)

KEYS = ("a", "b", "c", "d")


class NotSecret:
    """May do everything but publish into ``secret``."""

    def may_write(self, name: str, /) -> bool:
        return name != "secret"

    def may_read(self, name: str, /) -> bool:
        return True


def publisher(harness: Harness) -> Publisher:
    return Publisher(harness.directory, EVERYTHING, harness.system.turn)


def routed(sink: str, key: str, *, persistent: bool = False) -> RoutedHead:
    return RoutedHead(CachedRoute(sink, key), Head(sink, key, traits=traits_of(persistent=persistent)))


def publish(
    harness: Harness,
    publisher: Publisher,
    mix: Sequence[RoutedHead],
    contents: Sequence[bytes],
    confirms: Confirms | None = None,
    lost: list[bytes] | None = None,
) -> None:
    """Publish a mix, in a turn of its own."""

    def unrouted(head: Head, contents: Sequence[bytes]) -> None:
        assert lost is not None
        lost.extend(contents)

    harness.turn(
        lambda: publisher.publish_mix(
            mix, contents, sum(map(len, contents)), confirms, unrouted if lost is not None else None
        )
    )


def bodies(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


@given(
    bindings=st.lists(st.tuples(st.sampled_from("pqrs"), st.sampled_from(KEYS)), max_size=8),
    keys=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=40),
)
def test_each_queue_gets_its_messages_in_their_order(
    bindings: list[tuple[str, str]], keys: list[tuple[str, bool]]
) -> None:
    async def main() -> None:
        async with open_harness() as harness:
            harness.sink("s")
            for name in "pqrs":
                harness.queue(name, QueueOptions(durable=False))
            for name, key in bindings:
                harness.bind("s", name, key)
            known = {each: routed("s", each[0], persistent=each[1]) for each in keys}
            contents, lost, confirms = bodies(len(keys)), list[bytes](), Confirms(lambda: None)
            publish(harness, publisher(harness), [known[each] for each in keys], contents, confirms, lost)
            for name in "pqrs":
                queue = harness.directory.queues[name]
                mine = [content for content, (key, _) in zip(contents, keys, strict=True) if (name, key) in bindings]
                assert ready(queue) == mine
                heads = [entry.message.head.routing_key for entry in queue.backlog.entries()]
                assert heads == [key for key, _ in keys if (name, key) in bindings]
            bound = {key for _, key in bindings}
            nowhere = [content for content, (key, _) in zip(contents, keys, strict=True) if key not in bound]
            assert sorted(lost) == nowhere
            taken = confirms.take()
            assert (taken.refused, taken.single or taken.up_to) == ([], [1] if len(keys) == 1 else len(keys))

    trio.run(main)


async def test_queues_that_get_the_same_messages_get_them_as_one_run(harness: Harness) -> None:
    harness.sink("s", SinkKind.FANOUT)
    for name in "pq":
        harness.queue(name)
        harness.bind("s", name)
    mix = [routed("s", key) for key in KEYS]
    publish(harness, publisher(harness), mix, bodies(4))
    for name in "pq":
        assert harness.directory.queues[name].backlog.run_length == 4


async def test_refusals_have_the_numbers_of_the_messages_that_a_queue_would_not_have(harness: Harness) -> None:
    harness.queue("full", QueueOptions(max_length=2, overflow=Overflow.REJECT_PUBLISH))
    harness.queue("open")
    full, other = routed("", "full"), routed("", "open")
    confirms = Confirms(lambda: None)
    publish(harness, publisher(harness), [other, full, other, full, full, other, full], bodies(7), confirms)
    assert confirms.take().refused == [5, 7]
    assert ready(harness.directory.queues["full"]) == [b"001", b"003"]
    assert ready(harness.directory.queues["open"]) == [b"000", b"002", b"005"]


async def test_mix_with_one_message_that_may_not_be_published_is_not_published_at_all(harness: Harness) -> None:
    harness.queue("q")
    way = Publisher(harness.directory, NotSecret(), harness.system.turn)
    confirms = Confirms(lambda: None)
    for bad, error in ((routed("secret", ""), Forbidden), (routed("missing", ""), NoSuchSink)):
        with pytest.raises(error):
            publish(harness, way, [routed("", "q"), bad], bodies(2), confirms)
    assert ready(harness.directory.queues["q"]) == []
    assert confirms.expect(1, 0).first == 1


async def test_mix_with_messages_that_are_routed_by_content_keeps_order_and_numbers(harness: Harness) -> None:
    harness.sink("h", SinkKind.HEADERS)
    harness.queue("q")
    harness.queue("r")
    harness.bind("h", "q", arguments={"x": 1})
    encoded = [encode_core(Properties(headers={name: 1})) for name in "xy"]
    by_content = RoutedHead(
        CachedRoute("h", ""), Head("h", properties_stop=len(encoded[0]), body_start=len(encoded[0]))
    )
    direct = routed("", "q")
    mix = [direct, by_content, routed("", "r"), by_content, direct]
    contents = [b"0", encoded[0] + b"1", b"2", encoded[1] + b"3", b"4"]
    confirms = Confirms(lambda: None)
    publish(harness, publisher(harness), mix, contents, confirms)
    assert ready(harness.directory.queues["q"]) == [contents[0], contents[1], contents[4]]
    assert confirms.take().up_to == 5


async def test_mix_that_is_dear_to_look_into_is_taken_bit_by_bit(harness: Harness) -> None:
    harness.sink("h", SinkKind.HEADERS)
    harness.queue("q")
    harness.bind("h", "q", arguments={"x": 1})
    encoded = [encode_core(Properties(headers={"x": 1, "id": f"{number:05}"})) for number in range(3_000)]
    size = len(encoded[0])
    one, other = (
        RoutedHead(CachedRoute("h", key), Head("h", key, properties_stop=size, body_start=size)) for key in "ab"
    )
    way, taken, calls = publisher(harness), 0, 0
    while taken < len(encoded):
        mix, contents = [one, other] * (len(encoded) // 2), encoded
        rest = mix[taken:], contents[taken:]
        more = harness.turn(lambda rest=rest: way.publish_mix(*rest, size * len(rest[0])))  # type: ignore[misc]
        assert more.messages > 0
        taken, calls = taken + more.messages, calls + 1
    assert calls > 1
    assert ready(harness.directory.queues["q"]) == encoded


async def test_run_that_is_dear_to_look_into_is_taken_bit_by_bit(harness: Harness) -> None:
    harness.sink("h", SinkKind.HEADERS)
    harness.queue("q")
    harness.bind("h", "q", arguments={"x": 1})
    encoded = [encode_core(Properties(headers={"x": 1, "id": f"{number:05}"})) for number in range(3_000)]
    size = len(encoded[0])
    one = RoutedHead(CachedRoute("h", "a"), Head("h", "a", properties_stop=size, body_start=size))
    way, rest, calls = publisher(harness), encoded, 0
    while rest:
        taken = harness.turn(lambda rest=rest: way.publish_part(one, rest, size * len(rest)))  # type: ignore[misc]
        assert taken > 0
        rest, calls = rest[taken:], calls + 1
    assert calls > 1
    assert ready(harness.directory.queues["q"]) == encoded
    direct = routed("", "q")
    assert harness.turn(lambda: way.publish_part(direct, bodies(3), 9)) == 3
    assert harness.turn(lambda: way.publish_part(direct, bodies(3), 9)) == 3


async def test_mix_of_very_many_heads_that_are_routed_by_content_is_taken_bit_by_bit(harness: Harness) -> None:
    harness.sink("h", SinkKind.HEADERS)
    harness.queue("q")
    harness.bind("h", "q")
    mix = [routed("h", str(number)) for number in range(200)] + [routed("", "q")]
    contents, way = bodies(len(mix)), publisher(harness)
    taken = harness.turn(lambda: way.publish_mix(mix, contents, 3 * len(mix))).messages
    assert 0 < taken < len(mix)
    while taken < len(mix):
        rest = mix[taken:], contents[taken:]
        taken += harness.turn(lambda rest=rest: way.publish_mix(*rest, 3 * len(rest[0]))).messages  # type: ignore[misc]
    assert ready(harness.directory.queues["q"]) == contents


async def test_pressure_takes_nothing_of_a_mix() -> None:
    async with open_harness(Directory("watched", memory=MemoryAlarm(10_000))) as harness:
        for name in "qr":
            harness.queue(name)
        way, mix = publisher(harness), [routed("", "q"), routed("", "r")]
        large = bytes(9 << 20)
        publish(harness, way, mix, [large, large])
        with pytest.raises(PublishingPaused):
            publish(harness, way, mix, bodies(2))
        assert [len(ready(harness.directory.queues[name])) for name in "qr"] == [1, 1]


async def test_mix_counts_each_copy_against_the_budget_of_the_turn(harness: Harness) -> None:
    harness.sink("s", SinkKind.FANOUT)
    for name in "pq":
        harness.queue(name)
        harness.bind("s", name)
    way = publisher(harness)

    def publish_and_look() -> int:
        way.publish_mix([routed("s", "1"), routed("", "p"), routed("", "nowhere")], bodies(3), 9)
        return harness.system.turn.spent

    assert harness.turn(publish_and_look) == 3


async def test_mix_to_a_queue_that_is_gone_is_confirmed(harness: Harness) -> None:
    harness.queue("q")
    way, confirms = publisher(harness), Confirms(lambda: None)
    mix = [routed("", "q"), routed("", "r")]
    publish(harness, way, mix, bodies(2))
    harness.delete("q")
    publish(harness, way, mix, bodies(2), confirms)
    assert confirms.take().up_to == 2
