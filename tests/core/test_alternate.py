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
from triomq.core.routing.predicate import Comparison, Condition

from .harness import Harness, publish, ready


def reached(harness: Harness, sink: str, *keys: str, **headers: object) -> list[str]:
    route = harness.directory.route_all(sink, keys or ("k",), lambda: headers)
    if len(keys) < 2:
        assert harness.directory.route(sink, (*keys, "k")[0], lambda: headers) == route
    return sorted(ref.name.removeprefix("queue.") for ref in route.queues)


def make_lost(harness: Harness, *names: str) -> None:
    """Make fanout sinks that each lead to a queue of the same name."""
    for name in names:
        harness.sink(name, SinkKind.FANOUT)
        harness.queue(name)
        harness.bind(name, name)


async def test_alternate_takes_what_no_binding_matches_and_nothing_else(harness: Harness) -> None:
    make_lost(harness, "lost")
    harness.sink("s", alternate="lost")
    harness.queue("q")
    assert reached(harness, "s", "k") == ["lost"]
    harness.bind("s", "q", "k")
    assert (reached(harness, "s", "k"), reached(harness, "s", "other")) == (["q"], ["lost"])


async def test_alternate_that_is_not_there_yet_takes_nothing_and_then_all(harness: Harness) -> None:
    harness.sink("s", alternate="lost")
    version = harness.directory.version
    assert reached(harness, "s") == []
    make_lost(harness, "lost")
    assert harness.directory.version > version
    assert reached(harness, "s") == ["lost"]
    harness.domain.ask_nowait(DeleteSink("lost"))
    assert reached(harness, "s") == []


async def test_default_sink_is_nobodys_alternate(harness: Harness) -> None:
    harness.queue("k")
    harness.sink("s", alternate="")
    assert reached(harness, "s", "k") == []


async def test_alternate_may_have_one_itself_and_a_circle_of_them_ends(harness: Harness) -> None:
    harness.sink("a", alternate="b")
    harness.sink("b", alternate="c")
    harness.sink("c", alternate="a")
    assert reached(harness, "a") == []
    harness.queue("q")
    harness.bind("c", "q", "k")
    assert reached(harness, "a", "k") == ["q"]


async def test_alternate_may_be_internal(harness: Harness) -> None:
    harness.sink("inner", SinkKind.FANOUT, internal=True)
    harness.queue("q")
    harness.bind("inner", "q")
    harness.sink("s", alternate="inner")
    assert reached(harness, "s") == ["q"]


async def test_each_sink_on_the_way_has_its_own_alternate(harness: Harness) -> None:
    make_lost(harness, "first", "second")
    harness.sink("inner", alternate="second")
    harness.sink("s", SinkKind.FANOUT, alternate="first")
    assert reached(harness, "s") == ["first"]
    harness.bind_sinks("s", "inner")  # leads on, though nowhere in the end: that is for inner's alternate
    assert reached(harness, "s") == ["second"]


async def test_message_with_several_keys_is_lost_when_none_of_them_matches(harness: Harness) -> None:
    make_lost(harness, "lost")
    harness.sink("s", alternate="lost")
    for queue in ("q", "r"):
        harness.queue(queue)
        harness.bind("s", queue, queue)
    assert reached(harness, "s", "none", "q", "r", "q") == ["q", "r"]
    assert reached(harness, "s", "none", "other") == ["lost"]


async def test_guard_that_does_not_admit_matches_nothing(harness: Harness) -> None:
    make_lost(harness, "lost")
    harness.sink("s", alternate="lost")
    harness.queue("q")
    large = make_predicate([Condition("size", Comparison.AT_LEAST, 10)])
    binding = make_binding("s", Target.QUEUE, "q", "k", predicate=large)
    harness.domain.ask_nowait(Bind(binding, harness.session))
    assert (reached(harness, "s", size=10), reached(harness, "s", size=9)) == (["q"], ["lost"])
    harness.domain.ask_nowait(Unbind(binding, harness.session))
    assert reached(harness, "s", size=10) == ["lost"]


async def test_headers_that_match_nothing_lead_to_the_alternate(harness: Harness) -> None:
    make_lost(harness, "lost")
    harness.sink("s", SinkKind.HEADERS, alternate="lost")
    harness.queue("q")
    harness.bind("s", "q", arguments={"a": 1})
    assert (reached(harness, "s", a=1), reached(harness, "s", a=2)) == (["q"], ["lost"])
    assert harness.directory.route("s", "", lambda: {"a": 2}).by_headers


async def test_dead_letters_find_the_alternate_too(harness: Harness) -> None:
    make_lost(harness, "lost")
    harness.sink("letters", alternate="lost")
    queue = harness.queue(options=QueueOptions(max_length=0, dead_letter_sink="letters"))
    publish(queue, b"x")
    assert len(ready(harness.directory.queues["lost"])) == 1


async def test_another_alternate_at_a_second_declare_is_refused(harness: Harness) -> None:
    harness.sink("s", alternate="lost")
    harness.sink("s", alternate="lost")
    with pytest.raises(Inequivalent, match="alternate of 's' is 'lost', not None"):
        harness.sink("s")


async def test_only_a_sink_that_needs_more_than_its_table_is_searched(harness: Harness) -> None:
    harness.sink("plain", SinkKind.TOPIC)
    harness.sink("hash", SinkKind.CONSISTENT_HASH)
    harness.sink("alternate", alternate="plain")
    harness.sink("headers", SinkKind.HEADERS)
    harness.sink("by header", SinkKind.CONSISTENT_HASH, hash_header="h")
    harness.sink("by property", SinkKind.CONSISTENT_HASH, hash_property="message_id")
    plain = [name for name, sink in harness.directory.sinks.items() if sink.is_plain]
    assert plain == ["plain", "hash"]
