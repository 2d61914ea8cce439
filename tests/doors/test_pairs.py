"""What is published at any door, any other can consume: all of it, in order, also slowly, or in place of one that died.

Real sockets, so real time. Where a way out cannot say that a message is done, what was out with a consumer that died is
lost with it, and nothing else.
"""

from itertools import pairwise
from typing import Any

import pytest
import trio

from doors.door import Consumed
from doors.said import SAID
from doors.site import QUEUE, open_site
from doors.ways import WAYS_IN, WAYS_OUT
from triomq.errors import TriomqError

PAIRS = [pytest.param(in_, out, id=f"{in_}-to-{out}") for in_ in WAYS_IN for out in WAYS_OUT]

pytestmark = pytest.mark.parametrize(("in_", "out"), PAIRS)

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


async def test_messages_come_in_order(in_: str, out: str) -> None:
    async with open_site() as site:
        way_out = WAYS_OUT[out](site)
        async with way_out.open_queue(), WAYS_IN[in_](site).open() as publish, way_out.open() as consumed:
            await publish(BODIES, SAID)
            assert await accept(consumed, 1000) == BODIES


async def test_slow_consumer_holds_up_nobody_and_gets_all(in_: str, out: str) -> None:
    async with open_site() as site:
        way_out = WAYS_OUT[out](site)
        async with way_out.open_queue(), WAYS_IN[in_](site).open() as publish, way_out.open() as consumed:
            await publish(BODIES[:1], SAID)
            (first,) = await consumed.take(1)
            await publish(BODIES[1:], SAID)  # while it works on that
            if way_out.settles:
                found = site.broker.directory.queues[QUEUE].statistics()
                assert found.ready >= 1000 - way_out.window
                assert found.unsettled <= way_out.window
            first.accept()
            assert [first.body, *await accept(consumed, 999)] == BODIES


async def test_consumer_that_is_killed_loses_nothing_that_it_could_give_back(in_: str, out: str) -> None:
    async with open_site() as site:
        way_in, way_out = WAYS_IN[in_](site), WAYS_OUT[out](site)
        async with way_in.open() as publish, site.through_network(), way_out.open_queue():
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
    while missing:
        numbers += [BODIES.index(body) for body in await accept(consumed, 1)]
        missing.discard(numbers[-1])
    assert len(set(numbers)) == len(numbers)
    assert sum(after < before for before, after in pairwise(numbers)) <= 1  # each of the two parts is in order


async def require_end(consumed: Consumed[Any]) -> None:
    """See that all comes that was not on its way to the other one."""
    (first,) = await accept(consumed, 1)
    number = BODIES.index(first)
    assert KILLED_AFTER <= number <= 500
    assert await accept(consumed, 999 - number) == BODIES[number + 1 :]
