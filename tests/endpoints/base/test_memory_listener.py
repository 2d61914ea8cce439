"""Clients of this program on a router in memory; driven by the ROUTER toy's client."""

from functools import partial

import pytest
import trio
import trio.testing

from endpoints.toys.router import RouterToyClient
from triomq.actors import ChildSpec
from triomq.app import Broker, open_broker
from triomq.endpoints import BrokerContext, Endpoint
from triomq.endpoints.base.memory_listener import MemoryListener
from triomq.transports import MemoryAddress, MemoryDealer
from triomq.transports.zmq import Frames


class CountingClient(RouterToyClient):
    turns = 0

    def work_off(self) -> None:
        CountingClient.turns += 1

    def handle(self, frames: Frames) -> None:
        super().handle(frames)
        self.gathered.append(frames)


class MemoryToys(Endpoint):
    def __init__(self, context: BrokerContext, address: MemoryAddress) -> None:
        super().__init__(context, MemoryListener(address, partial(CountingClient, context=context)))


async def start(broker: Broker) -> tuple[MemoryAddress, MemoryToys]:
    address = MemoryAddress()
    ref = await broker.endpoints.start_child(ChildSpec(lambda: MemoryToys(broker.context, address), name="toys"))
    assert isinstance(ref.actor, MemoryToys)
    return address, ref.actor


async def connect(address: MemoryAddress) -> MemoryDealer:
    dealer = MemoryDealer(address, b"me")
    await dealer.wait_connected()
    dealer.send_nowait((b"HELLO", b"0"))
    assert await dealer.receive() == [(b"OK", b"0")]
    return dealer


async def test_code_of_the_program_may_do_everything_where_there_are_no_users_at_all() -> None:
    async with open_broker(users={}) as broker:
        address, toys = await start(broker)
        dealer = await connect(address)
        dealer.send_nowait((b"QUEUE", b"1", b"q"))
        dealer.send_nowait((b"PUB", b"2", b"", b"q", b"no", b"", b"body"))
        assert await dealer.receive() == [(b"OK", b"1"), (b"OK", b"2")]
        assert [ref.actor.user for ref in toys.children.values() if isinstance(ref.actor, RouterToyClient)] == [""]
        assert (await broker.queue("q").statistics()).ready == 1


@pytest.mark.parametrize(("size", "turns"), [(10, 1), (200_000, 5)])
async def test_small_messages_are_worked_off_in_one_turn_and_large_ones_in_several(size: int, turns: int) -> None:
    async with open_broker() as broker:
        address, _ = await start(broker)
        dealer = await connect(address)
        dealer.send_nowait((b"QUEUE", b"1", b"q"))
        await dealer.receive()
        CountingClient.turns = 0
        for number in range(10):
            dealer.send_nowait((b"PUB", b"%d" % number, b"", b"q", b"no", b"", bytes(size)))
        await trio.testing.wait_all_tasks_blocked()
        assert CountingClient.turns == turns
        assert len(await dealer.receive()) == 10


async def test_peer_that_closes_is_a_client_that_has_gone() -> None:
    async with open_broker() as broker:
        address, toys = await start(broker)
        dealer = await connect(address)
        dealer.close()
        await trio.testing.wait_all_tasks_blocked()
        assert not toys.children


async def test_client_that_is_let_go_hears_its_last_words_and_that_they_were_the_last() -> None:
    async with open_broker() as broker:
        address, _ = await start(broker)
        dealer = await connect(address)
        dealer.send_nowait((b"QUIT", b"1"))
        assert await dealer.receive() == [(b"BYE", b"as you wish")]
        with pytest.raises(trio.BrokenResourceError):
            await dealer.receive()


async def test_endpoint_that_goes_lets_nobody_come() -> None:
    async with open_broker(drain=0.1) as broker:
        address, toys = await start(broker)
        await connect(address)
        await broker.drain()
        assert not address.is_bound
        assert toys.is_stopping
