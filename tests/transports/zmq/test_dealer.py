"""A dealer that is told when its connection is lost."""

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
import zmq

from ports import free_port
from triomq.transports.zmq import Dealer, Router, close_context, make_context


@pytest.fixture
async def context() -> "AsyncIterator[zmq.Context[zmq.Socket[bytes]]]":
    context = make_context()
    yield context
    await close_context(context)


async def test_task_that_waits_for_messages_is_told_of_the_loss_behind_what_had_come(
    context: "zmq.Context[zmq.Socket[bytes]]", nursery: trio.Nursery
) -> None:
    def answer(found: object) -> None:
        assert isinstance(found, dict)
        for identity, _ in found:
            router.send_to(identity, [b"answer"])

    router = Router(context, answer)
    address = router.bind(f"tcp://127.0.0.1:{free_port()}")
    nursery.start_soon(router.run)
    dealer = Dealer(context, told_of_loss=True)
    dealer.connect(address)
    nursery.start_soon(dealer.watch)
    with trio.fail_after(30):
        await dealer.wait_connected()
        assert dealer.send_nowait([b"question"])
        assert await dealer.receive() == [[b"answer"]]
        nursery.start_soon(close_soon, router)
        with pytest.raises(trio.BrokenResourceError):
            await dealer.receive()
        with pytest.raises(trio.BrokenResourceError):
            await dealer.wait_connected()
    dealer.close()
    with pytest.raises(trio.ClosedResourceError):
        await dealer.receive()


async def close_soon(router: Router) -> None:
    await trio.testing.wait_all_tasks_blocked()
    router.close()


async def test_closing_ends_the_task_that_watches(context: "zmq.Context[zmq.Socket[bytes]]") -> None:
    dealer = Dealer(context, told_of_loss=True)
    dealer.connect(f"tcp://127.0.0.1:{free_port()}")
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dealer.watch)
            await trio.testing.wait_all_tasks_blocked()
            dealer.close()
