import pytest

from core.harness import Harness
from triomq.core import Bind, SinkKind, Target, Unbind, make_binding
from triomq.core.routing.sink import RemoveBinding
from triomq.errors import PreconditionFailed


def routed(harness: Harness, sink: str, key: str = "") -> list[str]:
    return [ref.name for ref in harness.directory.route(sink, key, dict).queues]


async def test_binding_counts_once_however_often_it_is_made(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    assert [harness.bind("s", "q", "k") for _ in range(2)] == [True, False]
    unbind = Unbind(make_binding("s", Target.QUEUE, "q", "k"), harness.session)
    assert [harness.domain.ask_nowait(unbind) for _ in range(2)] == [True, False]
    assert routed(harness, "s", "k") == []


async def test_two_bindings_to_one_queue_lead_there_once_and_go_singly(harness: Harness) -> None:
    harness.sink("s", SinkKind.FANOUT)
    harness.queue("q")
    harness.bind("s", "q", "a")
    harness.bind("s", "q", "b")
    assert routed(harness, "s") == ["queue.q"]
    harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q", "a"), harness.session))
    assert routed(harness, "s") == ["queue.q"]


async def test_every_change_is_noted_so_that_kept_routes_are_looked_up_again(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    versions = [harness.directory.version]
    harness.bind("s", "q")
    versions.append(harness.directory.version)
    harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q"), harness.session))
    versions.append(harness.directory.version)
    assert sorted(set(versions)) == versions
    harness.domain.ask_nowait(Unbind(make_binding("s", Target.QUEUE, "q"), harness.session))
    assert harness.directory.version == versions[-1]


async def test_arguments_that_mean_nothing_leave_no_binding(harness: Harness) -> None:
    harness.sink("s", SinkKind.HEADERS)
    queue = harness.queue("q")
    with pytest.raises(PreconditionFailed):
        harness.bind("s", "q", arguments={"x-match": "never"})
    assert not harness.directory.sinks["s"].bindings
    assert not queue.bound


async def test_bindings_outlive_an_incarnation_of_the_sink(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    harness.bind("s", "q", "k")
    sink = harness.directory.sinks["s"]
    sink.ref.tell_nowait(RemoveBinding([]))  # type: ignore[arg-type]  # no binding: its handler crashes
    await sink.ref.wait_running()
    assert sink.ref.epoch > 1
    assert routed(harness, "s", "k") == ["queue.q"]
    assert harness.domain.ask_nowait(Bind(make_binding("s", Target.QUEUE, "q", "k"), harness.session)) is False
