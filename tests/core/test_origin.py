"""Whose things are: what a peer had made, only that peer has deleted again."""

import pytest

from triomq.actors import InPlaceActor
from triomq.core import (
    Bind,
    Changed,
    DeclareQueue,
    DeclareSink,
    DeleteQueue,
    DeleteSink,
    ForeignName,
    ForeignResource,
    ForgetOrigin,
    QueueOptions,
    SinkOptions,
    Target,
    Unbind,
    make_binding,
)

from .harness import Harness

PEER = "guest@there"
JOIN = make_binding("s", Target.QUEUE, "q", "k")


def make_all(harness: Harness, origin: str = PEER) -> None:
    harness.domain.ask_nowait(DeclareSink("s", SinkOptions(), harness.session, origin))
    harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(), harness.session, origin))
    harness.domain.ask_nowait(Bind(JOIN, harness.session, origin))


def delete_all(harness: Harness, origin: str) -> None:
    harness.domain.ask_nowait(Unbind(JOIN, harness.session, origin))
    harness.domain.ask_nowait(DeleteQueue("q", harness.session, origin=origin))
    harness.domain.ask_nowait(DeleteSink("s", origin=origin))


@pytest.mark.parametrize("whose", ["", PEER])
async def test_maker_may_delete_it(harness: Harness, whose: str) -> None:
    make_all(harness, whose)
    delete_all(harness, whose)
    assert not harness.directory.sinks
    assert not harness.directory.queues


@pytest.mark.parametrize(("whose", "asker"), [(PEER, ""), ("", PEER), (PEER, "guest@elsewhere")])
async def test_other_peers_may_not_delete_it(harness: Harness, whose: str, asker: str) -> None:
    make_all(harness, whose)
    for request in (
        Unbind(JOIN, harness.session, asker),
        DeleteQueue("q", harness.session, origin=asker),
        DeleteSink("s", origin=asker),
    ):
        with pytest.raises(ForeignResource, match=whose or asker):
            harness.domain.ask_nowait(request)
    assert JOIN in harness.directory.sinks["s"].bindings


async def test_existing_things_stay_their_makers(harness: Harness) -> None:
    make_all(harness, "")
    harness.domain.ask_nowait(DeclareSink("s", SinkOptions(), harness.session, PEER))
    harness.domain.ask_nowait(Bind(JOIN, harness.session, PEER))
    assert (harness.directory.sinks["s"].origin, harness.directory.queues["q"].origin) == ("", "")
    assert harness.directory.sinks["s"].origin_of(JOIN) == ""


@pytest.mark.parametrize(("first", "second"), [("", PEER), (PEER, ""), (PEER, "guest@elsewhere")])
async def test_queue_of_a_name_that_somebody_else_has_told_is_refused_whoever_spoke_first(
    harness: Harness, first: str, second: str
) -> None:
    harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(), harness.session, first))
    with pytest.raises(ForeignName, match=first or second):
        harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(), harness.session, second))
    harness.domain.ask_nowait(DeclareQueue("q", QueueOptions(), harness.session, first))
    assert harness.directory.queues["q"].origin == first


async def test_peer_s_binding_between_things_of_our_own_is_the_peer_s(harness: Harness) -> None:
    harness.sink("s")
    harness.queue("q")
    harness.domain.ask_nowait(Bind(JOIN, harness.session, PEER))
    with pytest.raises(ForeignResource):
        harness.domain.ask_nowait(Unbind(JOIN, harness.session))
    harness.delete("q")  # which is our own, so it goes with all bindings
    assert not harness.directory.sinks["s"].bindings


class Listener(InPlaceActor):
    def __init__(self) -> None:
        self.origins: list[str] = []

    def changed(self, message: Changed) -> None:
        self.origins.append(message.origin)


async def test_observer_hears_whose_it_is(harness: Harness) -> None:
    listener = Listener()
    harness.directory.observers.add(harness.start(listener))
    make_all(harness)
    harness.queue("ours")
    harness.bind("s", "ours")
    harness.domain.ask_nowait(DeleteSink("s", origin=PEER))
    harness.domain.ask_nowait(DeleteQueue("q", harness.session, origin=PEER))
    assert listener.origins == [PEER, PEER, PEER, "", "", PEER, "", PEER, PEER]


async def test_peer_can_be_forgotten(harness: Harness) -> None:
    make_all(harness)
    harness.sink("ours")
    harness.queue("ours")
    harness.bind("s", "ours")
    harness.domain.ask_nowait(Bind(make_binding("ours", Target.QUEUE, "ours"), harness.session, PEER))
    assert harness.domain.ask_nowait(ForgetOrigin("guest@elsewhere")) == 0
    assert harness.domain.ask_nowait(ForgetOrigin("")) == 0
    assert harness.domain.ask_nowait(ForgetOrigin(PEER)) == 4
    assert (list(harness.directory.sinks), list(harness.directory.queues)) == (["ours"], ["ours"])
    assert not harness.directory.sinks["ours"].bindings
