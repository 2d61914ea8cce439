"""Alternates: sinks that take what others lead nowhere."""

import pytest

from triomq.core import (
    Bind,
    DeleteSink,
    Inequivalent,
    QueueOptions,
    SinkKind,
    Target,
    Unbind,
    make_binding,
    make_predicate,
)
from triomq.core.predicate import Comparison, Condition

from .cast import House, open_house, publish, ready


def reached(house: House, sink: str, *keys: str, **headers: object) -> list[str]:
    route = house.directory.route_all(sink, keys or ("k",), lambda: headers)
    if len(keys) < 2:
        assert house.directory.route(sink, (*keys, "k")[0], lambda: headers) == route
    return sorted(ref.name.removeprefix("queue.") for ref in route.queues)


def make_lost(house: House, *names: str) -> None:
    """Make fanout sinks that each lead to a queue of the same name."""
    for name in names:
        house.sink(name, SinkKind.FANOUT)
        house.queue(name)
        house.bind(name, name)


async def test_an_alternate_takes_what_no_binding_matches_and_nothing_else() -> None:
    async with open_house() as house:
        make_lost(house, "lost")
        house.sink("s", alternate="lost")
        house.queue("q")
        assert reached(house, "s", "k") == ["lost"]
        house.bind("s", "q", "k")
        assert (reached(house, "s", "k"), reached(house, "s", "other")) == (["q"], ["lost"])


async def test_an_alternate_that_is_not_there_yet_takes_nothing_and_then_all() -> None:
    async with open_house() as house:
        house.sink("s", alternate="lost")
        version = house.directory.version
        assert reached(house, "s") == []
        make_lost(house, "lost")
        assert house.directory.version > version
        assert reached(house, "s") == ["lost"]
        house.domain.ask_nowait(DeleteSink("lost"))
        assert reached(house, "s") == []


async def test_the_default_sink_is_nobodys_alternate() -> None:
    async with open_house() as house:
        house.queue("k")
        house.sink("s", alternate="")
        assert reached(house, "s", "k") == []


async def test_an_alternate_may_have_one_itself_and_a_circle_of_them_ends() -> None:
    async with open_house() as house:
        house.sink("a", alternate="b")
        house.sink("b", alternate="c")
        house.sink("c", alternate="a")
        assert reached(house, "a") == []
        house.queue("q")
        house.bind("c", "q", "k")
        assert reached(house, "a", "k") == ["q"]


async def test_an_alternate_may_be_internal() -> None:
    async with open_house() as house:
        house.sink("inner", SinkKind.FANOUT, internal=True)
        house.queue("q")
        house.bind("inner", "q")
        house.sink("s", alternate="inner")
        assert reached(house, "s") == ["q"]


async def test_each_sink_on_the_way_has_its_own_alternate() -> None:
    async with open_house() as house:
        make_lost(house, "first", "second")
        house.sink("inner", alternate="second")
        house.sink("s", SinkKind.FANOUT, alternate="first")
        assert reached(house, "s") == ["first"]
        house.bind_sinks("s", "inner")  # leads on, though nowhere in the end: that is for inner's alternate
        assert reached(house, "s") == ["second"]


async def test_a_message_with_several_keys_is_lost_when_none_of_them_matches() -> None:
    async with open_house() as house:
        make_lost(house, "lost")
        house.sink("s", alternate="lost")
        for queue in ("q", "r"):
            house.queue(queue)
            house.bind("s", queue, queue)
        assert reached(house, "s", "none", "q", "r", "q") == ["q", "r"]
        assert reached(house, "s", "none", "other") == ["lost"]


async def test_a_guard_that_does_not_admit_matches_nothing() -> None:
    async with open_house() as house:
        make_lost(house, "lost")
        house.sink("s", alternate="lost")
        house.queue("q")
        large = make_predicate([Condition("size", Comparison.AT_LEAST, 10)])
        binding = make_binding("s", Target.QUEUE, "q", "k", predicate=large)
        house.domain.ask_nowait(Bind(binding, house.session))
        assert (reached(house, "s", size=10), reached(house, "s", size=9)) == (["q"], ["lost"])
        house.domain.ask_nowait(Unbind(binding, house.session))
        assert reached(house, "s", size=10) == ["lost"]


async def test_headers_that_match_nothing_lead_to_the_alternate() -> None:
    async with open_house() as house:
        make_lost(house, "lost")
        house.sink("s", SinkKind.HEADERS, alternate="lost")
        house.queue("q")
        house.bind("s", "q", arguments={"a": 1})
        assert (reached(house, "s", a=1), reached(house, "s", a=2)) == (["q"], ["lost"])
        assert house.directory.route("s", "", lambda: {"a": 2}).by_headers


async def test_dead_letters_find_the_alternate_too() -> None:
    async with open_house() as house:
        make_lost(house, "lost")
        house.sink("letters", alternate="lost")
        store = house.queue(options=QueueOptions(max_length=0, dead_letter_sink="letters"))
        publish(store, b"x")
        assert len(ready(house.directory.queues["lost"])) == 1


async def test_another_alternate_at_a_second_declare_is_refused() -> None:
    async with open_house() as house:
        house.sink("s", alternate="lost")
        house.sink("s", alternate="lost")
        with pytest.raises(Inequivalent, match="alternate of 's' is 'lost', not None"):
            house.sink("s")


async def test_only_a_sink_that_needs_more_than_its_table_is_searched() -> None:
    async with open_house() as house:
        house.sink("plain", SinkKind.TOPIC)
        house.sink("hash", SinkKind.CONSISTENT_HASH)
        house.sink("alternate", alternate="plain")
        house.sink("headers", SinkKind.HEADERS)
        house.sink("by header", SinkKind.CONSISTENT_HASH, hash_header="h")
        house.sink("by property", SinkKind.CONSISTENT_HASH, hash_property="message_id")
        plain = [name for name, store in house.directory.sinks.items() if store.is_plain]
        assert plain == ["plain", "hash"]
