"""Other ways into eMQP and out of it, each with all doors: topics, SUB sockets, and workers as the released ones."""

import pytest

from doors.said import SAID
from doors.site import QUEUE, open_site
from doors.trials import BODIES, accept, see_order
from doors.ways import OTHER_WAYS_IN, OTHER_WAYS_OUT, WAYS_IN, WAYS_OUT

PAIRS = [
    *[(in_, out) for in_ in OTHER_WAYS_IN for out in (*WAYS_OUT, *OTHER_WAYS_OUT)],
    *[(in_, out) for in_ in WAYS_IN for out in OTHER_WAYS_OUT if in_ != "eMQP" or out == "eMQP 0.3"],  # no sink
]


@pytest.mark.parametrize(("in_", "out"), [pytest.param(*pair, id="-to-".join(pair)) for pair in PAIRS])
async def test_messages_come_in_order(in_: str, out: str) -> None:
    async with open_site() as site:
        way_out = {**WAYS_OUT, **OTHER_WAYS_OUT}[out](site)
        way_in = {**WAYS_IN, **OTHER_WAYS_IN}[in_](site)
        await see_order(way_in, way_out)


@pytest.mark.parametrize("out", ["eMQP", "eMQP 0.3"])
@pytest.mark.parametrize("in_", [in_ for in_ in WAYS_IN if in_ != "eMQP"])  # which has no word for where answers go
async def test_answer_of_a_worker_goes_where_the_message_says_whichever_door_it_came_by(in_: str, out: str) -> None:
    async with open_site() as site:
        answers = await site.broker.declare_queue(str(SAID["reply-to"]), durable=False)
        way_out = {**WAYS_OUT, **OTHER_WAYS_OUT}[out](site)
        async with way_out.open_queue(), WAYS_IN[in_](site).open() as publish, way_out.open() as consumed:
            await publish(BODIES[:1], SAID)
            await accept(consumed, 1)
            async with answers.open_feed() as feed:
                answer = await anext(feed)
                assert answer.body == b'{"value": true}'
                assert answer.properties.correlation_id == SAID["correlation-id"]


@pytest.mark.parametrize("in_", [in_ for in_ in WAYS_IN if in_ != "eMQP"])  # whose jobs fail, and are kept as such
async def test_released_worker_gets_calls_alone_and_others_become_dead_letters(in_: str) -> None:
    async with open_site() as site:
        dead = await site.broker.declare_queue("dead", durable=False)
        await site.broker.declare_sink("letters", "fanout")
        await site.broker.sink("letters").bind(dead)
        queue = await site.broker.declare_queue(QUEUE, durable=False, dead_letter_sink="letters")
        await site.broker.sink("orders").bind(queue, "#")
        async with WAYS_IN[in_](site).open() as publish, OTHER_WAYS_OUT["eMQP 0.3"](site).open() as consumed:
            await publish([b'{"an": "object"}', b'["run"]', b"\xff", BODIES[0]], SAID)
            assert await accept(consumed, 1) == BODIES[:1]
        async with dead.open_feed() as letters:
            assert [(await anext(letters)).body for _ in range(3)] == [b'{"an": "object"}', b'["run"]', b"\xff"]
