"""What is tried with a way in and a way out: a thousand messages in order, a slow consumer, and one that is killed.

Real sockets, so real time. Where a way out cannot say that a message is done, what was out with a consumer that died is
lost with it, and nothing else.
"""

from itertools import pairwise
from typing import Any

import trio

from doors.door import Consumed, WayIn, WayOut
from doors.said import SAID
from doors.site import QUEUE
from triomq.errors import TriomqError

BODIES = [b'["run", {"path": "shop", "callable": "pack", "args": [%d]}]' % number for number in range(1000)]

KILLED_AFTER = 250
"""Messages that a consumer has accepted when it dies; no multiple of a window, so that some are out with it."""


async def accept(consumed: Consumed[Any], count: int) -> list[bytes]:
    """Accept so many messages, one by one."""
    bodies = []
    for _ in range(count):
        (message,) = await consumed.take(1)
        bodies.append(message.body)
        message.accept()
    return bodies


async def see_order(way_in: WayIn, way_out: WayOut) -> None:
    """See that all messages come to one consumer, in order."""
    async with way_out.open_queue(), way_in.open() as publish, way_out.open() as consumed:
        await publish(BODIES, SAID)
        assert await accept(consumed, 1000) == BODIES


async def see_slow(way_in: WayIn, way_out: WayOut) -> None:
    """See that all messages are published while their consumer works on the first, and that it gets the others then."""
    async with way_out.open_queue(), way_in.open() as publish, way_out.open() as consumed:
        await publish(BODIES[:1], SAID)
        (first,) = await consumed.take(1)
        await publish(BODIES[1:], SAID)  # while it works on that
        if way_out.settles:
            found = way_out.site.broker.directory.queues[QUEUE].statistics()
            assert found.ready >= 1000 - way_out.window
            assert found.unsettled <= way_out.window
        first.accept()
        assert [first.body, *await accept(consumed, 999)] == BODIES


async def see_killed(way_in: WayIn, way_out: WayOut) -> None:
    """See that a consumer that is killed in the middle loses nothing that it could give back."""
    async with way_in.open() as publish, way_out.site.through_network(), way_out.open_queue():
        await publish(BODIES[:500], SAID)
        done: list[bytes] = []
        with trio.CancelScope() as scope:
            try:
                async with way_out.open() as consumed:
                    done += await accept(consumed, KILLED_AFTER)
                    way_out.kill()
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
            except TriomqError:
                pass  # it has noticed
        assert done == BODIES[:KILLED_AFTER]
        async with way_out.open() as consumed:
            await publish(BODIES[500:], SAID)
            await (require_rest if way_out.settles else require_end)(consumed)


async def require_rest(consumed: Consumed[Any]) -> None:
    """See that all comes that was not accepted: what was out with the other one as soon as it is known to be dead."""
    missing = set(range(KILLED_AFTER, 1000))
    numbers: list[int] = []
    marks: dict[int, bool | None] = {}
    while missing:
        (message,) = await consumed.take(1)
        message.accept()
        numbers.append(BODIES.index(message.body))
        marks[numbers[-1]] = message.again
        missing.discard(numbers[-1])
    assert len(marks) == len(numbers)
    assert sum(after < before for before, after in pairwise(numbers)) <= 1  # each of the two parts is in order
    assert marks.get(KILLED_AFTER - 1) is not False  # it was out, and what its consumer said of it never left
    assert marks[999] is not True


async def require_end(consumed: Consumed[Any]) -> None:
    """See that all comes that was not on its way to the other one."""
    (first,) = await accept(consumed, 1)
    number = BODIES.index(first)
    assert KILLED_AFTER <= number <= 500
    assert await accept(consumed, 999 - number) == BODIES[number + 1 :]
