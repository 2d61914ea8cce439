"""Channels: publishing, get, limits, refusals and their errors."""

import pytest
import trio

from triomq.clients import AMQPChannel, AMQPConnection, BasicProperties
from triomq.errors import (
    AccessRefused,
    Disconnected,
    LimitExceeded,
    LocalProtocolError,
    NotFound,
    PreconditionFailed,
    TriomqError,
    Unroutable,
)


async def test_published_message_can_be_fetched(channel: AMQPChannel, queue: str) -> None:
    properties = BasicProperties(type="t", headers={"n": 1}, message_id="7")
    for size in (0, 1, 20_000, 300_000):
        await channel.publish("", queue, b"x" * size, properties)
    for left, size in enumerate((0, 1, 20_000, 300_000)):
        fetched = await channel.get(queue)
        assert fetched is not None
        assert fetched.body == b"x" * size
        assert (fetched.exchange, fetched.routing_key, fetched.redelivered) == ("", queue, False)
        assert fetched.properties.headers == {"n": 1}
        assert (fetched.properties.delivery_mode, fetched.properties.message_id) == (2, "7")
        assert fetched.remaining == 3 - left
        fetched.accept()
    assert await channel.get(queue) is None


async def test_messages_are_persistent_unless_they_say_otherwise(channel: AMQPChannel, queue: str) -> None:
    properties = BasicProperties(delivery_mode=1)
    await channel.publish("", queue, b"", persistent=False)
    await channel.publish("", queue, b"", properties)
    await channel.publish("", queue, b"")
    await channel.publish("", queue, b"", BasicProperties(type="t"), persistent=False)
    modes = []
    for _ in range(4):
        fetched = await channel.get(queue, no_ack=True)
        assert fetched is not None
        assert fetched.settled
        modes.append(fetched.properties.delivery_mode)
    assert modes == [None, 1, 2, None]


async def test_headers_may_change_between_two_publishes(channel: AMQPChannel, queue: str) -> None:
    properties = BasicProperties(headers={"n": 1})
    await channel.publish("", queue, b"", properties)
    assert properties.headers is not None
    properties.headers["n"] = 2
    await channel.publish("", queue, b"", properties)
    found = [await channel.get(queue, no_ack=True) for _ in range(2)]
    assert [one.properties.headers for one in found if one] == [{"n": 1}, {"n": 2}]


async def test_unsettled_message_comes_again(connection: AMQPConnection, channel: AMQPChannel, queue: str) -> None:
    await channel.publish("", queue, b"a")
    async with connection.open_channel() as other:
        assert await other.get(queue) is not None
    again = await channel.get(queue)
    assert again is not None
    assert again.redelivered
    again.requeue()
    once_more = await channel.get(queue)
    assert once_more is not None
    once_more.reject()
    assert await channel.get(queue) is None


async def test_mandatory_message_that_no_queue_takes_raises(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(Unroutable, match=r"default exchange with routing key 'nowhere' \(312 NO_ROUTE\)"):
        await channel.publish("", "nowhere", b"x", mandatory=True)
    await channel.publish("", "nowhere", b"x")
    await channel.publish("", queue, b"x", mandatory=True)


async def test_each_of_many_publishers_hears_of_its_own_message(channel: AMQPChannel, queue: str) -> None:
    confirmed: dict[int, bool] = {}

    async def publish(number: int) -> None:
        try:
            await channel.publish("", queue if number % 3 else "nowhere", b"%d" % number, mandatory=True)
        except Unroutable:
            confirmed[number] = False
        else:
            confirmed[number] = True

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(publish, number)
    assert confirmed == {number: bool(number % 3) for number in range(100)}


async def test_full_queue_refuses(channel: AMQPChannel) -> None:
    full = await channel.declare_queue(exclusive=True, arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    with pytest.raises(LimitExceeded, match=r"nack.*raise its limit"):
        await channel.publish("", full.name, b"x")
    await channel.publish("", "nowhere", b"x")


async def test_refusal_is_raised_by_its_call_and_by_whatever_comes_next(connection: AMQPConnection, queue: str) -> None:
    async with connection.open_channel() as channel:
        with pytest.raises(NotFound, match="404 NOT_FOUND - no exchange 'nowhere'"):
            await channel.bind(queue, "nowhere")
        with pytest.raises(NotFound, match="nowhere"):
            await channel.publish("", queue, b"x")
        with pytest.raises(NotFound, match="nowhere"):
            await channel.get(queue)
    async with connection.open_channel() as channel:
        await channel.publish("", queue, b"x")


async def test_publish_to_a_missing_exchange_is_refused(channel: AMQPChannel) -> None:
    with pytest.raises(NotFound):
        await channel.publish("nowhere", "", b"x")


async def test_refusal_that_was_not_raised_yet_is_raised_where_the_block_ends(
    connection: AMQPConnection, queue: str
) -> None:
    async def publish_to_nowhere() -> None:
        async with connection.open_channel() as other, connection.open_channel(confirms=False) as channel:
            await channel.publish("nowhere", "", b"x")
            await other.get(queue)  # by its answer the refusal has come

    with pytest.raises(NotFound):
        await publish_to_nowhere()


async def test_error_of_the_block_comes_out_as_it_is(connection: AMQPConnection) -> None:
    with pytest.raises(KeyError):
        async with connection.open_channel():
            raise KeyError


async def test_returned_messages_can_be_read_where_nothing_is_confirmed(connection: AMQPConnection) -> None:
    async with connection.open_channel(confirms=False) as channel:
        await channel.publish("", "nowhere", b"x", BasicProperties(type="t"), mandatory=True)
        with trio.fail_after(60):
            returned = await channel.returns.receive()
    assert (returned.code, returned.exchange, returned.routing_key, returned.body) == (312, "", "nowhere", b"x")
    assert returned.properties.type == "t"
    assert "NO_ROUTE" in repr(returned)


async def test_returned_messages_that_nobody_reads_are_counted(connection: AMQPConnection, queue: str) -> None:
    async with connection.open_channel(confirms=False) as channel:
        for _ in range(1100):
            await channel.publish("", "nowhere", b"", mandatory=True)
        await channel.get(queue)
        assert channel.statistics().returns_dropped == 100


async def test_recover_gives_everything_back(channel: AMQPChannel, queue: str) -> None:
    for body in (b"a", b"b", b"c"):
        await channel.publish("", queue, body)
    first, second = await channel.get(queue), await channel.get(queue)
    assert first is not None
    assert second is not None
    first.accept()
    await channel.recover()
    second.accept()  # too late, and no harm
    again = [await channel.get(queue) for _ in range(3)]
    assert [(one.body, one.redelivered) for one in again if one] == [(b"b", True), (b"c", False)]
    assert channel.statistics().unsettled == 2


async def test_shared_limit_holds_for_all_consumers_of_a_channel(channel: AMQPChannel, queue: str) -> None:
    await channel.qos(2, shared=True)
    for _ in range(5):
        await channel.publish("", queue, b"")
    async with channel.consume(queue, prefetch=0) as one, channel.consume(queue, prefetch=0) as other:
        with trio.fail_after(60):
            while channel.statistics().unsettled < 2:  # noqa: ASYNC110 (no event to wait for)
                await trio.sleep(0.01)
        for deliveries in (one, other):
            with trio.move_on_after(0.2):
                async for _ in deliveries:
                    pass
        assert channel.statistics().unsettled == 2


async def test_flow_can_be_asked_for(channel: AMQPChannel) -> None:
    assert await channel.flow(True)


async def test_the_broker_tells_who_may_not(channel: AMQPChannel) -> None:
    with pytest.raises(AccessRefused):
        await channel.declare_queue("amq.mine")


async def test_channel_that_was_left_cannot_be_used(connection: AMQPConnection) -> None:
    async with connection.open_channel() as channel:
        pass
    with pytest.raises(LocalProtocolError, match="open another"):
        await channel.get("q")
    with pytest.raises(LocalProtocolError):
        await channel.publish("", "q", b"")


async def test_name_that_is_too_long_harms_nothing(channel: AMQPChannel, queue: str) -> None:
    with pytest.raises(LocalProtocolError):
        await channel.publish("", "k" * 256, b"")
    with pytest.raises(LocalProtocolError):
        await channel.declare_queue("q" * 256)
    await channel.publish("", queue, b"x")
    assert channel.statistics().unconfirmed == 0


async def test_thousands_of_channels_may_come_and_go(connection: AMQPConnection) -> None:
    for _ in range(300):
        async with connection.open_channel(confirms=False):
            pass
    async with trio.open_nursery() as nursery:

        async def one() -> None:
            async with connection.open_channel() as channel:
                await channel.publish("", "nowhere", b"")

        for _ in range(100):
            nursery.start_soon(one)
    assert connection.statistics().channels == 0


async def test_confirmless_publisher_lets_others_run(connection: AMQPConnection) -> None:
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await trio.lowlevel.checkpoint()

    async with connection.open_channel(confirms=False) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(other)
        for _ in range(1000):
            await channel.publish("", "nowhere", b"")
        nursery.cancel_scope.cancel()
    assert others > 5


async def test_declaring_differently_is_refused(connection: AMQPConnection, queue: str) -> None:
    errors: list[TriomqError] = []
    for arguments in ({"auto_delete": True}, {"arguments": {"x-max-length": 5}}):
        async with connection.open_channel() as channel:
            try:
                await channel.declare_queue(queue, exclusive=True, **arguments)  # type: ignore[arg-type]
            except PreconditionFailed as error:
                errors.append(error)
    assert len(errors) == 2


async def test_connection_that_was_left_cannot_be_used(channel: AMQPChannel, connection: AMQPConnection) -> None:
    connection.abandon()
    with pytest.raises(Disconnected):
        await channel.publish("", "q", b"")


@pytest.mark.parametrize(
    ("body", "properties", "text"),
    [
        ("42", None, r"the body is of type str; a body is bytes: write body.encode\(\)"),
        ({}, None, "the body is of type dict; .*json.dumps"),
        (None, None, 'the body is of type NoneType; .*b"" for an empty one'),
        (b"", {"a": 1}, r"the properties are of type dict; write BasicProperties\(content_type=…\)"),
    ],
)
async def test_body_and_properties_of_wrong_types_are_refused_before_they_are_sent(
    channel: AMQPChannel, body: bytes, properties: BasicProperties | None, text: str
) -> None:
    with pytest.raises(TypeError, match=text):
        await channel.publish("", "q", body, properties)
    with pytest.raises(TypeError, match=text):
        async with channel.open_pipeline() as pipeline:
            await pipeline.publish("", "q", body, properties)
