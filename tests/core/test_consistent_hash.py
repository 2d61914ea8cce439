"""Consistent-hash sinks in a domain: what they choose by, and what becomes of those that they choose."""

from collections.abc import Mapping

import pytest

from triomq.core import Bind, Properties, SinkKind, Target, make_binding
from triomq.errors import PreconditionFailed

from .harness import Harness

QUEUES = [f"q{number}" for number in range(8)]
VALUES = [f"v{number}" for number in range(50)]


def make_hash(harness: Harness, **options: object) -> None:
    harness.sink("s", SinkKind.CONSISTENT_HASH, **options)
    for queue in QUEUES:
        harness.queue(queue)
        harness.bind("s", queue, "1")


def chosen(
    harness: Harness, key: str = "", headers: Mapping[str, object] | None = None, properties: Properties | None = None
) -> str:
    route = harness.directory.route("s", key, lambda: headers or {}, properties=lambda: properties)
    assert route == harness.directory.route_all("s", [key], lambda: headers or {}, properties=lambda: properties)
    (queue,) = route.queues
    return queue.name


async def test_key_chooses_one_queue_and_the_route_can_be_kept(harness: Harness) -> None:
    make_hash(harness)
    assert len({chosen(harness, key) for key in VALUES}) == len(QUEUES)
    assert chosen(harness, "k") == chosen(harness, "k", {"h": 1})
    assert not harness.directory.route("s", "k", dict).by_headers


async def test_header_chooses_whatever_the_key(harness: Harness) -> None:
    make_hash(harness, hash_header="h")
    assert len({chosen(harness, "k", {"h": value}) for value in VALUES}) == len(QUEUES)
    assert chosen(harness, "k", {"h": "a"}) == chosen(harness, "other", {"h": "a", "more": 1})
    assert harness.directory.route("s", "k", dict).by_headers


async def test_headers_of_any_type_choose_and_those_that_lack_it_belong_together(harness: Harness) -> None:
    make_hash(harness, hash_header="h")
    assert len({chosen(harness, "k", {"h": number}) for number in range(50)}) == len(QUEUES)
    for value in (None, 1.5, b"\xff", [1, {"a": None}]):
        assert chosen(harness, "k", {"h": value}) == chosen(harness, "other", {"h": value})
    assert chosen(harness, "k") == chosen(harness, "other", {"g": 1})


@pytest.mark.parametrize("name", ["message_id", "correlation_id"])
async def test_property_chooses(harness: Harness, name: str) -> None:
    make_hash(harness, hash_property=name)
    found = {chosen(harness, "k", properties=Properties(**{name: value})) for value in VALUES}  # type: ignore[arg-type]
    assert len(found) == len(QUEUES)
    assert chosen(harness, "k", properties=Properties()) == chosen(harness, "other", properties=None)


async def test_only_the_first_of_several_keys_chooses(harness: Harness) -> None:
    make_hash(harness)
    found = harness.directory.route_all("s", VALUES, dict).queues
    assert [queue.name for queue in found] == [chosen(harness, VALUES[0])]


async def test_queue_that_is_deleted_leaves_its_share_to_the_others_and_moves_nothing_else(harness: Harness) -> None:
    make_hash(harness)
    before = {key: chosen(harness, key) for key in VALUES}
    harness.delete("q3")
    for key in VALUES:
        assert (chosen(harness, key) == before[key]) is (before[key] != "queue.q3")


async def test_sinks_may_be_chosen_too(harness: Harness) -> None:
    harness.sink("s", SinkKind.CONSISTENT_HASH)
    for name in ("a", "b"):
        harness.sink(name, SinkKind.FANOUT)
        for queue in (f"{name}1", f"{name}2"):
            harness.queue(queue)
            harness.bind(name, queue)
        harness.bind_sinks("s", name, "1")
    found = {tuple(sorted(queue.name for queue in harness.directory.route("s", key, dict).queues)) for key in VALUES}
    assert found == {("queue.a1", "queue.a2"), ("queue.b1", "queue.b2")}


async def test_without_bindings_the_alternate_takes_it(harness: Harness) -> None:
    harness.sink("lost", SinkKind.FANOUT)
    harness.queue("q")
    harness.bind("lost", "q")
    harness.sink("s", SinkKind.CONSISTENT_HASH, alternate="lost")
    assert chosen(harness, "k") == "queue.q"


async def test_binding_without_a_weight_is_refused_and_leaves_nothing(harness: Harness) -> None:
    make_hash(harness)
    queue = harness.queue("more")
    with pytest.raises(PreconditionFailed, match='must be an integer: <<"heavy">>'):
        harness.bind("s", "more", "heavy")
    assert not queue.bound
    assert len(harness.directory.sinks["s"].bindings) == len(QUEUES)


async def test_binding_made_twice_counts_once(harness: Harness) -> None:
    make_hash(harness)
    before = {key: chosen(harness, key) for key in VALUES}
    again = Bind(make_binding("s", Target.QUEUE, "q0", "1"), harness.session)
    assert harness.domain.ask_nowait(again) is False
    assert {key: chosen(harness, key) for key in VALUES} == before
