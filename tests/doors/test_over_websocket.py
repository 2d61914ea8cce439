"""The doors that can be spoken to over WebSocket, among each other and with the program: the same as over TCP."""

import pytest

from doors.site import open_site
from doors.trials import see_killed, see_order, see_slow
from doors.ways import WAYS_IN, WAYS_OUT
from triomq import WebSocket

_OVER = ("AMQP", "DMP", "MicroMsg2")

PAIRS = [(in_, out) for in_ in (*_OVER, "program") for out in (*_OVER, "program") if (in_, out) != ("program",) * 2]

pytestmark = pytest.mark.parametrize(("in_", "out"), [pytest.param(*pair, id="-to-".join(pair)) for pair in PAIRS])


async def test_messages_come_in_order(in_: str, out: str) -> None:
    async with open_site(WebSocket()) as site:
        await see_order(WAYS_IN[in_](site), WAYS_OUT[out](site))


async def test_slow_consumer_holds_up_nobody_and_gets_all(in_: str, out: str) -> None:
    async with open_site(WebSocket()) as site:
        await see_slow(WAYS_IN[in_](site), WAYS_OUT[out](site))


async def test_consumer_that_is_killed_loses_nothing_that_it_could_give_back(in_: str, out: str) -> None:
    async with open_site(WebSocket()) as site:
        await see_killed(WAYS_IN[in_](site), WAYS_OUT[out](site))
