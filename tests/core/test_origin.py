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

from .cast import House, open_house

PEER = "guest@there"
JOIN = make_binding("s", Target.QUEUE, "q", "k")


def make_all(house: House, origin: str = PEER) -> None:
    house.domain.ask_nowait(DeclareSink("s", SinkOptions(), house.session, origin))
    house.domain.ask_nowait(DeclareQueue("q", QueueOptions(), house.session, origin))
    house.domain.ask_nowait(Bind(JOIN, house.session, origin))


def delete_all(house: House, origin: str) -> None:
    house.domain.ask_nowait(Unbind(JOIN, house.session, origin))
    house.domain.ask_nowait(DeleteQueue("q", house.session, origin=origin))
    house.domain.ask_nowait(DeleteSink("s", origin=origin))


@pytest.mark.parametrize("whose", ["", PEER])
async def test_who_had_it_made_may_delete_it(whose: str) -> None:
    async with open_house() as house:
        make_all(house, whose)
        delete_all(house, whose)
        assert not house.directory.sinks
        assert not house.directory.queues


@pytest.mark.parametrize(("whose", "asker"), [(PEER, ""), ("", PEER), (PEER, "guest@elsewhere")])
async def test_nobody_else_may(whose: str, asker: str) -> None:
    async with open_house() as house:
        make_all(house, whose)
        for request in (
            Unbind(JOIN, house.session, asker),
            DeleteQueue("q", house.session, origin=asker),
            DeleteSink("s", origin=asker),
        ):
            with pytest.raises(ForeignResource, match=whose or asker):
                house.domain.ask_nowait(request)
        assert JOIN in house.directory.sinks["s"].bindings


async def test_what_is_there_already_stays_whose_it_is() -> None:
    async with open_house() as house:
        make_all(house, "")
        house.domain.ask_nowait(DeclareSink("s", SinkOptions(), house.session, PEER))
        house.domain.ask_nowait(Bind(JOIN, house.session, PEER))
        assert (house.directory.sinks["s"].origin, house.directory.queues["q"].origin) == ("", "")
        assert house.directory.sinks["s"].origin_of(JOIN) == ""


@pytest.mark.parametrize(("first", "second"), [("", PEER), (PEER, ""), (PEER, "guest@elsewhere")])
async def test_queue_of_a_name_that_somebody_else_has_told_is_refused_whoever_spoke_first(
    first: str, second: str
) -> None:
    async with open_house() as house:
        house.domain.ask_nowait(DeclareQueue("q", QueueOptions(), house.session, first))
        with pytest.raises(ForeignName, match=first or second):
            house.domain.ask_nowait(DeclareQueue("q", QueueOptions(), house.session, second))
        house.domain.ask_nowait(DeclareQueue("q", QueueOptions(), house.session, first))
        assert house.directory.queues["q"].origin == first


async def test_a_peer_s_binding_between_things_of_our_own_is_the_peer_s() -> None:
    async with open_house() as house:
        house.sink("s")
        house.queue("q")
        house.domain.ask_nowait(Bind(JOIN, house.session, PEER))
        with pytest.raises(ForeignResource):
            house.domain.ask_nowait(Unbind(JOIN, house.session))
        house.delete("q")  # which is our own, so it goes with all bindings
        assert not house.directory.sinks["s"].bindings


class Listener(InPlaceActor):
    def __init__(self) -> None:
        self.origins: list[str] = []

    def changed(self, message: Changed) -> None:
        self.origins.append(message.origin)


async def test_an_observer_hears_whose_it_is() -> None:
    async with open_house() as house:
        listener = Listener()
        house.directory.observers.add(house.start(listener))
        make_all(house)
        house.queue("ours")
        house.bind("s", "ours")
        house.domain.ask_nowait(DeleteSink("s", origin=PEER))
        house.domain.ask_nowait(DeleteQueue("q", house.session, origin=PEER))
        assert listener.origins == [PEER, PEER, PEER, "", "", PEER, "", PEER, PEER]


async def test_a_peer_can_be_forgotten() -> None:
    async with open_house() as house:
        make_all(house)
        house.sink("ours")
        house.queue("ours")
        house.bind("s", "ours")
        house.domain.ask_nowait(Bind(make_binding("ours", Target.QUEUE, "ours"), house.session, PEER))
        assert house.domain.ask_nowait(ForgetOrigin("guest@elsewhere")) == 0
        assert house.domain.ask_nowait(ForgetOrigin("")) == 0
        assert house.domain.ask_nowait(ForgetOrigin(PEER)) == 4
        assert (list(house.directory.sinks), list(house.directory.queues)) == (["ours"], ["ours"])
        assert not house.directory.sinks["ours"].bindings
