"""A router and its dealers in memory."""

import pytest
import trio
import trio.testing

from triomq.errors import Disconnected
from triomq.transports import MemoryAddress, MemoryDealer, MemoryRouter
from triomq.transports.memory import HIGH_WATER


class Routed:
    """A router, and what it has heard."""

    def __init__(self, address: MemoryAddress) -> None:
        self.batches: list[tuple[bytes, list[bytes]]] = []
        self.drained: list[bytes] = []
        self.gone: list[bytes] = []
        self.router = MemoryRouter(self._received, drained=self.drained.append, gone=self.gone.append)
        address.bind(self.router)

    def _received(self, identity: bytes, messages: object) -> None:
        assert isinstance(messages, list)
        self.batches.append((identity, [frames[0] for frames in messages]))


@pytest.fixture
def address() -> MemoryAddress:
    return MemoryAddress()


@pytest.fixture
async def routed(address: MemoryAddress, nursery: trio.Nursery) -> Routed:
    routed = Routed(address)
    nursery.start_soon(routed.router.run)
    return routed


async def connected(address: MemoryAddress, identity: bytes = b"a") -> MemoryDealer:
    dealer = MemoryDealer(address, identity)
    await dealer.wait_connected()
    return dealer


async def test_messages_that_are_sent_together_are_one_batch(address: MemoryAddress, routed: Routed) -> None:
    dealer, other = await connected(address), await connected(address, b"b")
    for number in range(3):
        assert dealer.send_nowait([b"%d" % number])
        assert other.send_nowait([b"other"])
    await trio.testing.wait_all_tasks_blocked()
    assert routed.batches == [(b"a", [b"0", b"1", b"2"]), (b"b", [b"other"] * 3)]


async def test_peer_with_much_to_say_lets_others_have_their_turn(address: MemoryAddress, routed: Routed) -> None:
    dealer, other = await connected(address), await connected(address, b"b")
    while dealer.send_nowait([b"x"]):
        pass
    other.send_nowait([b"y"])
    await trio.testing.wait_all_tasks_blocked()
    assert [(identity, len(bodies)) for identity, bodies in routed.batches[:2]] == [(b"a", 256), (b"b", 1)]
    assert sum(len(bodies) for identity, bodies in routed.batches) == 1001


async def test_dealer_waits_for_room(address: MemoryAddress, nursery: trio.Nursery) -> None:
    routed = Routed(address)  # its task does not run yet
    dealer = await connected(address)
    while dealer.send_nowait([b"x"]):
        pass
    nursery.start_soon(routed.router.run)
    await dealer.wait_connected()
    assert dealer.send_nowait([b"x"])


async def test_dealer_takes_all_that_has_come(address: MemoryAddress, routed: Routed) -> None:
    dealer = await connected(address)
    assert routed.router.send_all(b"a", [(b"1",), (b"2",)])
    assert await dealer.receive() == [(b"1",), (b"2",)]
    assert not routed.router.send_all(b"nobody", [(b"1",)])


async def test_messages_beside_the_first_ones_count_until_they_are_taken(
    address: MemoryAddress, routed: Routed, autojump_clock: trio.testing.MockClock
) -> None:
    dealer = await connected(address)
    routed.router.send_all(b"a", [(b"x",)] * HIGH_WATER)
    assert routed.router.unsent(b"a") == 0
    routed.router.send_all(b"a", [(b"xy", b"z")] * 2)
    assert routed.router.unsent(b"a") == 6
    await trio.sleep(5)
    assert routed.router.stuck_for(b"a", trio.current_time()) == pytest.approx(5)
    assert len(await dealer.receive()) == HIGH_WATER + 2
    assert (routed.router.unsent(b"a"), routed.router.stuck_for(b"a", trio.current_time())) == (0, 0)
    assert routed.drained == [b"a"]


async def test_end_of_a_dealer_is_announced_behind_its_last_words(address: MemoryAddress, routed: Routed) -> None:
    dealer = await connected(address)
    dealer.send_nowait([b"bye"])
    dealer.close()
    await trio.testing.wait_all_tasks_blocked()
    assert (routed.batches, routed.gone) == ([(b"a", [b"bye"])], [b"a"])
    assert not routed.router.send_all(b"a", [(b"x",)])
    with pytest.raises(trio.ClosedResourceError):
        dealer.send_nowait([b"x"])
    with pytest.raises(trio.ClosedResourceError):
        await dealer.receive()


async def test_end_of_a_router_is_announced_behind_its_last_words_and_the_next_one_is_found(
    address: MemoryAddress, routed: Routed, nursery: trio.Nursery
) -> None:
    dealer = await connected(address)
    routed.router.send_all(b"a", [(b"bye",)])
    address.unbind(routed.router)
    routed.router.close()
    assert not dealer.send_nowait([b"x"])
    assert await dealer.receive() == [(b"bye",)]
    with pytest.raises(trio.BrokenResourceError):
        await dealer.receive()
    following = Routed(address)
    nursery.start_soon(following.router.run)
    await dealer.wait_connected()
    dealer.send_nowait([b"again"])
    await trio.testing.wait_all_tasks_blocked()
    assert following.batches == [(b"a", [b"again"])]


async def test_forgotten_dealer_connects_again_when_it_has_heard_of_it(address: MemoryAddress, routed: Routed) -> None:
    dealer = await connected(address)
    dealer.send_nowait([b"too late"])
    routed.router.forget(b"a")
    with trio.move_on_after(0) as hurry:
        await dealer.wait_connected()
    assert hurry.cancelled_caught
    with pytest.raises(trio.BrokenResourceError):
        await dealer.receive()
    await dealer.wait_connected()
    assert dealer.send_nowait([b"again"])
    await trio.testing.wait_all_tasks_blocked()
    assert routed.batches == [(b"a", [b"again"])]


async def test_dealer_that_waits_hears_that_no_router_will_come(address: MemoryAddress) -> None:
    address.close()
    with pytest.raises(Disconnected):
        await MemoryDealer(address, b"a").wait_connected()
