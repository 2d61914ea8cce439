import math

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from triomq.actors import Mailbox
from triomq.actors.mailbox import BATCH
from triomq.errors import MailboxFull


async def test_items_come_in_batches_in_their_order() -> None:
    mailbox: Mailbox[int] = Mailbox(limit=math.inf)
    for number in range(BATCH + 10):
        mailbox.send_nowait(number)
    assert await mailbox.get_batch() == list(range(BATCH))
    assert await mailbox.get_batch() == list(range(BATCH, BATCH + 10))


async def test_batch_always_costs_one_checkpoint() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.send_nowait(1)
    with trio.testing.assert_checkpoints():
        await mailbox.get_batch()


async def test_cancelled_reader_takes_nothing() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.send_nowait(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.get_batch()
    assert await mailbox.get_batch() == [1]
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.get_batch()
    assert mailbox.statistics().tasks_waiting_receive == 0


async def test_waiting_reader_is_woken() -> None:
    mailbox: Mailbox[int] = Mailbox()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def reader() -> None:
            assert await mailbox.get_batch() == [1, 2]

        await trio.testing.wait_all_tasks_blocked()
        assert mailbox.statistics().tasks_waiting_receive == 1
        mailbox.send_nowait(1)
        mailbox.send_nowait(2)


async def test_only_one_task_may_read() -> None:
    mailbox: Mailbox[int] = Mailbox()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.get_batch)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await mailbox.get_batch()
        nursery.cancel_scope.cancel()


async def test_full_mailbox_makes_senders_wait_and_serves_them_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox(limit=1)
    await mailbox.send(0)
    with pytest.raises(trio.WouldBlock):
        mailbox.send_nowait(9)
    async with trio.open_nursery() as nursery:
        for number in (1, 2):
            nursery.start_soon(mailbox.send, number)
            await trio.testing.wait_all_tasks_blocked()
        assert mailbox.statistics().tasks_waiting_send == 2
        assert len(mailbox) == 3
        assert [await mailbox.get_batch() for _ in range(3)] == [[0], [1], [2]]


async def test_sender_that_gives_up_leaves_nothing_behind() -> None:
    mailbox: Mailbox[int] = Mailbox(limit=1)
    await mailbox.send(0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.send, 1)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert await mailbox.get_batch() == [0]
    assert len(mailbox) == 0


async def test_full_mailbox_rejects() -> None:
    mailbox: Mailbox[int] = Mailbox(limit=1, overflow="reject")
    await mailbox.send(0)
    with pytest.raises(MailboxFull, match="holds 1 items, its limit"):
        mailbox.send_nowait(1)
    with pytest.raises(MailboxFull):
        await mailbox.send(1)
    assert await mailbox.get_batch() == [0]


async def test_full_mailbox_drops_its_oldest() -> None:
    dropped: list[int] = []
    mailbox: Mailbox[int] = Mailbox(limit=2, overflow="drop_oldest", on_drop=dropped.append)
    for number in range(4):
        mailbox.send_nowait(number)
    assert await mailbox.get_batch() == [2, 3]
    assert dropped == [0, 1]
    assert mailbox.statistics().dropped == 2


async def test_full_mailbox_drops_the_newest() -> None:
    dropped: list[int] = []
    mailbox: Mailbox[int] = Mailbox(limit=2, overflow="drop_newest", on_drop=dropped.append)
    for number in range(4):
        mailbox.send_nowait(number)
    assert await mailbox.get_batch() == [0, 1]
    assert dropped == [2, 3]


async def test_fullness_is_told_once_until_there_is_room() -> None:
    reported: list[None] = []
    mailbox: Mailbox[int] = Mailbox(limit=1, overflow="drop_newest", on_full=lambda: reported.append(None))
    for number in range(4):
        mailbox.send_nowait(number)
    assert len(reported) == 1
    await mailbox.get_batch()
    for number in range(4):
        mailbox.send_nowait(number)
    assert len(reported) == 2


async def test_closed_mailbox_drains_and_then_ends() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.send_nowait(1)
    mailbox.close()
    with pytest.raises(trio.ClosedResourceError):
        mailbox.send_nowait(2)
    assert await mailbox.get_batch() == [1]
    with pytest.raises(trio.EndOfChannel):
        await mailbox.get_batch()


async def test_closing_ends_the_wait_for_room() -> None:
    mailbox: Mailbox[int] = Mailbox(limit=1)
    await mailbox.send(0)

    async def sender() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await mailbox.send(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender)
        nursery.start_soon(sender)
        await trio.testing.wait_all_tasks_blocked()
        mailbox.close()


async def test_halted_mailbox_ends_at_once_and_its_items_stay() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.send_nowait(1)
    mailbox.halt()
    mailbox.send_nowait(2)
    with pytest.raises(trio.EndOfChannel):
        await mailbox.get_batch()
    mailbox.reopen()
    assert await mailbox.get_batch() == [1, 2]


async def test_finishing_mailbox_drains_and_ends_but_takes_more_for_later() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.send_nowait(1)
    mailbox.finish()
    assert await mailbox.get_batch() == [1]
    with pytest.raises(trio.EndOfChannel):
        await mailbox.get_batch()
    mailbox.send_nowait(2)
    mailbox.reopen()
    assert await mailbox.get_batch() == [2]


async def test_interrupted_reader_comes_back_empty_handed() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.interrupt()
    assert await mailbox.get_batch() == []


async def test_the_rest_of_a_batch_goes_back_to_the_head() -> None:
    mailbox: Mailbox[int] = Mailbox(limit=3)
    for number in range(3):
        mailbox.send_nowait(number)
    batch = await mailbox.get_batch()
    mailbox.send_nowait(3)
    mailbox.put_back(batch[1:])
    mailbox.force(4)
    assert await mailbox.get_batch() == [1, 2, 3, 4]
    mailbox.send_nowait(5)
    assert mailbox.take_all() == [5]


def test_mailbox_that_could_take_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="could never take anything"):
        Mailbox(limit=0)


@given(st.lists(st.integers(1, 40), max_size=20), st.integers(1, 30))
def test_whatever_is_sent_arrives_once_and_in_order(bursts: list[int], limit: int) -> None:
    async def main() -> None:
        mailbox: Mailbox[int] = Mailbox(limit=limit)
        got: list[int] = []

        async def read() -> None:
            while True:
                try:
                    got.extend(await mailbox.get_batch())
                except trio.EndOfChannel:
                    return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            sent = 0
            for burst in bursts:
                for _ in range(burst):
                    await mailbox.send(sent)
                    sent += 1
            mailbox.close()
        assert got == list(range(sent))

    trio.run(main)
