import pytest

from triomq.core import Bind, SinkKind, Target, Unbind, make_binding
from triomq.core.sink import RemoveBinding
from triomq.errors import PreconditionFailed

from .cast import House, open_house


def routed(house: House, sink: str, key: str = "") -> list[str]:
    return [ref.name for ref in house.directory.route(sink, key, dict).queues]


async def test_a_binding_counts_once_however_often_it_is_made() -> None:
    async with open_house() as house:
        house.sink("s")
        house.queue("q")
        assert [house.bind("s", "q", "k") for _ in range(2)] == [True, False]
        unbind = Unbind(make_binding("s", Target.QUEUE, "q", "k"), house.session)
        assert [house.domain.ask_nowait(unbind) for _ in range(2)] == [True, False]
        assert routed(house, "s", "k") == []


async def test_two_bindings_to_one_queue_lead_there_once_and_go_singly() -> None:
    async with open_house() as house:
        house.sink("s", SinkKind.FANOUT)
        house.queue("q")
        house.bind("s", "q", "a")
        house.bind("s", "q", "b")
        assert routed(house, "s") == ["queue.q"]
        house.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "a"), house.session))
        assert routed(house, "s") == ["queue.q"]


async def test_every_change_is_noted_so_that_kept_routes_are_looked_up_again() -> None:
    async with open_house() as house:
        house.sink("s")
        house.queue("q")
        versions = [house.directory.version]
        house.bind("s", "q")
        versions.append(house.directory.version)
        house.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q"), house.session))
        versions.append(house.directory.version)
        assert sorted(set(versions)) == versions
        house.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q"), house.session))
        assert house.directory.version == versions[-1]


async def test_arguments_that_mean_nothing_leave_no_binding() -> None:
    async with open_house() as house:
        house.sink("s", SinkKind.HEADERS)
        store = house.queue("q")
        with pytest.raises(PreconditionFailed):
            house.bind("s", "q", arguments={"x-match": "never"})
        assert not house.directory.sinks["s"].bindings
        assert not store.bound


async def test_bindings_outlive_an_incarnation_of_the_sink() -> None:
    async with open_house() as house:
        house.sink("s")
        house.queue("q")
        house.bind("s", "q", "k")
        sink = house.directory.sinks["s"]
        sink.ref.tell_nowait(RemoveBinding([]))  # type: ignore[arg-type]  # no binding: its handler crashes
        await sink.ref.wait_running()
        assert sink.ref.epoch > 1
        assert routed(house, "s", "k") == ["queue.q"]
        assert house.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q", "k"), house.session)) is False
