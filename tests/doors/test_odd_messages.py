"""A message that a protocol can hardly say reaches its consumer all the same, and costs neither that nor the next.

The program and AMQP can say most, so they publish here.
"""

from datetime import UTC, datetime
from decimal import Decimal
from math import inf, nan

import pytest

from doors.amqp import open_channel
from doors.site import SINK, open_site
from doors.trials import BODIES, accept
from doors.ways import OTHER_WAYS_OUT, WAYS_OUT
from triomq import Properties
from triomq.clients import BasicProperties
from triomq.protocols import Timestamp, Typed


def nested(levels: int) -> object:
    value: object = "bottom"
    for _ in range(levels):
        value = [value]
    return value


PROPERTIES: dict[str, Properties] = {
    "long texts": Properties(
        content_type="x" * 300, message_id="y" * 1000, correlation_id="ü" * 200, type="z" * 70_000
    ),
    "control characters": Properties(correlation_id="\0\n<&>\r;=:%", type="\x1b[0m\ufffe", app_id=" ", message_id="\0"),
    "empty texts": Properties(content_type="", message_id="", type="", reply_to="", headers={"empty": ""}),
    "a user of another name": Properties(user_id="somebody else"),
    "largest priority": Properties(priority=255),
    "never expires": Properties(expiration=inf),
    "expires in ages": Properties(expiration=1e15),
    "time without a zone": Properties(timestamp=datetime(2026, 1, 1)),
    "time before all others": Properties(timestamp=datetime(1, 1, 1, tzinfo=UTC)),
    "time with a fraction": Properties(timestamp=datetime(2026, 1, 1, microsecond=5, tzinfo=UTC)),
    "headers with odd names": Properties(headers={"": 1, "a" * 300: 2, "ä b": 3, "x\0y": 4, "type": 6}),
    "headers of the broker's": Properties(
        headers={"routing-key": "x", "redelivered": 1, "exchange": "y", "address": 2}
    ),
    "odd numbers": Properties(headers={"nan": nan, "inf": -inf, "large": (1 << 64) - 1, "none": None}),
    "decimals": Properties(headers={"large": Decimal("1E+100"), "fine": Decimal("1E-300"), "nan": Decimal("nan")}),
    "odd times": Properties(headers={"old": datetime(1, 1, 1, tzinfo=UTC), "local": datetime(2026, 1, 1)}),
    "octets": Properties(headers={"octets": bytes(range(256))}),
    "deep lists": Properties(headers={"deep": nested(60)}),
    "many headers": Properties(headers={f"header-{number}": number for number in range(2000)}),
    "a large header": Properties(headers={"large": "x" * 200_000}),
    "a history that is none": Properties(headers={"x-death": "none", "x-delivery-count": "many", "CC": 5, "BCC": "x"}),
}

KEYS = ["", ".", "a" * 255, "new.ü", "*.#", "with space\t", "\0"]

OVER_AMQP: dict[str, BasicProperties] = {
    "texts that are no UTF-8": BasicProperties(type="\udcff", app_id="\udc80x", reply_to="\udcff", message_id="\udcff"),
    "content type that is no UTF-8": BasicProperties(content_type="\udcff", correlation_id="\udcfe"),
    "headers that are no UTF-8": BasicProperties(headers={"\udcff": 1, "text": Typed("S", b"\xff"), "octets": b"\xff"}),
    "an expiration with a sign": BasicProperties(expiration="+600000"),
    "time in ages": BasicProperties(timestamp=(1 << 64) - 1, headers={"then": Timestamp((1 << 64) - 1)}),
    "numbers of all sizes": BasicProperties(headers={code: Typed(code, 7) for code in "bBsuIilL"}),
    "small numbers": BasicProperties(headers={"float": Typed("f", 0.5), "void": None, "decimal": Decimal("-1.5")}),
    "tables in lists in tables": BasicProperties(headers={"a": [{"b": [{"c": [None, True, b"x", Timestamp(5)]}]}]}),
    "the fourteenth property": BasicProperties(cluster_id="x"),
    "no mode": BasicProperties(priority=0),
    "a mode of its own": BasicProperties(delivery_mode=7),
}


@pytest.mark.parametrize("out", {**WAYS_OUT, **OTHER_WAYS_OUT})
async def test_odd_properties_and_keys_cost_no_consumer(out: str) -> None:
    names = [*PROPERTIES, *map(repr, KEYS), *OVER_AMQP]
    async with open_site() as site:
        way_out = {**WAYS_OUT, **OTHER_WAYS_OUT}[out](site)
        async with way_out.open_queue(), open_channel(site) as channel, way_out.open() as consumed:
            left = iter(BODIES)
            for properties in PROPERTIES.values():
                await site.broker.publish(SINK, "new", next(left), properties)
            for key in KEYS:
                await site.broker.publish(SINK, key, next(left))
            for basic in OVER_AMQP.values():
                await channel.publish(SINK, "new", next(left), basic)
            await site.broker.publish(SINK, "new", BODIES[-1])
            bodies: list[bytes] = []
            while BODIES[-1] not in bodies:
                (message,) = await consumed.take(1)
                message.read()
                bodies.append(message.body)
                message.accept()
    assert [name for name, body in zip(names, BODIES, strict=False) if body not in bodies] == []
    assert bodies == [*BODIES[: len(names)], BODIES[-1]]


BIG = b"0123456789abcdef" * (65_536 + 1)


@pytest.mark.parametrize("out", WAYS_OUT)
async def test_bodies_come_octet_by_octet(out: str) -> None:
    bodies = [b"", b"\0", bytes(range(256)), b"\xff\xfe", b"<![CDATA[]]>&amp;", b"\r\n.\r\n", BIG, BODIES[0]]
    async with open_site() as site:
        way_out = WAYS_OUT[out](site)
        async with way_out.open_queue(), way_out.open() as consumed:
            for body in bodies:
                await site.broker.publish(SINK, "new", body)
            assert await accept(consumed, len(bodies)) == bodies
