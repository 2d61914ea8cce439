"""Refusals on direct connections: users without permission, and users who are removed."""

import pytest
import trio

from triomq.app import Broker, Permission, User, UserLimits, open_broker
from triomq.clients import AMQPChannel, open_amqp, open_dmp_feed, open_dmp_sink
from triomq.endpoints import AMQP
from triomq.errors import AccessRefused, LimitExceeded, TriomqError

from .conftest import PATIENCE

ALL = Permission(".*", ".*", ".*")


async def test_user_who_may_not_publish_or_read_gets_no_lease() -> None:
    users = {"reader": User(password="reader", permissions={"default": Permission(".*", "^$", "^mine$")})}
    async with open_broker(users=users) as broker:
        listening = await broker.listen(AMQP(port=0))
        async with open_amqp(f"amqp://reader:reader@127.0.0.1:{listening.port}") as connection:
            async with connection.open_channel() as channel:
                with pytest.raises(AccessRefused, match="access to exchange"):
                    async with open_dmp_sink(channel, "amq.topic"):
                        pass
            async with connection.open_channel() as channel:
                await channel.declare_queue("other", exclusive=True)
                with pytest.raises(AccessRefused, match="access to queue 'other'"):
                    async with open_dmp_feed(channel, "other"):
                        pass


async def test_direct_connections_count_as_connections() -> None:
    users = {"one": User(password="one", permissions={"default": ALL}, limits=UserLimits(connections=1))}
    async with open_broker(users=users) as broker:
        listening = await broker.listen(AMQP(port=0))
        async with (
            open_amqp(f"amqp://one:one@127.0.0.1:{listening.port}") as connection,
            connection.open_channel() as channel,
        ):
            with trio.fail_after(PATIENCE), pytest.raises(LimitExceeded, match="connection limit"):
                async with open_dmp_sink(channel, ""):
                    pass


async def test_user_who_is_removed_is_cut_off() -> None:
    users = {"anna": User(password="anna", permissions={"default": ALL})}
    async with open_broker(users=users) as broker:
        listening = await broker.listen(AMQP(port=0))
        url = f"amqp://anna:anna@127.0.0.1:{listening.port}"
        with trio.fail_after(PATIENCE), pytest.raises(TriomqError):
            async with open_amqp(url) as connection, connection.open_channel() as channel:
                await publish_until_the_end(broker, channel)


async def publish_until_the_end(broker: Broker, channel: AMQPChannel) -> None:
    async with open_dmp_sink(channel, "") as sink:
        broker.set_users({"bert": User(password="bert")})
        while True:
            await sink.publish("nowhere", b"x")
            await trio.sleep(0.01)
