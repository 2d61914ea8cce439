"""Consistent-hash sinks in a domain: what they choose by, and what becomes of those that they choose."""

from collections.abc import Mapping

import pytest

from triomq.core import Bind, Properties, SinkKind, Target, make_binding
from triomq.errors import PreconditionFailed

from .cast import House, open_house

QUEUES = [f"q{number}" for number in range(8)]
VALUES = [f"v{number}" for number in range(50)]


def make_hash(house: House, **options: object) -> None:
    house.sink("s", SinkKind.CONSISTENT_HASH, **options)
    for queue in QUEUES:
        house.queue(queue)
        house.bind("s", queue, "1")


def chosen(
    house: House, key: str = "", headers: Mapping[str, object] | None = None, properties: Properties | None = None
) -> str:
    route = house.directory.route("s", key, lambda: headers or {}, properties=lambda: properties)
    assert route == house.directory.route_all("s", [key], lambda: headers or {}, properties=lambda: properties)
    (queue,) = route.queues
    return queue.name


async def test_the_key_chooses_one_queue_and_the_route_can_be_kept() -> None:
    async with open_house() as house:
        make_hash(house)
        assert len({chosen(house, key) for key in VALUES}) == len(QUEUES)
        assert chosen(house, "k") == chosen(house, "k", {"h": 1})
        assert not house.directory.route("s", "k", dict).by_headers


async def test_a_header_chooses_whatever_the_key() -> None:
    async with open_house() as house:
        make_hash(house, hash_header="h")
        assert len({chosen(house, "k", {"h": value}) for value in VALUES}) == len(QUEUES)
        assert chosen(house, "k", {"h": "a"}) == chosen(house, "other", {"h": "a", "more": 1})
        assert house.directory.route("s", "k", dict).by_headers


async def test_headers_of_any_type_choose_and_those_that_lack_it_belong_together() -> None:
    async with open_house() as house:
        make_hash(house, hash_header="h")
        assert len({chosen(house, "k", {"h": number}) for number in range(50)}) == len(QUEUES)
        for value in (None, 1.5, b"\xff", [1, {"a": None}]):
            assert chosen(house, "k", {"h": value}) == chosen(house, "other", {"h": value})
        assert chosen(house, "k") == chosen(house, "other", {"g": 1})


@pytest.mark.parametrize("name", ["message_id", "correlation_id"])
async def test_a_property_chooses(name: str) -> None:
    async with open_house() as house:
        make_hash(house, hash_property=name)
        found = {chosen(house, "k", properties=Properties(**{name: value})) for value in VALUES}  # type: ignore[arg-type]
        assert len(found) == len(QUEUES)
        assert chosen(house, "k", properties=Properties()) == chosen(house, "other", properties=None)


async def test_only_the_first_of_several_keys_chooses() -> None:
    async with open_house() as house:
        make_hash(house)
        found = house.directory.route_all("s", VALUES, dict).queues
        assert [queue.name for queue in found] == [chosen(house, VALUES[0])]


async def test_a_queue_that_is_deleted_leaves_its_share_to_the_others_and_moves_nothing_else() -> None:
    async with open_house() as house:
        make_hash(house)
        before = {key: chosen(house, key) for key in VALUES}
        house.delete("q3")
        for key in VALUES:
            assert (chosen(house, key) == before[key]) is (before[key] != "queue.q3")


async def test_sinks_may_be_chosen_too() -> None:
    async with open_house() as house:
        house.sink("s", SinkKind.CONSISTENT_HASH)
        for name in ("a", "b"):
            house.sink(name, SinkKind.FANOUT)
            for queue in (f"{name}1", f"{name}2"):
                house.queue(queue)
                house.bind(name, queue)
            house.bind_sinks("s", name, "1")
        found = {tuple(sorted(queue.name for queue in house.directory.route("s", key, dict).queues)) for key in VALUES}
        assert found == {("queue.a1", "queue.a2"), ("queue.b1", "queue.b2")}


async def test_without_bindings_the_alternate_takes_it() -> None:
    async with open_house() as house:
        house.sink("lost", SinkKind.FANOUT)
        house.queue("q")
        house.bind("lost", "q")
        house.sink("s", SinkKind.CONSISTENT_HASH, alternate="lost")
        assert chosen(house, "k") == "queue.q"


async def test_a_binding_without_a_weight_is_refused_and_leaves_nothing() -> None:
    async with open_house() as house:
        make_hash(house)
        store = house.queue("more")
        with pytest.raises(PreconditionFailed, match='must be an integer: <<"heavy">>'):
            house.bind("s", "more", "heavy")
        assert not store.bound
        assert len(house.directory.sinks["s"].bindings) == len(QUEUES)


async def test_a_binding_made_twice_counts_once() -> None:
    async with open_house() as house:
        make_hash(house)
        before = {key: chosen(house, key) for key in VALUES}
        again = Bind(make_binding("s", Target.QUEUE, "q0", "1"), house.session)
        assert house.domain.ask_nowait(again) is False
        assert {key: chosen(house, key) for key in VALUES} == before
