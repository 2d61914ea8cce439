"""What one door publishes, any other can consume: all of it, in order, also slowly, or in place of a killed one."""

import pytest

from doors.site import open_site
from doors.trials import see_killed, see_order, see_slow
from doors.ways import WAYS_IN, WAYS_OUT

PAIRS = [pytest.param(in_, out, id=f"{in_}-to-{out}") for in_ in WAYS_IN for out in WAYS_OUT]

pytestmark = pytest.mark.parametrize(("in_", "out"), PAIRS)


async def test_messages_come_in_order(in_: str, out: str) -> None:
    async with open_site() as site:
        await see_order(WAYS_IN[in_](site), WAYS_OUT[out](site))


async def test_slow_consumer_holds_up_nobody_and_gets_all(in_: str, out: str) -> None:
    async with open_site() as site:
        await see_slow(WAYS_IN[in_](site), WAYS_OUT[out](site))


async def test_consumer_that_is_killed_loses_nothing_that_it_could_give_back(in_: str, out: str) -> None:
    async with open_site() as site:
        await see_killed(WAYS_IN[in_](site), WAYS_OUT[out](site))
